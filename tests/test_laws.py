"""The laws of state, for every kind of language model there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core import state as states
from ostinato.core.errors import FormatError, MismatchError, ShapeError
from ostinato.core.model import LanguageModel, score_by_steps
from ostinato.core.vocabulary import Ids, Vocabulary
from ostinato.mix import Mixture
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.store import open_model, save_model
from ostinato.ngram.table import BackoffTable
from ostinato.nn.heads.options import HeadOptions
from ostinato.nn.lm import NeuralLM
from ostinato.nn.networks import networks
from ostinato.nn.options import (
    KINDS,
    ElmanOptions,
    GRUOptions,
    HiddenOptions,
    LSTMOptions,
    MinLSTMOptions,
    NPLMOptions,
    ScanOptions,
)
from ostinato.runs import load_arrays, save_arrays
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import make_tokeniser

VOCABULARY = Vocabulary(["a", "b", "c", "天", "地"])
NEURAL: dict[str, tuple[str, Any]] = {
    **{kind: (kind, KINDS[kind](hidden=6)) for kind in networks},
    "rnn-relu": ("rnn", ElmanOptions(hidden=6, activation="relu", recurrent_init="identity")),
    "lstm-deep": ("lstm", LSTMOptions(hidden=6, layers=2, embedding=4, residual=True, layer_norm=True, biases=2)),
    "lstm-zoneout": ("lstm", LSTMOptions(hidden=6, zoneout=0.3, weight_dropout=0.3, recurrent_dropout=0.3)),
    "lstm-coupled-skip": ("lstm-coupled", LSTMOptions(hidden=6, layers=2, embedding=4, skip=True, feed_forward="gelu")),
    "gru-untied": ("gru", GRUOptions(hidden=6, embedding=3, tied=False, head=HeadOptions("adaptive", cutoffs=(3,)))),
    "min-gru-deep": (
        "min-gru",
        ScanOptions(hidden=6, layers=3, residual=True, layer_norm=True, feed_forward="swiglu", zoneout=0.2),
    ),
    "gru-mixture": ("gru-reset-before", HiddenOptions(hidden=6, variational=True, head=HeadOptions("mixture"))),
    "min-lstm-sampled": ("min-lstm", MinLSTMOptions(hidden=6, head=HeadOptions("sampled"))),
    "nplm": ("nplm", NPLMOptions(order=3, hidden=6, embedding=3)),
    "nplm-direct": ("nplm", NPLMOptions(order=4, hidden=6, embedding=3, direct=True)),
}


def neural(name: str) -> LanguageModel:
    torch.manual_seed(0)
    kind, options = NEURAL[name]
    network = networks[kind](VOCABULARY.outputs, options)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.6)
    return NeuralLM(network, VOCABULARY)


def ngram_table(smoothing: str, thresholds: tuple[int, ...] = ()) -> BackoffTable:
    generator = np.random.default_rng(0)
    ids = generator.integers(0, VOCABULARY.outputs, 400)
    ids[-1] = VOCABULARY.stop
    return smoothings[smoothing]().fit(count(ids, VOCABULARY, 3), thresholds=thresholds)


def ngram(smoothing: str) -> LanguageModel:
    return NGramModel(ngram_table(smoothing), VOCABULARY)


MAKERS: dict[str, Callable[[], LanguageModel]] = {
    **{name: (lambda name=name: neural(name)) for name in NEURAL},
    **{name: (lambda name=name: ngram(name)) for name in smoothings},
    "pruned": lambda: NGramModel(ngram_table("modified-kneser-ney", (0, 0, 1)), VOCABULARY),
    "compact": lambda: CompactModel(CompactTable.from_table(ngram_table("modified-kneser-ney")), VOCABULARY),
    "mixture": lambda: Mixture([ngram("modified-kneser-ney"), neural("lstm"), neural("nplm")], [0.5, 0.3, 0.2]),
}

streams = st.lists(st.integers(0, VOCABULARY.outputs - 1), min_size=1, max_size=9)


@pytest.fixture(params=MAKERS, scope="module")
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return MAKERS[request.param]()


def pair(ids: list[int]) -> tuple[Ids, Ids]:
    """Inputs and targets [1, T]: the labels are the inputs shifted by one, behind the start symbol."""
    return np.array([[VOCABULARY.start, *ids[:-1]]]), np.array([ids])


def quick(test: Callable[..., None]) -> Callable[..., None]:
    return settings(max_examples=15, deadline=None)(test)


def test_every_registered_kind_of_model_is_under_the_laws() -> None:
    from ostinato.tasks.options import KINDS

    assert {kind for kind, _ in NEURAL.values()} == set(networks)
    assert set(networks) | {"ngram"} == set(KINDS)
    assert set(smoothings) <= set(MAKERS)


@quick
@given(ids=streams)
def test_score_equals_a_fold_of_step(model: LanguageModel, ids: list[int]) -> None:
    inputs, targets = pair(ids)
    fast, end = model.score(model.init_state(1), inputs, targets)
    slow, last = score_by_steps(model, model.init_state(1), inputs, targets)
    np.testing.assert_allclose(fast, slow, atol=1e-5)
    assert states.same(end, last, atol=1e-5)
    assert fast.dtype == np.float32


@quick
@given(ids=streams, data=st.data())
def test_a_stream_may_be_cut_anywhere(model: LanguageModel, ids: list[int], data: st.DataObject) -> None:
    inputs, targets = pair(ids)
    cut = data.draw(st.integers(0, len(ids)))
    whole, end = model.score(model.init_state(1), inputs, targets)
    first, middle = model.score(model.init_state(1), inputs[:, :cut], targets[:, :cut])
    second, last = model.score(middle, inputs[:, cut:], targets[:, cut:])
    np.testing.assert_allclose(np.hstack([first, second]), whole, atol=1e-5)
    assert states.same(last, end, atol=1e-5)


@quick
@given(rows=st.lists(streams, min_size=2, max_size=4))
def test_batch_size_padding_and_other_rows_never_change_a_row(model: LanguageModel, rows: list[list[int]]) -> None:
    width = max(map(len, rows))
    inputs = np.full((len(rows), width), VOCABULARY.pad)
    targets = np.full((len(rows), width), VOCABULARY.stop)
    for place, ids in enumerate(rows):
        inputs[place, : len(ids)], targets[place, : len(ids)] = (side[0] for side in pair(ids))
    together, _ = model.score(model.init_state(len(rows)), inputs, targets)
    for place, ids in enumerate(rows):
        alone, _ = model.score(model.init_state(1), *pair(ids))
        np.testing.assert_allclose(together[place, : len(ids)], alone[0], atol=1e-5)


@quick
@given(ids=streams)
def test_every_distribution_sums_to_one(model: LanguageModel, ids: list[int]) -> None:
    state = model.init_state(2)
    table = getattr(model, "table", None)
    if table is not None and not table.normalised:
        assert table.smoothing == "stupid-backoff"  # scores, and it says so
        return
    rounding = 1e-4 if isinstance(table, CompactTable) else 1e-5
    for token in [VOCABULARY.start, *ids]:
        log_probs, state = model.step(state, np.array([token, VOCABULARY.start]))
        assert log_probs.shape == (2, VOCABULARY.outputs)
        np.testing.assert_allclose(np.exp(log_probs.astype(np.float64)).sum(axis=1), 1, atol=rounding)


@quick
@given(ids=streams)
def test_a_state_is_a_value(model: LanguageModel, ids: list[int]) -> None:
    _, state = model.score(model.init_state(1), *pair(ids))
    before = states.to_bytes(state)
    model.step(state, np.array([2]))
    model.score(state, np.array([[2, 3]]), np.array([[3, 1]]))
    assert states.to_bytes(state) == before


@quick
@given(ids=streams)
def test_states_can_be_saved_taken_and_stacked_exactly(model: LanguageModel, ids: list[int]) -> None:
    _, one = model.score(model.init_state(1), *pair(ids))
    two = model.init_state(1)
    both = states.stack([one, two])
    assert states.batch_size(both) == 2
    assert states.same(states.take(both, np.array([1, 0, 0])), states.stack([two, one, one]))
    assert states.same(
        states.where(np.array([True, False]), both, states.take(both, np.array([1, 0]))), states.stack([one, one])
    )
    assert states.same(states.from_bytes(states.to_bytes(both), model.init_state(1)), both)
    assert type(states.from_bytes(states.to_bytes(both), model.init_state(1))) is type(both)


def test_a_state_of_another_model_or_a_cut_one_is_refused(model: LanguageModel) -> None:
    data = states.to_bytes(model.init_state(1))
    with pytest.raises(FormatError):
        states.from_bytes(data[:-1], model.init_state(1))
    with pytest.raises(FormatError):
        states.from_bytes(b"[]\n" + b"x" * 8, model.init_state(1))


def test_ids_of_another_vocabulary_are_refused(model: LanguageModel) -> None:
    good, bad = np.array([[VOCABULARY.start]]), np.array([[len(VOCABULARY)]])
    with pytest.raises(MismatchError, match="vocabulary"):
        model.score(model.init_state(1), bad, good * 0)
    with pytest.raises(MismatchError):
        model.step(model.init_state(1), bad[0])
    with pytest.raises(MismatchError):
        model.score(model.init_state(1), good, bad)
    with pytest.raises(ShapeError, match="never predicted"):
        model.score(model.init_state(1), good, good)
    with pytest.raises(ShapeError):
        model.score(model.init_state(1), good, np.zeros((1, 2), np.int64))


def test_the_state_does_not_grow_with_what_was_read(model: LanguageModel) -> None:
    ids = np.random.default_rng(1).integers(0, VOCABULARY.outputs, (1, 300))
    _, end = model.score(model.init_state(1), ids, ids)
    assert states.nbytes(end) == states.nbytes(model.init_state(1))


@pytest.mark.parametrize("name", [name for name in MAKERS if name != "mixture"])
def test_saving_and_loading_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    model = MAKERS[name]()
    inputs, targets = pair([2, 3, 4, 0, 5, 1])
    before, _ = model.score(model.init_state(1), inputs, targets)
    if isinstance(model, NGramModel | CompactModel):
        pipeline = Pipeline(Normaliser(()), make_tokeniser("blank"))
        save_model(tmp_path / "m.ngram", model, pipeline)
        stored = open_model(tmp_path / "m.ngram")
        assert stored.pipeline == pipeline
        again: LanguageModel = stored.model
    else:
        assert isinstance(model, NeuralLM)
        weights = {key: tensor.numpy() for key, tensor in model.network.state_dict().items()}
        save_arrays(tmp_path / "m.safetensors", weights, {})
        arrays, _ = load_arrays(tmp_path / "m.safetensors")
        kind, options = NEURAL[name]
        network = networks[kind](VOCABULARY.outputs, options)
        network.load_state_dict({key: torch.from_numpy(array) for key, array in arrays.items()})
        again = NeuralLM(network, VOCABULARY)
    np.testing.assert_array_equal(again.score(again.init_state(1), inputs, targets)[0], before)


def test_an_ngram_reads_a_stop_as_the_beginning_of_a_line() -> None:
    """Sentence by sentence and one continuous stream give an n-gram the same numbers."""
    model = ngram("modified-kneser-ney")
    first, second = [2, 3, VOCABULARY.stop], [4, 2, VOCABULARY.stop]
    apart = np.hstack([model.score(model.init_state(1), *pair(ids))[0] for ids in (first, second)])
    together, _ = model.score(model.init_state(1), *pair(first + second))
    np.testing.assert_array_equal(together, apart)
