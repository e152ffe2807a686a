"""Learning while reading: by hand, never ahead of its score, and what evaluates a text with it."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from corpus import write
from ostinato.cli.app import run as cli
from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.model import LanguageModel
from ostinato.mix import Mixture
from ostinato.nn.lm import NeuralLM
from ostinato.nn.networks import networks
from ostinato.runs import RunDir
from ostinato.tasks.language import companions as task
from ostinato.tasks.language import evaluate
from ostinato.tasks.language.adapt import Adapter, DynamicOptions, gradient_sizes, gradients, thawed
from ostinato.tasks.language.cache import CacheLM
from ostinato.tasks.language.companions import CacheOptions, Companions
from ostinato.tasks.language.load import Loaded
from ostinato.tasks.language.reading import Segment, segments
from ostinato.tasks.options import KINDS
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.stream import TokenStream, encode
from ostinato.text.tokenise import make_tokeniser
from toys import constant_chain, letters

PIPELINE = Pipeline(Normaliser(()), make_tokeniser("blank"))
VOCABULARY = letters(3)
A, B, C = VOCABULARY.ids(["a", "b", "c"]).tolist()
REGIMES = ["sentence", "stream"]
DOCUMENTS = [["a b c", "b", "c c a b", ""], ["a", "b b b c a"]]


def stream_of(documents: list[list[str]] = DOCUMENTS) -> TokenStream:
    return encode(documents, PIPELINE, VOCABULARY)


def lstm(seed: int = 0) -> NeuralLM:
    torch.manual_seed(seed)
    options: Any = KINDS["lstm"]
    network = networks["lstm"](VOCABULARY.outputs, options(hidden=5, layers=2, dropout=0.5))
    for parameter in network.parameters():
        nn.init.normal_(parameter, std=0.7)
    return NeuralLM(network, VOCABULARY)


def loaded(model: LanguageModel, regime: str = "sentence", kind: str = "lstm") -> Loaded:
    return Loaded(RunDir(Path("nowhere")), kind, model, PIPELINE, regime, {})


def all_log_probs(model: LanguageModel, text: TokenStream, regime: str, companions: Companions) -> Any:
    one = loaded(model, regime)
    return np.concatenate(list(task.log_prob_parts(one, task.text_for(one, text, regime, companions), companions)))


class Unigram(nn.Module):
    """p = softmax(bias), whatever was read: a network whose learning can be worked out by hand."""

    def __init__(self, outputs: int):
        super().__init__()
        self.outputs, self.bias = outputs, nn.Parameter(torch.zeros(outputs))

    def init_state(self, batch: int) -> Any:
        return (torch.zeros(batch, 1),)

    def features(self, state: Any, inputs: Tensor) -> tuple[Tensor, Any]:
        return torch.ones(*inputs.shape, 1), state

    def log_probs(self, features: Tensor) -> Tensor:
        return (features * self.bias).log_softmax(dim=-1)

    def loss(self, state: Any, inputs: Tensor, targets: Tensor, weight: Tensor) -> tuple[Tensor, Any]:
        found = self.log_probs(self.features(state, inputs)[0]).gather(-1, targets[..., None])[..., 0]
        return -(found * weight).sum(), state


def unigram() -> NeuralLM:
    network: Any = Unigram(VOCABULARY.outputs)
    return NeuralLM(network, VOCABULARY)


def softmax(logits: dict[int, float]) -> dict[int, float]:
    total = sum(math.exp(value) for value in logits.values())
    return {word: math.exp(value) / total for word, value in logits.items()}


@pytest.mark.parametrize("regime", REGIMES)
def test_a_step_of_a_tiny_softmax_by_hand(regime: str) -> None:
    """Five words, p = 1/5 each. After `a </s>` the gradient is 1/5 - 1/2 for these two and 1/5 for the others."""
    companions = Companions(dynamic=DynamicOptions(0.6, length=2))
    found = all_log_probs(unigram(), stream_of([["a", "a"]]), regime, companions)
    stop = VOCABULARY.stop
    learnt = {word: -0.6 * (1 / 5 - (1 / 2 if word in (A, stop) else 0)) for word in range(5)}
    expected = [1 / 5, 1 / 5, softmax(learnt)[A], softmax(learnt)[stop]]
    np.testing.assert_allclose(np.exp(found), expected, rtol=1e-6)


def test_decay_goes_back_towards_the_trained_weights() -> None:
    """w2 = w1 - rate g1 + decay (0 - w1), with w1 = -rate g0 for trained weights of 0."""
    network: Any = Unigram(VOCABULARY.outputs)
    adapter = Adapter(network, VOCABULARY, DynamicOptions(0.5, decay=0.25, length=1), fresh_lines=False)
    for place in range(2):
        adapter.learn(Segment(np.array([[A]]), np.array([[A]]), place == 0))
    first = {word: -0.5 * (1 / 5 - (word == A)) for word in range(5)}
    now = softmax(first)
    second = [first[word] - 0.5 * (now[word] - (word == A)) - 0.25 * first[word] for word in range(5)]
    np.testing.assert_allclose(network.bias.detach().numpy(), second, rtol=1e-5)


def test_rms_divides_by_the_size_of_gradients() -> None:
    """Sizes from the segments `a` and `b`: sqrt((0.8^2 + 0.2^2) / 2) for these two words, 0.2 for the others."""
    network: Any = Unigram(VOCABULARY.outputs)
    pieces = [Segment(np.array([[A]]), np.array([[word]]), False) for word in (A, B)]
    sizes = gradient_sizes(network, VOCABULARY, pieces, fresh_lines=False)
    large = math.sqrt((0.8**2 + 0.2**2) / 2)
    expected = np.array([large if word in (A, B) else 0.2 for word in range(5)])
    np.testing.assert_allclose(sizes[0].numpy(), expected, rtol=1e-5)
    adapter = Adapter(network, VOCABULARY, DynamicOptions(0.1, "rms", decay=0.5, length=1), False, sizes)
    adapter.learn(pieces[0]._replace(fresh=True))
    gradient = np.array([1 / 5 - (word == A) for word in range(5)])
    moved = -0.1 * gradient / (expected + expected.mean())
    np.testing.assert_allclose(network.bias.detach().numpy(), moved, rtol=1e-5)
    adapter.learn(pieces[0])
    probs = np.exp(moved) / np.exp(moved).sum()
    gradient = probs - np.array([word == A for word in range(5)])
    back = np.minimum(1, 0.5 * expected / expected.mean()) * -moved
    expected_bias = moved - 0.1 * gradient / (expected + expected.mean()) + back
    np.testing.assert_allclose(network.bias.detach().numpy(), expected_bias, rtol=1e-5)


@pytest.mark.parametrize("trained", REGIMES)
@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("length", [1, 3, 100])
def test_at_rate_0_it_is_plain_evaluation(trained: str, regime: str, length: int) -> None:
    one, text = loaded(lstm(), trained), stream_of()
    plain = evaluate.evaluate_stream(one.model, text, PIPELINE, regime, trained=trained)
    found = task.evaluate_with(one, text, regime, Companions(dynamic=DynamicOptions(0.0, length=length)))
    cached = task.evaluate_with(one, text, regime, Companions(cache=CacheOptions(4, 0.0, 0.5)))
    for score in (found, cached):
        assert (score.count, score.nats) == (plain.count, pytest.approx(plain.nats, rel=1e-5))
    assert found.signature == f"{plain.signature}|dynamic:sgd-{length}"
    assert cached.signature == f"{plain.signature}|cache:4"


@pytest.mark.parametrize("regime", REGIMES)
def test_the_text_is_never_seen_before_it_is_scored(regime: str) -> None:
    """Another word later changes no score before it, and some after it."""
    model = lstm()
    both = Companions(CacheOptions(4, 0.3, 0.5), DynamicOptions(0.5, length=3))
    one = all_log_probs(model, stream_of([["a b c a b c a b c", "a b"]]), regime, both)
    two = all_log_probs(model, stream_of([["a b c a c c a b c", "a b"]]), regime, both)
    np.testing.assert_array_equal(one[:4], two[:4])
    assert not np.isclose(one[-3:], two[-3:]).any()


@pytest.mark.parametrize("regime", REGIMES)
@pytest.mark.parametrize("method", ["sgd", "rms"])
def test_the_model_stays_as_it_was_and_the_same_comes_out_again(regime: str, method: Any) -> None:
    model, text = lstm(), stream_of()
    before = {name: tensor.clone() for name, tensor in model.network.state_dict().items()}
    sizes = [
        gradient_sizes(model.network, VOCABULARY, segments(text, VOCABULARY, regime, regime, 3), regime == "sentence")
    ]
    companions = Companions(dynamic=DynamicOptions(0.05, method, 0.1, 3))
    where = task.Text(text, regime, regime, sizes if method == "rms" else ())
    first, second = (np.concatenate(list(task.log_prob_parts(loaded(model), where, companions))) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(
        first, all_log_probs(model, text, regime, Companions(dynamic=DynamicOptions(0.0, length=3)))
    )
    for name, tensor in model.network.state_dict().items():
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize("regime", REGIMES)
def test_a_document_begins_with_the_trained_weights_and_an_empty_cache(regime: str) -> None:
    both = Companions(CacheOptions(4, 0.3, 0.5), DynamicOptions(0.5, length=3))
    together = all_log_probs(lstm(), stream_of(), regime, both)
    apart = [all_log_probs(lstm(), stream_of([document]), regime, both) for document in DOCUMENTS]
    np.testing.assert_allclose(together, np.concatenate(apart), rtol=1e-6)


@pytest.mark.parametrize("regime", REGIMES)
def test_the_gradient_of_a_segment_is_that_of_its_lines(regime: str) -> None:
    """Line by line: from fresh states, whatever stands in a batch. Carried: of the whole, behind the state before."""
    model = lstm()
    network = model.network.eval()
    one = next(iter(segments(stream_of([["a b c", "b", "c c"]]), VOCABULARY, "sentence", regime, 20)))
    found, _ = gradients(network, VOCABULARY, network.init_state(1), one, regime == "sentence")
    total: Any = 0
    state: Any = network.init_state(1)
    begin = 0
    for size in (4, 2, 3):
        state = network.init_state(1) if regime == "sentence" else state
        part = slice(begin, begin + size)
        features, state = network.features(state, torch.from_numpy(one.inputs[:, part]))
        targets = torch.from_numpy(one.targets[:, part])
        total = total - network.log_probs(features).gather(-1, targets[..., None]).sum()
        begin += size
    expected = torch.autograd.grad(total / 9, list(network.parameters()))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)


def test_segments_are_whole_lines_where_lines_are_fresh() -> None:
    text = stream_of()
    for regime, sizes in (("sentence", [4, 2 + 5, 1, 2 + 6]), ("stream", [4, 4, 4, 4, 4])):
        found = list(segments(text, VOCABULARY, regime, regime, 4))
        assert np.concatenate([part.targets[0] for part in found]).tolist() == text.ids.tolist()
        assert sum(part.fresh for part in found) == 2
        if regime == "sentence":
            assert [part.targets.size for part in found] == sizes


def test_every_neural_member_of_a_mixture_learns_and_an_ngram_cannot() -> None:
    chain = constant_chain(0.1, 0.2, 0.3, 0.2, 0.2)
    mixture = Mixture([lstm(0), chain, lstm(1)], [0.5, 0.2, 0.3])
    copied, found = thawed(mixture)
    assert isinstance(copied, Mixture)
    assert copied.members[1] is chain
    assert len(found) == 2
    options = Companions(dynamic=DynamicOptions(0.3, length=3))
    mixed = all_log_probs(mixture, stream_of(), "stream", options)
    parts = [all_log_probs(model, stream_of(), "stream", options) for model in (lstm(0), lstm(1))]
    chained = [chain.table[0, 0, one] for one in stream_of().ids]
    expected = 0.5 * np.exp(parts[0]) + 0.2 * np.exp(chained) + 0.3 * np.exp(parts[1])
    np.testing.assert_allclose(np.exp(mixed), expected, rtol=1e-5)
    with pytest.raises(MismatchError, match="cannot learn"):
        thawed(chain)


@pytest.mark.parametrize("regime", REGIMES)
def test_tuning_finds_the_best_of_its_grid(regime: str) -> None:
    """Every pair of the grid, and weights around the one found, are no better on the text they were tuned on."""
    one, text = loaded(lstm(), regime), stream_of([["a b c a b c b"] * 2, ["c c c a"] * 3])
    tuned = task.tune(one, text, regime, Companions(CacheOptions(6), DynamicOptions(None, length=4)))
    assert tuned.cache is not None
    assert tuned.dynamic is not None
    costs = {
        rate: task.evaluate_with(one, text, regime, Companions(dynamic=DynamicOptions(rate, length=4))).nats
        for rate in task.RATES["sgd"]
    }
    assert costs[tuned.dynamic.rate or 0.0] == min(costs.values())
    best = task.evaluate_with(one, text, regime, tuned).nats
    weight = tuned.cache.weight or 0.0
    for theta in task.THETAS:
        for share in (weight, weight / 2, (1 + weight) / 2):
            cache = CacheOptions(6, share, theta, 1.0)
            assert best <= task.evaluate_with(one, text, regime, Companions(cache, tuned.dynamic)).nats * (1 + 1e-5)


def test_numbers_that_are_given_stay_as_they_are() -> None:
    one, text = loaded(constant_chain(0.1, 0.2, 0.3, 0.2, 0.2), kind="ngram"), stream_of([["a b b a"] * 9])
    tuned = task.tune(one, text, "sentence", Companions(CacheOptions(6, weight=0.125)))
    assert tuned.cache is not None
    assert (tuned.cache.weight, tuned.cache.theta) == (0.125, 0.0)
    assert tuned.cache.decay in task.DECAYS


@pytest.mark.parametrize(
    ("companions", "message"),
    [
        (Companions(CacheOptions(5)), "--cache-weight"),
        (Companions(CacheOptions(5, 0.1)), "--cache-theta"),
        (Companions(CacheOptions(5, 2.0, 0.1)), "between 0 and 1"),
        (Companions(dynamic=DynamicOptions(None)), "rate"),
        (Companions(dynamic=DynamicOptions(-1.0)), "at least 0"),
        (Companions(dynamic=DynamicOptions(0.1, decay=1.0)), "below 1"),
        (Companions(dynamic=DynamicOptions(0.1, length=0)), "segments"),
    ],
)
def test_what_is_lacking_or_out_of_range_is_named(companions: Companions, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        task.evaluate_with(loaded(lstm()), stream_of(), "sentence", companions)


def test_a_model_without_features_has_no_theta() -> None:
    one = loaded(constant_chain(0.1, 0.2, 0.3, 0.2, 0.2), kind="ngram")
    with pytest.raises(ConfigError, match="no features"):
        task.evaluate_with(one, stream_of(), "sentence", Companions(CacheOptions(5, 0.1, 0.5)))


def test_the_beginning_of_a_text_is_whole_lines() -> None:
    text = stream_of()
    for tokens, count in ((1, 4), (4, 4), (5, 4), (6, 6), (12, 12), (13, 12), (14, 14), (1000, len(text))):
        part = task.beginning(text, tokens)
        assert part.ids.tolist() == text.ids[:count].tolist()
        assert part.starts.tolist() == [start for start in text.starts.tolist() if start < count]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An n-gram and an LSTM of a text, and another text whose lines repeat themselves."""
    home = tmp_path_factory.mktemp("home")
    common = ["--text", str(write(home / "text.txt", 200)), "--data.tokeniser", "blank", "--data.min-count", "1", "-q"]
    for name, count in (("again.txt", 40), ("before.txt", 30)):
        (home / name).write_text("cat cat cat cat\n" * count, "utf8")
    assert cli(["train", "--run-dir", str(home / "kn"), *common, "--model.kind", "ngram"]) == 0
    small = ["--model.hidden", "6", "--train.epochs", "1", "--train.rows", "8", "--train.threads", "1"]
    assert cli(["train", "--run-dir", str(home / "lstm"), *common, "--model.kind", "lstm", *small]) == 0
    assert cli(["mix", str(home / "kn"), str(home / "lstm"), "--run-dir", str(home / "mixture"), "-q"]) == 0
    shutil.copytree(home / "lstm", home / "untested")
    shutil.rmtree(home / "untested" / "data" / "test")
    return home


