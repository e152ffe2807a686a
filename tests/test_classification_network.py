"""The classifier's network and its poolings: padding and batches change nothing, and online is the same."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from ostinato.core.errors import ConfigError
from ostinato.core.state import leaves
from ostinato.nn.classifier import Classifier, backwards
from ostinato.nn.options import KINDS, RecurrentOptions
from ostinato.nn.pooling import Attention, Last, Max, Mean, poolings

CELLS = [kind for kind in KINDS if kind != "nplm"]
POOLINGS = list(poolings)
WORDS, LABELS, PAD = 9, 3, 8


def network(kind: str = "lstm", pooling: tuple[str, ...] = ("max",), **options: Any) -> Classifier:
    """In float64 and with large weights, so that what is masked wrongly is seen."""
    torch.manual_seed(3)
    made: Any = KINDS[kind](hidden=8, embedding=5, **options)
    assert isinstance(made, RecurrentOptions)
    found = Classifier(kind, WORDS, LABELS, made, pooling).double().eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.normal_(0, 0.7)
    return found


def batch(rows: list[list[int]], columns: int = 0, fill: int = PAD) -> tuple[Tensor, Tensor]:
    """Rows as ids and lengths, with so many columns at least, `fill` behind the shorter ones."""
    width = max(columns, *(len(row) for row in rows))
    return torch.tensor([row + [fill] * (width - len(row)) for row in rows]), torch.tensor([len(row) for row in rows])


texts = st.lists(st.lists(st.integers(0, WORDS - 2), min_size=1, max_size=7), min_size=1, max_size=4)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
@settings(deadline=None, max_examples=25)
@given(rows=texts, more=st.integers(0, 5), fill=st.integers(0, WORDS - 1))
def test_what_stands_beyond_a_row_and_which_rows_stand_beside_it_change_nothing(
    pooling: str, bidirectional: bool, rows: list[list[int]], more: int, fill: int
) -> None:
    judge = network(pooling=(pooling,), bidirectional=bidirectional)
    alone = torch.cat([judge(*batch([row])) for row in rows])
    width = more + max(map(len, rows))
    torch.testing.assert_close(judge(*batch(rows, width, fill)), alone, rtol=0, atol=1e-12)
    torch.testing.assert_close(judge(*batch(rows[::-1], width)), alone.flip(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
def test_every_cell_answers_in_one_and_both_directions(kind: str, layers: int) -> None:
    """The gradient of a row's loss does not reach what stands beyond it."""
    for bidirectional in (False, True):
        judge = network(kind, layers=layers, bidirectional=bidirectional)
        xs = torch.randn(2, 6, 5, dtype=torch.float64, requires_grad=True)
        lengths = torch.tensor([6, 3])
        log_probs = judge.judge(judge.stack.read(xs, lengths), lengths)
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(2, dtype=torch.float64))
        (gradient,) = torch.autograd.grad(log_probs[1, 0], xs)
        assert gradient[1, :3].abs().sum() > 0
        assert gradient[1, 3:].abs().sum() == 0
        assert gradient[0].abs().sum() == 0


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("pooling", [(name,) for name in POOLINGS] + [("mean", "max", "attention")])
def test_a_label_after_each_word_is_that_of_all_words_so_far(kind: str, pooling: tuple[str, ...]) -> None:
    judge = network(kind, pooling, layers=2)
    ids = torch.randint(0, WORDS - 1, (2, 6), generator=torch.Generator().manual_seed(0))
    state = judge.init_state(2)
    for time in range(6):
        log_probs, state = judge.step(state, ids[:, time])
        whole = judge(ids[:, : time + 1], torch.tensor([time + 1, time + 1]))
        torch.testing.assert_close(log_probs, whole, rtol=0, atol=1e-11)


def test_the_state_does_not_grow_with_what_was_read() -> None:
    judge = network(pooling=tuple(POOLINGS))
    state = judge.init_state(1)
    sizes = []
    for word in (0, 1, 2):
        sizes.append([tuple(leaf.shape) for leaf in leaves(state)])
        _, state = judge.step(state, torch.tensor([word]))
    assert sizes[0] == sizes[1] == sizes[2]


def test_a_bidirectional_network_says_why_it_cannot_answer_online() -> None:
    with pytest.raises(ConfigError, match="reads from the end too"):
        network(bidirectional=True).init_state(1)


