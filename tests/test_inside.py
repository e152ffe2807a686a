"""States, gates and gradients of a network while it reads: against the cells' equations and finite differences."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ostinato.core import state as states
from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.vocabulary import STOP, Vocabulary
from ostinato.nn.cells import cells
from ostinato.nn.lm import NeuralLM, to_numpy
from ostinato.nn.networks import networks
from ostinato.nn.unroll import unroll
from ostinato.runs import RunDir
from ostinato.tasks.language import inside
from ostinato.tasks.language.load import Loaded, load
from ostinato.tasks.options import KINDS
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import make_tokeniser

VOCABULARY = Vocabulary("abcde")
IDS = np.array([2, 3, 1, 4, 5, 6, 2, 1])  # "ab", "cdea", each with its end


def model(kind: str, regime: str = "stream", unit: str = "char", **options: Any) -> Loaded:
    """An untrained network of float64 as if it came from a run."""
    torch.manual_seed(0)
    network = networks[kind](VOCABULARY.outputs, KINDS[kind](hidden=5, embedding=4, tied=False, **options)).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    pipeline = Pipeline(Normaliser(()), make_tokeniser(unit))
    return Loaded(RunDir(Path("made")), kind, NeuralLM(network.eval(), VOCABULARY), pipeline, regime, {})


def of_lstm(g: Any, cell: Any, before: Any) -> tuple[Any, Any]:
    """c' = f * c + i * g, h' = o * tanh(c')."""
    after = g.forget * before.cell + g.input * g.candidate
    return g.output * torch.tanh(after), after


def of_1997(g: Any, cell: Any, before: Any) -> tuple[Any, Any]:
    """c' = c + i * g, h' = o * tanh(c')."""
    after = before.cell + g.input * g.candidate
    return g.output * torch.tanh(after), after


def of_normed(g: Any, cell: Any, before: Any) -> tuple[Any, Any]:
    """c' = f * c + i * g, h' = o * tanh(N(c') + d)."""
    after = g.forget * before.cell + g.input * g.candidate
    mean, spread = after.mean(-1, keepdim=True), after.var(-1, unbiased=False, keepdim=True)
    normed = (after - mean) / torch.sqrt(spread + cell.norm_cell.eps) * cell.norm_cell.weight + cell.norm_cell.bias
    return g.output * torch.tanh(normed), after


EQUATIONS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "lstm": of_lstm,
    "lstm-peephole": of_lstm,
    "lstm-coupled": of_lstm,
    "lstm-layer-norm": of_normed,
    "lstm-1997": of_1997,
    "gru": lambda g, cell, before: ((1 - g.update) * g.candidate + g.update * before.hidden,),
    "gru-reset-before": lambda g, cell, before: ((1 - g.update) * g.candidate + g.update * before.hidden,),
    "rnn": lambda g, cell, before: (g.hidden,),
    "min-gru": lambda g, cell, before: ((1 - g.update) * before.hidden + g.update * g.candidate,),
    "min-lstm": lambda g, cell, before: (g.forget * before.hidden + g.input * g.candidate,),
}


