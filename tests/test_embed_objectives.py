"""Every loss of every model against torch's gradients of its definition, window by window."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from tests.references.windows import Windows, as_tensor, descend, full_loss, negative_loss, path_loss

from ostinato.core.errors import ConfigError
from ostinato.embed.huffman import huffman
from ostinato.embed.lexicon import Lexicon
from ostinato.embed.matrices import Matrices
from ostinato.embed.objectives import Objective
from ostinato.embed.options import VectorOptions
from ostinato.embed.sampling import alias_table, keep_thresholds, window_table
from ostinato.embed.subwords import Subwords
from ostinato.kernels import path
from ostinato.kernels.drawing import PAIR
from ostinato.kernels.window import GROUP, NARROW, OUTPUTS

WORDS = 40
ALPHA = 0.05
MODELS = ("skip-gram", "cbow-mean", "cbow-sum")
LOSSES = ("negative-sampling", "hierarchical-softmax", "softmax")


def lexicon(words: int = WORDS) -> Lexicon:
    counts = np.sort(np.random.default_rng(3).integers(5, 500, words))[::-1]
    return Lexicon([f"word{number}" for number in range(words)], counts.astype(np.int64))


def text(words: int = WORDS, sentences: int = 12) -> np.ndarray[Any, Any]:
    """Sentences in which no word comes twice."""
    random = np.random.default_rng(5)
    lines = [random.permutation(words)[: random.integers(1, 15)].tolist() for _ in range(sentences)]
    return np.array(list(itertools.chain.from_iterable([*line, -1] for line in lines)), np.int32)


def filled(options: VectorOptions, words: int = WORDS, scale: float = 0.5) -> Matrices:
    matrices = Matrices(words, options.dimensions, options.buckets if options.subwords else 0, 1)
    random = np.random.default_rng(7)
    for part in (matrices.input, matrices.output, matrices.grams):
        part[:] = random.normal(0, scale, part.shape)
    return matrices


def expected(options: VectorOptions, words: Lexicon, matrices: Matrices, ids: Any, seed: int) -> tuple[Any, Any, Any]:
    """The matrices after the text, and the totals, from the definitions."""
    threshold, other = alias_table(words.counts, options.exponent)
    windows = Windows(
        keep_thresholds(words.counts, options.sample, options.formula),
        window_table(options.window, options.shrink),
        seed, threshold, other, options.negatives, options.reuse,
    )  # fmt: skip
    left = as_tensor(np.concatenate([matrices.input, matrices.grams]))
    right = as_tensor(matrices.output)
    tree = huffman(words.counts)
    grams = [[] for _ in words.words]
    if options.subwords:
        made = Subwords(options.least, options.most, options.buckets)
        grams = [(len(words) + made.ngrams(word).astype(np.int64)).tolist() for word in words.words]
    loss, pairs = 0.0, 0

    def one(inputs: torch.Tensor, word: int) -> torch.Tensor:
        if options.loss == "softmax":
            return full_loss(inputs, right, word)
        if options.loss == "negative-sampling":
            return negative_loss(inputs, right, word, windows.draw(word))
        begin, end = tree.offsets[word : word + 2]
        return path_loss(inputs, right, tree.nodes[begin:end].tolist(), tree.codes[begin:end].tolist())

    for word, around in windows(ids.tolist()):
        if not around:
            continue
        if options.model == "skip-gram" and not options.subwords:
            loss += descend(one(left[around], word), ALPHA, left, right)
            pairs += len(around)
            continue
        of = [word] if options.model == "skip-gram" else around
        rows = [row for each in of for row in (each, *grams[each])]
        bag = left[rows].sum(0) if options.model == "cbow-sum" else left[rows].mean(0)
        if options.model != "cbow-sum" and not options.exact:  # the gradient of the mean, not divided
            bag = bag.detach() + left[rows].sum(0) - left[rows].sum(0).detach()
        targets = around if options.model == "skip-gram" else [word]
        total = torch.zeros((), dtype=torch.float64)
        hidden = bag.detach().clone().requires_grad_()
        for target in targets:  # the outputs move at once, the bag after all its targets
            part = one(hidden[None], target)
            gradient, error = torch.autograd.grad(part, (right, hidden), allow_unused=True)
            with torch.no_grad():
                right -= ALPHA * gradient
            total = total + (bag * error).sum()
            loss += float(part.detach())
            pairs += 1
        descend(total, ALPHA, left)
    return left.detach().numpy(), right.detach().numpy(), (loss, pairs, windows.kept)


def compare(options: VectorOptions, words: Lexicon, ids: Any, scale: float = 0.5) -> None:
    matrices = filled(options, len(words), scale)
    left, right, told = expected(options, words, matrices, ids, 99)
    totals = np.zeros(3)
    Objective(options, words, matrices).for_thread(0)(ids, 99, ALPHA, totals)
    np.testing.assert_allclose(matrices.input, left[: len(words)], atol=2e-5)
    np.testing.assert_allclose(matrices.grams, left[len(words) :], atol=2e-5)
    np.testing.assert_allclose(matrices.output, right, atol=2e-5)
    np.testing.assert_allclose(totals, told, rtol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_a_kernel_takes_the_steps_that_the_definition_takes(model: Any, loss: Any) -> None:
    compare(VectorOptions(model=model, loss=loss, dimensions=20, window=3, sample=0.05), lexicon(), text())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_words_may_be_bags_of_their_n_grams(model: Any, loss: Any) -> None:
    options = VectorOptions(
        model=model, loss=loss, dimensions=20, window=2, sample=0, subwords=True, least=3, most=4, buckets=300
    )
    compare(options, lexicon(12), text(12, 4), 0.2)


@pytest.mark.parametrize("negatives", [1, 2, 5, 6, 13])
@pytest.mark.parametrize("model", ["skip-gram", "cbow-mean"])
def test_any_number_of_negatives_is_that_many(model: Any, negatives: int) -> None:
    options = VectorOptions(model=model, negatives=negatives, reuse=3, dimensions=16, window=4, sample=0)
    compare(options, lexicon(), text())


@pytest.mark.parametrize("dimensions", [1, 15, 16, 17, 32, 48, 100])
def test_any_number_of_dimensions_is_that_many(dimensions: int) -> None:
    options = VectorOptions(dimensions=dimensions, window=4, sample=0)
    compare(options, lexicon(), text(), 0.2)


@pytest.mark.parametrize("window", [1, 12, 30])
def test_any_window_is_that_wide(window: int) -> None:
    options = VectorOptions(dimensions=16, window=window, sample=0, shrink="none")
    ids = np.append(np.random.default_rng(2).permutation(90), -1).astype(np.int32)
    compare(options, lexicon(90), ids, 0.2)


def test_the_exact_gradient_of_a_mean_is_divided() -> None:
    compare(VectorOptions(model="cbow-mean", exact=True, dimensions=16, window=3, sample=0), lexicon(), text())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_a_step_is_what_finite_differences_say(model: Any, loss: Any) -> None:
    """The change of one window, over its small rate, is minus the slope of the loss that the kernel itself reports."""
    options = VectorOptions(
        model=model, loss=loss, dimensions=6, window=2, sample=0, shrink="none", exact=model == "cbow-mean"
    )
    words, ids, rate, width = lexicon(12), np.array([3, 7, -1], np.int32), 1e-3, 2e-2

    def told(matrices: Matrices, rate: float) -> float:
        totals = np.zeros(3)
        Objective(options, words, matrices).for_thread(0)(ids, 99, rate, totals)
        return float(totals[0])

    moved, begun = filled(options, 12), filled(options, 12)
    told(moved, rate)
    for name, rows in (("input", (3, 7)), ("output", range(12))):
        for row, column in itertools.product(rows, range(6)):
            if row >= len(getattr(begun, name)):  # a tree of 12 words has 11 nodes
                continue
            slopes = []
            for sign in (1, -1):
                shifted = filled(options, 12)
                getattr(shifted, name)[row, column] += sign * width
                slopes.append(sign * told(shifted, 1e-30) / (2 * width))
            change = (getattr(moved, name)[row, column] - getattr(begun, name)[row, column]) / rate
            assert change == pytest.approx(-sum(slopes), abs=6e-3), (name, row, column)


def test_padding_and_the_row_of_zeros_stay_zero() -> None:
    for model, loss in itertools.product(MODELS, LOSSES):
        options = VectorOptions(model=model, loss=loss, dimensions=20, window=3)
        words, matrices = lexicon(), filled(options)
        Objective(options, words, matrices).for_thread(0)(text(), 99, ALPHA, np.zeros(3))
        for flat in (matrices.left, matrices.right):
            rows = flat.reshape(-1, matrices.stride)
            assert not rows[:WORDS, 20:].any()
            assert not rows[WORDS].any()


def test_a_sentence_longer_than_the_kernel_holds_is_cut() -> None:
    options = VectorOptions(dimensions=16, window=2, sample=0)
    words, matrices = lexicon(), filled(options, scale=0.1)
    totals = np.zeros(3)
    ids = np.random.default_rng(1).integers(0, WORDS, 2500).astype(np.int32)
    Objective(options, words, matrices).for_thread(0)(ids, 99, 0.001, totals)
    assert totals[2] == 2500
    assert np.isfinite(matrices.left).all()


def test_a_softmax_over_many_words_is_refused() -> None:
    many = Lexicon([f"w{number}" for number in range(60_000)], np.full(60_000, 5))
    with pytest.raises(ConfigError, match="60,000 words"):
        Objective(VectorOptions(loss="softmax", dimensions=4), many, Matrices(60_000, 4, 0, 1))


def test_a_path_is_laid_in_tiles_that_leave_one_place_empty_at_most() -> None:
    """Every node stands in one place with its sign, in order; all other places are zeros without weight."""
    nodes, codes = np.arange(40, dtype=np.int32), np.resize(np.array([0, 1, 1], np.uint8), 40)
    for length in range(1, 41):
        rights, lanes = np.full(42, -1, np.int64), 7 * PAIR
        signs, weights = np.zeros(lanes, np.float32), np.zeros(lanes, np.float32)
        matrix = np.zeros(16, np.float32)
        tiles, whole = path.laid_out(0, length, nodes, codes, matrix, 1, 99, 40, 0, rights, signs, weights)
        widths = [OUTPUTS] * whole + [NARROW] * (tiles - whole)
        assert sum(widths) - length in ((0, 1) if tiles > 1 else range(OUTPUTS))
        placed = [tile * OUTPUTS + place for tile, width in enumerate(widths) for place in range(width)]
        assert rights[placed][:length].tolist() == nodes[:length].tolist()
        assert (rights[placed][length:] == 99).all()
        for half in (0, GROUP):
            at = [place // OUTPUTS * PAIR + place % OUTPUTS + half for place in placed]
            assert signs[at][:length].tolist() == (1.0 - 2.0 * codes[:length]).tolist()
            assert weights[at].tolist() == [1.0] * length + [0.0] * (len(at) - length)
        assert weights.sum() == 2 * length
