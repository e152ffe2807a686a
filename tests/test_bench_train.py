"""The benchmark of training: both sides begin with the same weights and do the same work."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from torch import nn

from ostinato.bench import growth, train, train_ours, train_peer
from ostinato.bench.blocks import Effort
from ostinato.bench.measure import Sample
from ostinato.bench.serve import Channel
from ostinato.bench.train_case import CASES, EQUAL, LSTM, TrainCase, initial_weights, text_ids, zipf_ids
from ostinato.core.errors import ConfigError, MismatchError

TINY = TrainCase("tiny", 16, 50, rows=4, bptt=6, dropout=0.0, rate=1.0)


def make_bench(folder, **more):
    return train.Bench(folder, None, 1, Effort(1, 0.0, 0), 4, lambda text: None, **more)


def test_zipf_draws_the_words_as_often_as_their_rank_says():
    counts = np.bincount(zipf_ids(10, 200_000), minlength=10)
    shares = 1 / np.arange(1, 11)
    np.testing.assert_allclose(counts / 200_000, shares / shares.sum(), atol=0.005)


def test_a_text_is_cut_to_the_vocabulary_of_the_case(tmp_path):
    text = tmp_path / "text"
    text.write_text("a a a b b c d\n" * 50, "utf8")
    ids = text_ids(text, replace(TINY, vocabulary=4))  # <unk>, </s>, a, b
    assert ids[:8].tolist() == [2, 2, 2, 3, 3, 0, 0, 1]
    with pytest.raises(ConfigError, match="no such file"):
        text_ids(tmp_path / "none", TINY)


def test_an_update_of_the_peer_is_that_of_the_example():
    """Written down here once more, the way of the example: NLLLoss on log_softmax, clipping, p.data.add_."""
    torch.manual_seed(0)
    case = replace(TINY, dropout=0.3)
    model = train_peer.WordModel(case)
    model.load(initial_weights(case))
    text = train_peer.columns(zipf_ids(50, 400), 4)
    inputs, targets = text[:6], text[1:7].reshape(-1)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    torch.manual_seed(5)
    log_probs, _ = model(inputs, model.start(4))
    loss = nn.NLLLoss()(log_probs, targets)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(g) for g in gradients]))
    scale = min(1.0, case.clip / float(norm))
    torch.manual_seed(5)
    said, _ = train_peer.update(model, inputs, targets, model.start(4))
    assert said == pytest.approx(loss.item())
    for (name, after), gradient in zip(model.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(after.detach(), before[name] - case.rate * scale * gradient, atol=1e-4, rtol=1e-3)


def test_both_sides_begin_with_the_same_model():
    """Same weights, same words, float32: the same loss, though one has two biases for a gate and the other one."""
    ids = zipf_ids(TINY.vocabulary, 400)
    theirs = train_peer.WordModel(TINY).eval()
    theirs.load(initial_weights(TINY))
    config = train_ours.config_of(TINY, 1)
    ours = train_ours.make_network(config, train_ours.corpus_of(TINY, ids)).eval()
    train_ours.load_weights(ours, TINY)
    inputs, targets = (torch.from_numpy(ids[at : at + 24].reshape(4, 6)) for at in (0, 24))
    nats, _ = ours.loss(ours.init_state(4), inputs, targets, torch.ones(4, 6))
    log_probs, _ = theirs(inputs.t(), theirs.start(4))
    wanted = nn.functional.nll_loss(log_probs, targets.t().reshape(-1), reduction="sum")
    torch.testing.assert_close(nats, wanted, rtol=1e-5, atol=1e-5)


def test_ours_is_trained_as_the_example_trains():
    config = train_ours.config_of(CASES["lstm-200"], 2)
    assert (config.model.hidden, config.model.layers, config.model.dropout) == (200, 2, 0.2)
    options = config.train
    assert (options.optimiser, options.rate, options.clip, options.clip_at) == ("sgd", 20.0, "norm", 0.25)
    assert (options.rows, options.bptt, options.schedule, options.momentum) == (20, 35, "constant", 0.0)
    assert config.data.regime == "stream"


def test_both_sides_come_to_the_same_loss_in_processes_of_their_own(tmp_path):
    row = train.beside_pytorch(make_bench(tmp_path), replace(TINY, rate=0.5))
    said = row.to_json("train")
    assert said["ratio"] == pytest.approx(said["ours"] / said["peer"])
    assert said["ours_loss"] == pytest.approx(said["peer_loss"], rel=0.01)
    assert said["peer_name"] == "PyTorch word_language_model"
    assert min(said["ours_peak_bytes"], said["peer_peak_bytes"]) > 50e6
    json.dumps(said)


def test_sides_that_do_not_learn_the_same_are_not_compared():
    train.check_losses(TINY, 5.0, 5.2)
    for wrong in (4.0, 6.0, float("nan")):
        with pytest.raises(MismatchError, match="do not do the same work"):
            train.check_losses(TINY, wrong, 5.0)


def test_cells_of_a_scan_have_about_as_many_parameters_as_the_lstm_beside_them():
    for case in EQUAL.values():
        sizes = []
        for one in (case, LSTM):
            config = train_ours.config_of(one, 1)
            corpus = train_ours.corpus_of(one, zipf_ids(one.vocabulary, 1000))
            sizes.append(sum(p.numel() for p in train_ours.make_network(config, corpus).parameters()))
        assert sizes[0] == pytest.approx(sizes[1], rel=0.03)


def test_a_layer_is_half_of_what_two_more_take(monkeypatch, tmp_path):
    """By hand: H = 256, 700 tokens in 0.02 s, with one layer in 0.01 s, with three in 0.03 s, so 0.01 s a layer."""
    case = TrainCase("growth", 256)
    speeds = [Sample((case.tokens / seconds,)) for seconds in (0.02, 0.01, 0.03)]
    monkeypatch.setattr(growth, "measured", lambda bench, what, *cases: speeds)
    peaks = {
        name: Sample((rate,)) for name, rate in (("bf16", 900.0), ("fp32", 200.0), *((r, 100.0) for r in growth.READ))
    }
    rows = {row.what: row for row in growth.reached(make_bench(tmp_path), case, peaks)}
    update = 6 * 700 * (2 * 8 * 256**2 + 10_000 * 256) / 0.02 / 1e9
    layer = 6 * 700 * 8 * 256**2 / 0.01 / 1e9
    assert rows["hidden 256, update: products"].ours.median == pytest.approx(update)
    assert rows["hidden 256, update: products"].ratio == pytest.approx(update / 900)
    assert rows["hidden 256, layer: products"].ours.median == pytest.approx(layer)
    hidden = rows["hidden 256, layer: hidden matrix"]
    assert hidden.ours.median == pytest.approx(35 * 2 * (4 * 256 * 256) * 2 / 0.01 / 1e9)
    assert hidden.peer == "reading 0.5 MB"


def test_every_case_has_its_name(monkeypatch):
    monkeypatch.setattr(train, "beside_pytorch", lambda bench, case: case.name)
    monkeypatch.setattr(train, "beside_lstm", lambda bench, name: name)
    assert list(train.run()) == [*CASES, *EQUAL]
    assert list(train.run(quick=True)) == ["lstm-200", "char-512"]
    assert list(train.run(("min-gru",))) == ["min-gru"]


def test_the_text_begins_again_at_its_end(tmp_path, monkeypatch):
    """Seventy updates of a text that has sixteen a pass: there is no epoch's end to validate at."""
    answers = []

    class Lines(Channel):
        def __init__(self):
            pass

        def requests(self):
            return iter([{"updates": 70}])

        def say(self, answer):
            answers.append(answer)

    monkeypatch.setattr(train_ours, "Channel", Lines)
    monkeypatch.setattr(train_peer, "Channel", Lines)
    np.save(tmp_path / "ids.npy", zipf_ids(TINY.vocabulary, 400))
    for side in (train_ours, train_peer):
        with suppress(side.Ended):
            side.serve(TINY, tmp_path / "ids.npy", 1)
    assert [answer["updates"] for answer in answers] == [70, 70]
    assert asdict(TINY)["name"] == "tiny"