def command(capsys: pytest.CaptureFixture[str], *words: object) -> Any:
    """What `ostinato evaluate` says."""
    capsys.readouterr()
    code = cli(["evaluate", *map(str, words)])
    out, err = capsys.readouterr()
    return SimpleNamespace(code=code, out=out, err=err)


@pytest.mark.parametrize("run", ["kn", "lstm", "mixture"])
def test_a_cache_helps_on_a_text_that_repeats_itself(home: Path, capsys: Any, run: str) -> None:
    again = home / "again.txt"
    plain = json.loads(command(capsys, home / run, again, "--json").out)
    answer = command(capsys, home / run, again, "--cache", 50, "--tune-on", home / "before.txt", "--json")
    tuned = json.loads(answer.out)
    assert "tuned on before.txt" in answer.err
    assert tuned["signature"] == plain["signature"] + "|cache:50"
    assert tuned["perplexity"] < plain["perplexity"]
    numbers = [word for name in ("weight", "theta", "decay") for word in (f"--cache-{name}", tuned["cache"][name])]
    given = json.loads(command(capsys, home / run, again, "--cache", 50, *numbers, "--json").out)
    assert given == tuned


def test_learning_helps_and_the_state_may_be_carried(home: Path, capsys: Any) -> None:
    again, numbers = home / "again.txt", {}
    for state in ("fresh", "carried"):
        for more in ((), ("--dynamic", 0.5), ("--dynamic", "tune", "--dynamic-method", "rms", "--tune-on", "valid")):
            answer = command(capsys, home / "lstm", again, "--state", state, *more, "--json")
            numbers[state, len(more)] = json.loads(answer.out)
        plain, learnt, tuned = (numbers[state, count] for count in (0, 2, 6))
        assert f"state:{'fresh-each-line' if state == 'fresh' else 'carried-over-lines'}" in plain["signature"]
        assert learnt["signature"] == plain["signature"] + "|dynamic:sgd-20"
        assert tuned["signature"] == plain["signature"] + "|dynamic:rms-20"
        assert learnt["perplexity"] < plain["perplexity"]
        assert tuned["perplexity"] < plain["perplexity"]
        assert tuned["dynamic"]["rate"] in task.RATES["rms"]
    assert numbers["fresh", 0]["perplexity"] != numbers["carried", 0]["perplexity"]


