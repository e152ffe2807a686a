"""The benchmark of streaming: every engine steps the same model, and what is missing is said."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ostinato.bench import stream, stream_ours, stream_peers
from ostinato.bench.blocks import Block, Effort
from ostinato.bench.stream_case import StreamCase, model, tokens
from ostinato.bench.stream_check import loss
from ostinato.bench.transformer import Transformer, TransformerCase
from ostinato.core.errors import MismatchError

TINY = StreamCase(16, vocabulary=60)


def make_bench(**more):
    return stream.Bench(**{"threads": 1, "effort": Effort(1, 0.0, 0), "quick": True, "note": lambda text: None} | more)


def block(**answer):
    return Block({"kl": 0.0, "perplexity_factor": 1.0, "steps": 1, "cpu": 0.0, "peak_bytes": 1} | answer, 0.0)


@pytest.fixture
def gradients_after():
    yield
    torch.set_grad_enabled(True)


@pytest.mark.usefixtures("gradients_after")
@pytest.mark.parametrize("engine", ["torch", "onnxruntime-fp32", "onnxruntime-int8"])
def test_a_peer_steps_our_model(engine):
    """Gate orders, biases and the shared embedding are where each of them has these."""
    if engine != "torch":
        pytest.importorskip("onnxruntime")
    found = loss(TINY, stream_peers.reader(engine, TINY, 1))
    assert found["kl"] < (1e-6 if "int8" not in engine else 0.05)
    assert found["difference"] < (1e-4 if "int8" not in engine else 0.5)


@pytest.mark.parametrize(("precision", "far"), [("fp32", 1e-5), ("bf16", 0.1), ("int8", 0.4)])
def test_ours_steps_our_model(precision, far):
    packed = stream_ours.stepper(TINY, precision, 1)
    assert loss(TINY, packed.open(1).read)["difference"] < far


@pytest.mark.usefixtures("gradients_after")
def test_sessions_side_by_side_are_each_the_same_as_alone():
    case = StreamCase(16, sessions=3, vocabulary=60)
    words, read = tokens(case, 5), stream_peers.torch_reader(case, 1)
    together = np.stack([read(word) for word in words])
    whole = model(case)
    for row in range(3):
        log_probs, state = [], whole.init_state(1)
        for word in words[:, row : row + 1]:
            step, state = whole.step(state, word)
            log_probs.append(step[0])
        np.testing.assert_allclose(together[:, row], log_probs, atol=1e-4)


def test_the_loss_of_an_engine_is_its_divergence():
    """An engine that says every word is as likely loses the entropy it ignores: log V - H, averaged."""
    right, words = model(TINY), tokens(TINY, 32)
    state, wanted = right.init_state(1), []
    for word in words:
        log_probs, state = right.step(state, word)
        probs = np.exp(log_probs[0].astype(np.float64))
        wanted.append(np.log(60) + (probs * log_probs[0]).sum())
    found = loss(TINY, lambda word: np.full((1, 60), -np.log(60)))
    assert found["kl"] == pytest.approx(np.mean(wanted), rel=1e-4)
    assert found["perplexity_factor"] == pytest.approx(np.exp(np.mean(wanted)), rel=1e-4)


def test_an_engine_that_steps_another_model_is_refused():
    stream.check("lstm-256", {"int8": [block(kl=0.01)], "fp32": [block(kl=1e-7)], "alone-int8": [block(kl=0.01)]})
    with pytest.raises(MismatchError, match=r"onnxruntime float32 is 0\.01 nats"):
        stream.check("lstm-256", {"onnxruntime-fp32": [block(kl=0.01)]})
    with pytest.raises(MismatchError, match="ours in bf16"):
        stream.check("lstm-256", {"bf16": [block(kl=0.01)]})


def test_less_time_has_a_ratio_above_one_and_a_missing_peer_is_named():
    found = {"int8": [block(p50=40.0, p99=60.0)], "onnxruntime-int8": [block(p50=64.0, p99=90.0)]}
    rows = list(stream.latencies(make_bench(), "lstm-256-int8", found, "int8", "onnxruntime-int8"))
    assert [(row.case, row.unit, row.ratio) for row in rows] == [
        ("lstm-256-int8", "us", 64 / 40),
        ("lstm-256-int8-p99", "us", 90 / 60),
    ]
    del found["onnxruntime-int8"]
    alone = next(stream.latencies(make_bench(), "lstm-256-int8", found, "int8", "onnxruntime-int8"))
    assert (alone.theirs, alone.peer, alone.ratio) == (None, "onnxruntime int8", None)


def test_without_onnxruntime_ours_alone_is_measured(monkeypatch):
    said = []
    monkeypatch.setattr(stream, "find_spec", lambda name: None)
    monkeypatch.setitem(
        stream.CASES, "lstm-256", lambda bench, name: [bench.theirs(StreamCase(16), "onnxruntime-int8")]
    )
    assert list(stream.run(("lstm-256",), note=said.append)) == [None]
    assert "ostinato[bench]" in said[0]


def test_both_models_beside_each_other_have_as_many_parameters():
    other = TransformerCase()
    made = Transformer(TransformerCase(width=56, heads=7, vocabulary=100), 3)
    assert sum(p.numel() for p in made.parameters()) == TransformerCase(56, 7, vocabulary=100).parameters
    assert model(TINY).parameters == TINY.parameters
    assert other.parameters == pytest.approx(StreamCase(512).parameters, rel=0.01)
    assert other.cache_bytes(1000, 4) == 2 * 2 * 448 * 1000 * 4


@torch.no_grad()
def test_the_transformer_reads_its_cache():
    """Word by word with caches gives what attention over all words at once gives."""
    case = TransformerCase(width=8, heads=2, vocabulary=11)
    made = Transformer(case, 5).eval()
    words = torch.tensor([3, 1, 4, 1, 5])
    caches = [torch.full((2, 2, 5, 4), float("nan")) for _ in range(2)]
    for cache in caches:
        cache[:] = 0
    stepped = torch.stack([made(word, caches, place) for place, word in enumerate(words)])
    x = made.embedding(words) + made.positions
    for layer in made.layers:
        query, key, value = layer.read(layer.before(x)).view(5, 3, 2, 4).permute(1, 2, 0, 3)
        scores = (query @ key.transpose(1, 2) / 2).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
        x = x + layer.write((scores.softmax(-1) @ value).transpose(0, 1).reshape(5, 8))
        x = x + layer.outer(torch.nn.functional.gelu(layer.inner(layer.between(x))))
    scores = made.norm(x) @ made.embedding.weight.T + made.bias
    torch.testing.assert_close(stepped, scores.log_softmax(-1), atol=1e-5, rtol=1e-5)


def test_all_rows_of_a_case_come_from_processes_of_their_own(monkeypatch):
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(stream, "StreamCase", lambda hidden, sessions=1: StreamCase(hidden, sessions, vocabulary=64))
    rows = list(stream.one_session(make_bench(), "lstm-16"))
    cases = [f"lstm-16-{precision}{end}" for precision in ("int8", "bf16", "fp32") for end in ("", "-p99")]
    assert [row.case for row in rows] == [*cases, "lstm-16-int8-limit", "lstm-16-bf16-limit"]
    assert all(row.ratio > 0 for row in rows)
    rows = list(stream.sessions(make_bench(quick=False), "sessions-3"))
    assert [row.case for row in rows[-3:]] == [f"sessions-3-{precision}-gain" for precision in stream.OURS]
    assert [row.unit for row in rows] == ["us"] * 6 + ["tokens/s"] * 3


def test_every_case_has_its_name():
    assert list(stream.CASES) == list(stream.get_args(stream.CaseName))
    assert set(stream.PAIRS) == set(stream.OURS) == set(stream.FAR)
