"""The conditional random field: against enumeration of all tag rows, and against pytorch-crf where it is installed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ostinato.core.errors import ConfigError, DivergedError, MismatchError, ShapeError
from ostinato.nn import crf as module
from ostinato.nn.crf import CRF, Allowed

TAGS = 3
LENGTHS = torch.tensor([5, 1, 3, 4])


def made(seed: int = 0, allowed: Allowed | None = None, in_training: bool = False, spread: float = 1.0) -> CRF:
    torch.manual_seed(seed)
    crf = CRF(TAGS, allowed, in_training).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter, std=spread)
    return crf


def scores_of(seed: int = 0, spread: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return spread * torch.randn(len(LENGTHS), 5, TAGS, generator=generator, dtype=torch.float64)


def no_o_to_i() -> Allowed:
    """Tags B, I, O: I begins nothing and does not follow O."""
    between = np.ones((TAGS, TAGS), np.bool_)
    between[2, 1] = False
    return Allowed(np.array([True, False, True]), between, np.ones(TAGS, np.bool_))


def enumerated(crf: CRF, scores: Tensor, constrained: bool) -> dict[tuple[int, ...], Tensor]:
    """The score of every possible row of tags for scores [T, K], term by term."""
    start, between, end = crf.weights(constrained)
    found = {}
    for tags in itertools.product(range(TAGS), repeat=len(scores)):
        total = start[tags[0]] + end[tags[-1]] + sum(scores[t, tag] for t, tag in enumerate(tags))
        total = total + sum(between[a, b] for a, b in itertools.pairwise(tags))
        if total > -torch.inf:
            found[tags] = total
    return found


def rows(scores: Tensor) -> list[Tensor]:
    return [row[:length] for row, length in zip(scores, LENGTHS.tolist(), strict=True)]


CASES = [(None, False), (no_o_to_i(), True)]


@pytest.mark.parametrize(("allowed", "in_training"), CASES)
def test_the_partition_is_the_sum_over_all_rows_of_tags(allowed: Allowed | None, in_training: bool) -> None:
    crf, scores = made(1, allowed, in_training), scores_of(2)
    expected = [torch.stack([*enumerated(crf, row, in_training).values()]).logsumexp(0) for row in rows(scores)]
    torch.testing.assert_close(crf.log_partition(scores, LENGTHS), torch.stack(expected), rtol=0, atol=1e-12)


def test_the_score_is_the_sum_of_its_terms() -> None:
    crf, scores = made(3), scores_of(4)
    tags = torch.randint(0, TAGS, scores.shape[:2])
    expected = [
        enumerated(crf, row, False)[tuple(said[: len(row)].tolist())]
        for row, said in zip(rows(scores), tags, strict=True)
    ]
    torch.testing.assert_close(crf.score(scores, tags, LENGTHS), torch.stack(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("allowed", "in_training"), CASES)
@pytest.mark.parametrize("spread", [1.0, 200.0])  # at 200 nats the exponentials of differences are lost
def test_the_gradient_is_what_was_expected_less_what_was_seen(
    allowed: Allowed | None, in_training: bool, spread: float
) -> None:
    crf, scores = made(5, allowed, in_training, spread), scores_of(6, spread).requires_grad_()
    tags = torch.tensor([[0, 1, 2, 0, 1], [2, 0, 0, 0, 0], [0, 1, 1, 0, 0], [2, 2, 0, 1, 0]])
    weight = torch.tensor([1.0, 2.0, -0.5, 3.0], dtype=torch.float64)
    (weight * crf.loss(scores, tags, LENGTHS)).sum().backward()
    ours = [scores.grad, *(parameter.grad for parameter in crf.parameters())]
    scores.grad = None
    crf.zero_grad()
    total = torch.zeros((), dtype=torch.float64)
    for row, said, share in zip(rows(scores), tags, weight, strict=True):
        found = enumerated(crf, row, in_training)
        total = total + share * (torch.stack([*found.values()]).logsumexp(0) - found[tuple(said[: len(row)].tolist())])
    total.backward()
    expected = [scores.grad, *(parameter.grad for parameter in crf.parameters())]
    for mine, other in zip(ours, expected, strict=True):
        assert mine is not None
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize("spread", [1.0, 300.0])
def test_products_of_exponentials_and_sums_of_logarithms_are_one_recursion(spread: float) -> None:
    generator = torch.Generator().manual_seed(7)
    rows = spread * torch.randn(2, 4, 6, TAGS, generator=generator, dtype=torch.float64)
    starts = torch.randn(2, TAGS, generator=generator, dtype=torch.float64)
    between = torch.randn(2, TAGS, TAGS, generator=generator, dtype=torch.float64)
    between[:, 2, 1] = -torch.inf
    found, safe = module._by_products(rows, starts, between)
    assert safe == (spread == 1.0)
    if safe:
        torch.testing.assert_close(found, module._by_steps(rows, starts, between), rtol=0, atol=1e-11)


def test_without_transitions_it_is_a_softmax_at_each_place() -> None:
    crf, scores = CRF(TAGS).double(), scores_of(8)
    tags = torch.randint(0, TAGS, scores.shape[:2])
    nats = torch.nn.functional.cross_entropy(scores.mT, tags, reduction="none")
    inside = torch.arange(5) < LENGTHS[:, None]
    torch.testing.assert_close(crf.loss(scores, tags, LENGTHS), (nats * inside).sum(1), rtol=0, atol=1e-12)
    torch.testing.assert_close(crf.marginals(scores, LENGTHS), scores.softmax(2) * inside[:, :, None])


@pytest.mark.parametrize("allowed", [None, no_o_to_i()])
def test_marginals_are_the_shares_of_the_rows_that_have_a_tag_at_a_place(allowed: Allowed | None) -> None:
    crf, scores = made(9, allowed), scores_of(10)
    found = crf.marginals(scores, LENGTHS)
    for row, shares in zip(rows(scores), found, strict=True):
        everything = enumerated(crf, row, True)
        whole = torch.stack([*everything.values()]).logsumexp(0)
        expected = torch.zeros_like(shares)
        for tags, total in everything.items():
            for t, tag in enumerate(tags):
                expected[t, tag] += (total - whole).exp()
        torch.testing.assert_close(shares, expected.detach(), rtol=0, atol=1e-12)
        torch.testing.assert_close(shares[: len(row)].sum(1), torch.ones(len(row), dtype=torch.float64))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([1, 4]))
def test_what_is_decoded_is_the_best_of_all(seed: int, constrained: bool, count: int) -> None:
    crf, scores = made(seed, no_o_to_i() if constrained else None), scores_of(seed + 1)
    tags, best = crf.decode(scores, LENGTHS)
    paths = crf.n_best(scores, LENGTHS, count)
    for place, row in enumerate(rows(scores)):
        ranked = sorted(enumerated(crf, row, True).items(), key=lambda one: -one[1].item())
        assert tuple(tags[place, : len(row)]) == ranked[0][0]
        assert not tags[place, len(row) :].any()
        assert best[place] == pytest.approx(ranked[0][1].item(), abs=1e-12)
        assert [tuple(path.tags.tolist()) for path in paths[place]] == [tags for tags, _ in ranked[:count]]
        assert [path.score for path in paths[place]] == pytest.approx([s.item() for _, s in ranked[:count]], abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000))
def test_nothing_that_is_forbidden_is_decoded(seed: int) -> None:
    crf = made(seed, no_o_to_i())
    with torch.no_grad():
        crf.between[2, 1] = crf.start[1] = 50  # learnt, but not allowed
    tags, _ = crf.decode(scores_of(seed), LENGTHS)
    for said, length in zip(tags, LENGTHS.tolist(), strict=True):
        assert said[0] != 1
        assert (2, 1) not in list(itertools.pairwise(said[:length].tolist()))


def test_padding_and_the_other_rows_change_nothing() -> None:
    crf, scores = made(11, spread=2.0), scores_of(12)
    tags = torch.randint(0, TAGS, scores.shape[:2])
    whole = crf.loss(scores, tags, LENGTHS)
    order = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(crf.loss(scores[order], tags[order], LENGTHS[order]), whole[order], rtol=0, atol=1e-12)
    wide = torch.nn.functional.pad(scores, (0, 0, 0, 3), value=torch.nan)
    wide[1, 1:] = torch.nan
    long = torch.nn.functional.pad(tags, (0, 3), value=99)
    torch.testing.assert_close(crf.loss(wide, long, LENGTHS), whole, rtol=0, atol=1e-12)
    assert (crf.decode(wide, LENGTHS)[0][:, :5] == crf.decode(scores, LENGTHS)[0]).all()
    for row in range(len(LENGTHS)):
        one, length = slice(row, row + 1), int(LENGTHS[row])
        alone = crf.loss(scores[one, :length], tags[one, :length], LENGTHS[one])
        torch.testing.assert_close(alone, whole[one], rtol=0, atol=1e-12)


def test_losses_are_never_negative_and_float32_is_close() -> None:
    crf, scores = made(13), scores_of(14, spread=30)
    tags = torch.from_numpy(crf.decode(scores, LENGTHS)[0])
    losses = crf.loss(scores, tags, LENGTHS)
    assert (losses >= -1e-12).all()
    narrow = crf.float().loss(scores.float(), tags, LENGTHS)
    torch.testing.assert_close(narrow.double(), losses, rtol=0, atol=1e-4)


def test_pytorch_crf_says_the_same() -> None:
    theirs = pytest.importorskip("torchcrf").CRF(TAGS, batch_first=True).double()
    crf, scores = made(15), scores_of(16).requires_grad_()
    theirs.start_transitions, theirs.transitions, theirs.end_transitions = crf.start, crf.between, crf.end
    tags, mask = torch.randint(0, TAGS, scores.shape[:2]), torch.arange(5) < LENGTHS[:, None]
    expected = -theirs(scores, tags, mask=mask, reduction="none")
    torch.testing.assert_close(crf.loss(scores, tags, LENGTHS), expected, rtol=0, atol=1e-12)
    decoded, _ = crf.decode(scores, LENGTHS)
    assert [row[:n].tolist() for row, n in zip(decoded, LENGTHS.tolist(), strict=True)] == theirs.decode(scores, mask)


def test_what_cannot_be_is_refused() -> None:
    crf, scores, tags = made(0, no_o_to_i(), True), scores_of(), torch.zeros(4, 5, dtype=torch.int64)
    with pytest.raises(ShapeError, match="lengths reach from 0 to 5"):
        crf.log_partition(scores, LENGTHS - torch.tensor([0, 1, 0, 0]))
    with pytest.raises(ShapeError, match="must be"):
        crf.decode(scores[:, :, :2], LENGTHS)
    with pytest.raises(ShapeError, match="must agree"):
        crf.score(scores, tags[:, :4], LENGTHS)
    with pytest.raises(MismatchError, match="row 2 has tags that are not allowed"):
        crf.loss(scores, tags.index_put((torch.tensor([2]), torch.tensor([0])), torch.tensor(1)), LENGTHS)
    with pytest.raises(ConfigError, match=r"allowed\.between"):
        CRF(4, Allowed(np.ones(4, np.bool_), np.ones((3, 3), np.bool_), np.ones(4, np.bool_)))
    none = np.zeros((TAGS, TAGS), np.bool_)
    with pytest.raises(MismatchError, match="row 0 has 5 places"):
        CRF(TAGS, Allowed(np.ones(TAGS, np.bool_), none, np.ones(TAGS, np.bool_))).decode(scores, LENGTHS)
    with pytest.raises(DivergedError, match="not finite"):
        crf.decode(scores * torch.nan, LENGTHS)