def test_a_mixture_measures_gradients_on_the_text_it_keeps(home: Path, capsys: Any) -> None:
    plain = json.loads(command(capsys, home / "mixture", home / "again.txt", "--json").out)
    rms = ("--dynamic", 0.001, "--dynamic-method", "rms")
    learnt = json.loads(command(capsys, home / "mixture", home / "again.txt", *rms, "--json").out)
    assert learnt["perplexity"] < plain["perplexity"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("lstm", "--cache-weight", "0.1"), 2, "--cache-weight is for --cache"),
        (("lstm", "--dynamic-decay", "0.1"), 2, "--dynamic-decay is for --dynamic"),
        (("lstm", "--tune-on", "valid"), 2, "nothing to tune"),
        (("untested", "--cache", "10", "--tune-on", "valid"), 2, "no test text"),
        (("lstm", "again.txt", "--cache", "10", "--tune-on", "again.txt"), 2, "to be scored"),
        (("lstm", "again.txt", "--dynamic", "tune"), 2, "--tune-on valid"),
        (("kn", "again.txt", "--dynamic", "0.1"), 1, "cannot learn"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    home: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int, message: str
) -> None:
    monkeypatch.chdir(home)
    answer = command(capsys, *words)
    assert answer.code == code
    assert message in answer.err.splitlines()[-1]


def test_an_ngram_may_be_mixed_with_a_model_that_has_a_cache() -> None:
    chain, cached = constant_chain(0.1, 0.2, 0.3, 0.2, 0.2), CacheLM(lstm(), 4, 0.2, 0.5, fresh_lines=True)
    mixture = Mixture([chain, cached], [0.4, 0.6])
    inputs = np.array([[VOCABULARY.start, A, B, VOCABULARY.start, B]])
    targets = np.array([[A, B, VOCABULARY.stop, B, VOCABULARY.stop]])
    parts = [np.exp(part.score(part.init_state(1), inputs, targets)[0]) for part in (chain, cached)]
    found = mixture.score(mixture.init_state(1), inputs, targets)[0]
    np.testing.assert_allclose(np.exp(found), 0.4 * parts[0] + 0.6 * parts[1], rtol=1e-5)