def test_the_last_outputs_of_both_directions_are_the_last_states_of_torch() -> None:
    """Over packed sequences torch.nn.LSTM gives each direction's state after all it reads."""
    judge = network(pooling=("last",), bidirectional=True)
    theirs = nn.LSTM(5, 8, batch_first=True, bidirectional=True).double()
    for ours, suffix in ((judge.stack.layers[0], ""), (judge.stack.backwards[0], "_reverse")):
        weights: Any = ours
        for name, tensor in zip(("w_ih", "w_hh", "b_ih", "b_hh"), weights.torch_weights(), strict=True):
            long = {"w": "weight", "b": "bias"}[name[0]] + name[1:]
            getattr(theirs, f"{long}_l0{suffix}").data.copy_(tensor)
    ids, lengths = batch([[1, 2, 3, 4, 5], [6, 7], [3]])
    packed = pack_padded_sequence(judge.embed(ids), lengths, batch_first=True, enforce_sorted=False)
    _, (hidden, _) = theirs(packed)
    pooled = judge.pooling["last"](judge.read(ids, lengths), lengths)
    torch.testing.assert_close(pooled, torch.cat([hidden[0], hidden[1]], dim=1), rtol=0, atol=1e-12)


def test_pooling_by_hand() -> None:
    """The second row has two steps; what stands in its third would win every maximum."""
    xs = torch.tensor([[[1.0, 4.0], [2.0, -1.0], [6.0, 0.0]], [[1.0, 3.0], [5.0, 1.0], [99.0, 99.0]]])
    lengths = torch.tensor([3, 2])
    assert Mean(2)(xs, lengths).tolist() == [[(1 + 2 + 6) / 3, (4 - 1 + 0) / 3], [(1 + 5) / 2, (3 + 1) / 2]]
    assert Max(2)(xs, lengths).tolist() == [[6, 4], [5, 3]]
    assert Last(2)(xs, lengths).tolist() == [[6, 0], [5, 1]]
    assert Last(2, torch.tensor([False, True]))(xs, lengths).tolist() == [[6, 4], [5, 3]]


def test_attention_by_hand() -> None:
    """W = I, b = 0, v = (1, 0): the score is tanh of the first number."""
    attention = Attention(2)
    with torch.no_grad():
        attention.read.weight.copy_(torch.eye(2))
        attention.read.bias.zero_()
        attention.query.copy_(torch.tensor([1.0, 0.0]))
    xs = torch.tensor([[[0.5, 1.0], [-1.0, 2.0], [9.0, 9.0]]])
    first, second = math.exp(math.tanh(0.5)), math.exp(math.tanh(-1.0))
    weights = attention.weights(xs, torch.tensor([2]))
    torch.testing.assert_close(weights, torch.tensor([[first, second, 0.0]]) / (first + second))
    mean = [[(0.5 * first - 1.0 * second) / (first + second), (1.0 * first + 2.0 * second) / (first + second)]]
    torch.testing.assert_close(attention(xs, torch.tensor([2])), torch.tensor(mean))


@settings(deadline=None, max_examples=25)
@given(rows=texts)
def test_attention_sums_to_one_inside_a_row_and_is_nothing_beyond(rows: list[list[int]]) -> None:
    judge = network(pooling=("attention",))
    ids, lengths = batch(rows, 9)
    weights = judge.weights(judge.read(ids, lengths), lengths)
    inside = torch.arange(9) < lengths[:, None]
    assert (weights[~inside] == 0).all()
    torch.testing.assert_close(weights.sum(1), torch.ones(len(rows), dtype=torch.float64))


def test_a_network_without_attention_has_no_weights_to_show() -> None:
    judge = network()
    with pytest.raises(ConfigError, match=r"pools by max.*model\.pooling attention"):
        judge.weights(torch.zeros(1, 1, 8, dtype=torch.float64), torch.tensor([1]))


def test_pooled_layers_of_a_skipping_stack_know_their_directions() -> None:
    stack = network(bidirectional=True, layers=2, skip=True).stack
    assert backwards(stack).tolist() == ([False] * 8 + [True] * 8) * 2


def test_noise_falls_on_words_in_training_only() -> None:
    torch.manual_seed(0)
    options: Any = KINDS["lstm"](hidden=8, dropout=0.0)
    judge = Classifier("lstm", WORDS, LABELS, options, ("max",), hidden_words=0.9)
    ids, lengths = batch([[1, 2, 3, 4, 5, 6, 7]])
    unknown = judge.embedding.weight[0]
    read = judge.train().embed(ids)
    assert 1 <= (read == unknown).all(-1).sum() <= 7
    torch.testing.assert_close(judge.eval().embed(ids), judge.embedding(ids))
    assert judge(ids, lengths).shape == (1, LABELS)