@pytest.mark.parametrize("kind", EQUATIONS)
def test_the_gates_make_the_next_state_by_the_equation_of_the_cell(kind: str) -> None:
    cell: Any = cells[kind](4, 3).double()
    xs = torch.randn(2, 6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    seen = unroll(cell, cell.init_state(2), xs)
    for before, after, gates in zip([cell.init_state(2), *seen.states], seen.states, seen.gates, strict=False):
        for ours, expected in zip(after, EQUATIONS[kind](gates, cell, before), strict=True):
            torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_every_cell_with_gates_of_the_hidden_size_is_held_to_its_equation() -> None:
    assert {*EQUATIONS, "gated-delta"} == set(cells)


def stepped(loaded: Loaded, ids: Any) -> list[Any]:
    """The state after each of some ids, read one after the other from the start symbol on."""
    found, state = [], loaded.model.init_state(1)
    for token in [VOCABULARY.start, *ids]:
        _, state = loaded.model.step(state, np.array([token]))
        found.append(state)
    return found[1:]


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn", "min-lstm"])
def test_the_states_of_a_text_are_those_of_its_steps(kind: str) -> None:
    loaded = model(kind, layers=2)
    for layer in (0, 1):
        found = inside.look(loaded, IDS, layer)
        for name in loaded.model.init_state(1).layers[0]._fields:  # type: ignore[attr-defined]
            wanted = np.concatenate([getattr(state.layers[layer], name) for state in stepped(loaded, IDS)])
            np.testing.assert_allclose(found[name], wanted, atol=1e-6)
    with pytest.raises(ConfigError, match="there is no layer 3; it has 2"):
        inside.look(loaded, IDS, 2)


def test_what_can_be_shown_has_the_names_of_the_field() -> None:
    names = {kind: list(inside.look(model(kind), IDS)) for kind in ("lstm", "lstm-1997", "gru", "rnn", "gated-delta")}
    assert names == {
        "lstm": ["hidden", "cell", "input", "forget", "candidate", "output"],
        "lstm-1997": ["hidden", "cell", "input", "candidate", "output"],
        "gru": ["hidden", "reset", "update", "candidate"],
        "rnn": ["hidden"],
        "gated-delta": ["keep", "write", "candidate"],
    }


def test_lines_that_are_read_on_their_own_begin_afresh_and_their_ends_are_never_read() -> None:
    loaded = model("lstm", "sentence")
    found = inside.look(loaded, IDS)["hidden"]
    assert np.isnan(found).all(axis=1).tolist() == [False, False, True, False, False, False, False, True]
    for begin, end in ((0, 2), (3, 7)):
        wanted = np.concatenate([state.layers[0].hidden for state in stepped(loaded, IDS[begin:end])])
        np.testing.assert_allclose(found[begin:end], wanted, atol=1e-6)
    carried = inside.look(model("lstm"), IDS)["hidden"]
    np.testing.assert_allclose(carried[:2], found[:2], atol=1e-6)
    assert np.abs(carried[3:7] - found[3:7]).max() > 0.01


def loss_from(loaded: Loaded, state: Any, ids: Any, place: int) -> float:
    """-log p of the last target when the rest of the ids before it is read from a state, through `step` alone."""
    for token in ids:
        log_probs, state = double_step(loaded, state, token)
    return -float(log_probs[0, IDS[place]])


def double_step(loaded: Loaded, state: Any, token: int) -> tuple[Any, Any]:
    """`step` without rounding to float32."""
    network: Any = loaded.model.network  # type: ignore[attr-defined]
    with torch.inference_mode():
        tensors = states.map_leaves(torch.from_numpy, state)
        features, after = network.features(tensors, torch.tensor([[token]]))
        return network.log_probs(features[:, 0]).numpy(), to_numpy(after)


@pytest.mark.parametrize(
    ("kind", "layers"), [("rnn", 1), ("gru", 1), ("lstm", 2), ("lstm-peephole", 1), ("gated-delta", 1)]
)
@pytest.mark.parametrize("regime", ["stream", "sentence"])
def test_the_gradient_by_an_earlier_state_is_that_of_finite_differences(kind: str, layers: int, regime: str) -> None:
    loaded, place, step = model(kind, regime, layers=layers), 6, 1e-5
    inputs = [VOCABULARY.start, *(IDS[:place] if regime == "stream" else IDS[3:place])]
    found = inside.gradient_norms(loaded, IDS, place)
    assert len(found) == len(inputs) - 1
    state, norms = loaded.model.init_state(1), []
    for read, token in enumerate(inputs[:-1], 1):
        _, state = double_step(loaded, state, int(token))
        slopes = []
        for number, leaf in enumerate(states.leaves(state)):
            for index in np.ndindex(leaf.shape):
                ends = []
                for sign in (1, -1):
                    moved = [other.copy() for other in states.leaves(state)]
                    moved[number][index] += sign * step
                    source = iter(moved)
                    changed = states.map_leaves(lambda _, source=source: next(source), state)
                    ends.append(loss_from(loaded, changed, [int(token) for token in inputs[read:]], place))
                slopes.append((ends[0] - ends[1]) / (2 * step))
        norms.append(np.linalg.norm(slopes))
    np.testing.assert_allclose(found, norms[::-1], rtol=1e-5, atol=1e-9)


def test_the_first_token_hangs_on_no_earlier_state() -> None:
    assert len(inside.gradient_norms(model("gru"), IDS, 0)) == 0
    assert len(inside.gradient_norms(model("gru", "sentence"), IDS, 3)) == 0
    assert len(inside.gradient_norms(model("gru"), IDS, 3)) == 3


def test_features_of_characters_follow_lines_quotes_brackets_and_words() -> None:
    pieces = [*'a "bc" (d)', STOP, *"「是」x", STOP]
    found = inside.text_features(model("lstm"), pieces)
    assert found.line.tolist() == [*range(11), *range(5)]
    assert found.quotes.tolist() == [0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0]
    assert found.brackets.tolist() == [0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]
    assert found.length.tolist() == [1, 0, 0, 2, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0]


def test_a_quote_left_open_ends_with_a_line_that_is_read_on_its_own() -> None:
    pieces = ["“", "a", STOP, "b", STOP]
    assert inside.text_features(model("lstm"), pieces).quotes.tolist() == [1, 1, 1, 1, 1]
    assert inside.text_features(model("lstm", "sentence"), pieces).quotes.tolist() == [1, 1, 1, 0, 0]


def test_the_length_of_a_word_is_what_it_spells() -> None:
    found = inside.text_features(model("lstm", unit="word"), ["Don't", "\uffed,", "白", STOP])
    assert found.length.tolist() == [5, 1, 1, 0]


def test_correlations_are_pearsons_and_blank_where_nothing_changes() -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((20, 3)).astype(np.float32)
    values[:, 2] = 0.25
    values[7] = np.nan
    features = inside.Features(*rng.standard_normal((3, 20)).astype(np.float32), np.ones(20, np.float32))
    found = inside.correlations(values, features)
    keep = np.arange(20) != 7
    for row in range(3):
        for unit in range(2):
            assert found[row, unit] == pytest.approx(
                np.corrcoef(features[row][keep], values[keep, unit])[0, 1], abs=1e-6
            )
    assert np.isnan(found[3]).all()
    assert np.isnan(found[:, 2]).all()


def test_a_model_without_units_says_so(lab_runs: Path) -> None:
    with pytest.raises(MismatchError, match="a model of kind ngram shows no hidden units"):
        inside.look(load(lab_runs / "kn"), IDS)
