"""The tagger's network and what reads the spelling of words: padding and batches change nothing, online is the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from ostinato.core.errors import ConfigError
from ostinato.core.state import leaves
from ostinato.nn.crf import Allowed
from ostinato.nn.options import KINDS, RecurrentOptions
from ostinato.nn.spelling import LetterCNN, LetterLSTM, Speller, Spellings, readers
from ostinato.nn.tagger import Tagger
from ostinato.text.schemes import transitions, well_formed

CELLS = [kind for kind in KINDS if kind != "nplm"]
WORDS, LABELS = 9, 3  # the last two words are the start symbol and padding
BIO = ("B-X", "I-X", "O")
FORMS = Spellings(  # of words 0 to 6, and of padding
    torch.tensor([[1, 2, 3], [1, 2, 0], [4, 0, 0], [2, 2, 0], [3, 1, 2], [4, 4, 4], [1, 0, 0]]),
    torch.tensor([3, 2, 1, 2, 3, 3, 1]),
    torch.tensor([[0, 1], [0, 2], [1, 2], [3, 3], [2, 1], [0, 0], [1, 1]]),
    torch.tensor([0, 1, 1, 0, 1, 0, 0]),
)


def bio() -> Allowed:
    may = transitions(BIO, "bio")
    return Allowed(start=may.first, between=may.after, end=may.last)


def network(
    kind: str = "lstm", reader: str = "cnn", output: str = "softmax", pairs: bool = True, **options: Any
) -> Tagger:
    """In float64 and with large weights, so that what is masked wrongly is seen."""
    torch.manual_seed(3)
    made: Any = KINDS[kind](hidden=8, embedding=5, **options)
    assert isinstance(made, RecurrentOptions)
    speller = Speller(readers[reader](5, 4, 3), 4, 3, 2)
    sizes = (4, 3) if pairs else (0, 0)
    found = Tagger(kind, WORDS, LABELS, made, speller, *sizes, 0, output, bio())
    found = found.double().eval()
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.normal_(0, 0.7)
        if pairs:
            found.pair_keys.copy_(torch.tensor([1 * WORDS + 2, 3 * WORDS + 3, 5 * WORDS, 7 * WORDS + 1]))
    return found


def batch(rows: list[list[int]], columns: int = 0, fill: int = 8) -> tuple[Tensor, Tensor, Tensor]:
    """Rows as ids, lengths and places in FORMS, with so many columns at least, `fill` behind the shorter ones."""
    width = max(columns, *(len(row) for row in rows))
    ids = torch.tensor([row + [fill] * (width - len(row)) for row in rows])
    return ids, torch.tensor([len(row) for row in rows]), ids.clamp_max(6)


def emissions(tagger: Tagger, *given: Any) -> tuple[Tensor, Tensor]:
    ids, lengths, places = batch(*given)
    return tagger(ids, lengths, places, FORMS), lengths


sentences = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=7), min_size=1, max_size=4)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("output", ["softmax", "crf"])
@settings(max_examples=30, deadline=None)
@given(rows=sentences, more=st.integers(0, 5), fill=st.integers(0, WORDS - 1))
def test_what_stands_beyond_a_row_and_which_rows_stand_beside_it_change_nothing(
    output: str, bidirectional: bool, rows: list[list[int]], more: int, fill: int
) -> None:
    tagger = network(output=output, bidirectional=bidirectional)
    width = more + max(map(len, rows))
    wide, lengths = emissions(tagger, rows, width, fill)
    labels = torch.tensor(
        [[(word + place) % LABELS for place, word in enumerate(row + [0] * width)][:width] for row in rows]
    )
    total = tagger.loss(wide, labels, lengths)
    alone = []
    for row, wanted in enumerate(rows):
        single, length = emissions(tagger, [wanted])
        torch.testing.assert_close(wide[row, : len(wanted)], single[0], rtol=0, atol=1e-12)
        alone.append(tagger.loss(single, labels[row : row + 1, : len(wanted)], length))
        best, score = tagger.decode(single, length)
        together, scores = tagger.decode(wide, lengths)
        assert together[row, : len(wanted)].tolist() == best[0].tolist()
        assert scores[row] == pytest.approx(score[0], abs=1e-11)
    torch.testing.assert_close(total, torch.stack(alone).sum(), rtol=0, atol=1e-11)
    back = emissions(tagger, rows[::-1], width)[0]
    torch.testing.assert_close(tagger.loss(back, labels.flip(0), lengths.flip(0)), total, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", CELLS)
@pytest.mark.parametrize("layers", [1, 2])
def test_every_cell_tags_in_one_and_both_directions(kind: str, layers: int) -> None:
    """A label hears of later words only in both directions, and never of what stands beyond its row."""
    for bidirectional in (False, True):
        tagger = network(kind, layers=layers, bidirectional=bidirectional)
        ids, lengths, places = batch([[1, 2, 3, 4, 5, 6], [3, 3, 0]])
        spelled = tagger.speller(FORMS)[places].detach().requires_grad_()
        found = tagger.emissions(ids, lengths, spelled)
        (gradient,) = torch.autograd.grad(found[1, 1, 0], spelled)
        assert gradient[1, :2].abs().sum() > 0
        assert (gradient[1, 2].abs().sum() > 0) == bidirectional
        assert gradient[1, 3:].abs().sum() == gradient[0].abs().sum() == 0


@pytest.mark.parametrize("kind", CELLS)
def test_a_label_after_each_word_is_that_of_the_whole_sentence(kind: str) -> None:
    tagger = network(kind, layers=2)
    ids, lengths, places = batch([[1, 2, 3, 3, 5, 0], [3, 3, 2, 1, 2, 6]])
    whole = tagger(ids, lengths, places, FORMS)
    labels, log_probs = tagger.decode(whole, lengths)
    state, spelled, total = tagger.init_state(2), tagger.speller(FORMS), torch.zeros(2, dtype=torch.float64)
    for time in range(6):
        found, state = tagger.step(state, ids[:, time], spelled[places[:, time]])
        torch.testing.assert_close(found, whole[:, time].log_softmax(-1), rtol=0, atol=1e-11)
        assert state.label.tolist() == labels[:, time].tolist()
        total += found.gather(1, state.label[:, None])[:, 0]
    np.testing.assert_allclose(log_probs, total.detach().numpy(), atol=1e-10)


def test_a_state_is_a_value_of_fixed_size() -> None:
    tagger = network()
    begin = tagger.init_state(1)
    before = [leaf.clone() for leaf in leaves(begin)]
    state, spelled = begin, tagger.speller(FORMS)
    for word in (0, 1, 2):
        _, state = tagger.step(state, torch.tensor([word]), spelled[word : word + 1])
        assert [leaf.shape for leaf in leaves(state)] == [leaf.shape for leaf in before]
    for now, then in zip(leaves(begin), before, strict=True):
        assert torch.equal(now, then)


@pytest.mark.parametrize(
    ("options", "reason"), [({"bidirectional": True}, "from the end too"), ({"output": "crf"}, "a CRF")]
)
def test_what_needs_the_whole_sentence_says_why_it_cannot_answer_online(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        network(**options).init_state(1)


@pytest.mark.parametrize("output", ["softmax", "crf"])
@pytest.mark.parametrize("bidirectional", [False, True])
@settings(max_examples=30, deadline=None)
@given(rows=sentences, seed=st.integers(0, 99))
def test_answers_are_well_formed(output: str, bidirectional: bool, rows: list[list[int]], seed: int) -> None:
    tagger = network(output=output, bidirectional=bidirectional)
    lengths = torch.tensor([len(row) for row in rows])
    random = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(len(rows), int(lengths.max()), LABELS, generator=random, dtype=torch.float64)
    labels, _ = tagger.decode(scores, lengths)
    for row, length in zip(labels, lengths.tolist(), strict=True):
        assert well_formed([BIO[label] for label in row[:length]], "bio")


@pytest.mark.parametrize("output", ["softmax", "crf"])
def test_the_best_labellings_begin_with_the_answer_and_their_probabilities_sum_to_that_of_the_allowed(
    output: str,
) -> None:
    """Of three words, 27 labellings; I may not begin nor follow O: 1-step words B, O; 13 are left, counted by hand."""
    tagger = network(output=output, bidirectional=True)
    found, lengths = emissions(tagger, [[1, 2, 3]])
    labels, log_probs = tagger.decode(found, lengths)
    (ways,) = tagger.best(found, lengths, 40)
    assert ways[0].tags.tolist() == labels[0].tolist()
    assert ways[0].score == pytest.approx(log_probs[0])
    assert len(ways) == 13
    assert 0 < sum(math.exp(way.score) for way in ways) < 1
    losses = [tagger.loss(found, torch.from_numpy(way.tags)[None], lengths).item() for way in ways]
    assert [-way.score for way in ways] == pytest.approx(losses)


def test_without_a_crf_the_loss_is_the_cross_entropy_of_each_label_and_unknown_labels_take_no_part() -> None:
    tagger = network()
    found, lengths = emissions(tagger, [[1, 2, 3], [4, 5]])
    labels = torch.tensor([[0, -1, 2], [1, 0, -1]])
    log_probs = found.log_softmax(-1)
    wanted = -(log_probs[0, 0, 0] + log_probs[0, 2, 2] + log_probs[1, 0, 1] + log_probs[1, 1, 0])
    torch.testing.assert_close(tagger.loss(found, labels, lengths), wanted)


def test_a_crf_leaves_out_sentences_with_unknown_labels() -> None:
    tagger = network(output="crf")
    found, lengths = emissions(tagger, [[1, 2, 3], [4, 5]])
    labels = torch.tensor([[0, -1, 2], [1, 0, -1]])
    alone = tagger.loss(found[1:, :2], labels[1:, :2], lengths[1:])
    torch.testing.assert_close(tagger.loss(found, labels, lengths), alone)
    assert tagger.loss(found[:1], labels[:1], lengths[:1]) == 0


def test_without_a_crf_scores_of_neighbours_are_no_parameters() -> None:
    assert not any(name.startswith("chain") for name in network().state_dict())
    assert {name for name in network(output="crf").state_dict() if name.startswith("chain")} == {
        *("chain.start", "chain.between", "chain.end")
    }


def test_known_pairs_have_vectors_of_their_own_and_others_share_one() -> None:
    tagger = network()
    before, words = torch.tensor([[7, 1, 3, 4, 5, 7]]), torch.tensor([[1, 2, 3, 3, 0, 2]])
    assert tagger.pair_ids(before, words).tolist() == [[4, 1, 2, 0, 3, 0]]


def test_training_reads_hidden_words_as_unknown_and_answering_does_not() -> None:
    tagger = network()
    tagger.hidden_words.fill_(1.0)
    tagger.hidden_words[2] = 0.0
    before, words, spelled = (
        torch.tensor([[7, 1]]),
        torch.tensor([[1, 2]]),
        tagger.speller(FORMS)[torch.tensor([[1, 2]])],
    )
    rows = tagger.embedding.weight
    seen = tagger.embed(before, words, spelled)[0, :, :5]
    torch.testing.assert_close(seen, rows[[1, 2]])
    tagger.train()
    torch.testing.assert_close(tagger.embed(before, words, spelled)[0, :, :5], rows[[0, 2]])


@pytest.mark.parametrize("name", list(readers))
@settings(max_examples=30, deadline=None)
@given(more=st.integers(0, 4), fill=st.integers(0, 4))
def test_a_word_is_spelled_alike_whatever_stands_beside_or_behind_it(name: str, more: int, fill: int) -> None:
    speller = network(reader=name).speller
    letters = nn.functional.pad(FORMS.letters, (0, more))
    beyond = torch.arange(letters.shape[1]) >= FORMS.lengths[:, None]
    whole = speller(FORMS._replace(letters=letters.masked_fill(beyond, fill)))
    for row, length in enumerate(FORMS.lengths.tolist()):
        one = Spellings(*(part[row : row + 1] for part in FORMS))
        single = speller(one._replace(letters=one.letters[:, :length]))
        torch.testing.assert_close(whole[row], single[0], rtol=0, atol=1e-12)


def test_the_letter_cnn_is_a_convolution_of_torch_with_the_largest_of_each_filter() -> None:
    ours = LetterCNN(5, 4, 3).double()
    theirs = nn.Conv1d(4, 3, 3, padding=1).double()
    theirs.weight.data = ours.filters.weight.data.view(3, 3, 4).transpose(1, 2).contiguous()
    theirs.bias = ours.filters.bias
    for word in ([1, 2, 3, 4], [2], [3, 3]):
        letters = torch.tensor([word])
        wanted = torch.tanh(theirs(ours.embedding(letters).transpose(1, 2)).amax(2))
        torch.testing.assert_close(ours(letters, torch.tensor([len(word)])), wanted, rtol=0, atol=1e-12)


def test_the_letter_lstm_ends_in_the_states_of_torch_over_packed_words() -> None:
    ours = LetterLSTM(5, 4, 3).double()
    theirs = nn.LSTM(4, 3, batch_first=True, bidirectional=True).double()
    for cell, suffix in ((ours.stack.layers[0], ""), (ours.stack.backwards[0], "_reverse")):
        weights: Any = cell
        for name, tensor in zip(("weight_ih", "weight_hh", "bias_ih", "bias_hh"), weights.torch_weights(), strict=True):
            getattr(theirs, f"{name}_l0{suffix}").data.copy_(tensor)
    letters, lengths = FORMS.letters, FORMS.lengths
    packed = pack_padded_sequence(ours.embedding(letters), lengths, batch_first=True, enforce_sorted=False)
    _, (hidden, _) = theirs(packed)
    torch.testing.assert_close(ours(letters, lengths), torch.cat([hidden[0], hidden[1]], 1), rtol=0, atol=1e-12)


def test_a_speller_without_anything_to_read_gives_no_numbers() -> None:
    assert Speller(None, 0, 4, 0)(FORMS).shape == (7, 0)
