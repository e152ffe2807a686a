"""The softmax of kernels/head.py: loss and gradients against torch in float64, whatever the sizes and threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.kernels import simd
from ostinato.kernels.head import BLOCK, WORDS
from ostinato.kernels.packing import aligned, narrow
from ostinato.kernels.team import team_of
from ostinato.nn.fused.head import TOKENS, FusedSoftmax, SoftmaxWeights, softmax_of
from ostinato.nn.fused.layers import width_of
from ostinato.nn.loss import _by_blocks, has_kernels, linear_cross_entropy
from references import bfloat16

pytestmark = pytest.mark.skipif(not simd.HAS_BF16, reason="needs AVX512-BF16")

EPSILON = 2.0**-24
SIZES = (
    # N, V, D
    (1, 1, 1),
    (1, 61, 7),
    (3, WORDS - 1, 16),
    (5, WORDS, 1),
    (65, BLOCK, 33),
    (63, BLOCK + 1, 17),
    (64, 2 * BLOCK + WORDS + 1, 48),
    (128, 3 * BLOCK - 1, 31),
    (TOKENS + 6, 130, 5),
)


@pytest.fixture(params=[1, 2, 3])
def threads(request):
    """So many threads in torch, and as many in our kernels."""
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def make(tokens, outputs, width, seed=0, size=1.0, extra=0):
    """Features, weight, bias and targets, whose logits are about `size`; `extra` rows of the weight are not outputs."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, width, generator=random) * size
    weight = torch.randn(outputs + extra, width, generator=random) * width**-0.5
    bias = torch.randn(outputs, generator=random) * size
    targets = torch.randint(outputs, (tokens,), generator=random)
    edges = torch.tensor([0, outputs - 1, WORDS - 1, WORDS, BLOCK - 1, BLOCK]).clamp(max=outputs - 1)[:tokens]
    targets[: len(edges)] = edges
    return x, weight, bias, targets


def run(loss, *leaves, scale=1.0):
    """The loss and its gradients at fresh leaves."""
    leaves = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    value = loss(*leaves)
    (value * scale).backward()
    return value.detach(), [leaf.grad for leaf in leaves]


def by_kernels(x, weight, bias, targets, scale=1.0):
    assert has_kernels(x)
    return run(lambda *leaves: linear_cross_entropy(*leaves, targets, True), x, weight, bias, scale=scale)


def rounded(x):
    """The bfloat16 numbers that are multiplied, in float64."""
    return torch.from_numpy(bfloat16.rounded(x.numpy())).double()


def by_float64(x, weight, bias, targets, scale=1.0):
    """What is exact: torch.nn.functional.cross_entropy of the rounded inputs by autograd."""

    def loss(x, weight, bias):
        logits = torch.nn.functional.linear(x, weight[: len(bias)], bias)
        return torch.nn.functional.cross_entropy(logits, targets, reduction="sum")

    return run(loss, rounded(x), rounded(weight), bias.double(), scale=scale)


def bounds(x, weight, bias, targets, scale=1.0):
    """The largest errors that the roundings allow, of the loss and the three gradients.

    A probability is rounded twice, once as an exponential and once as an error of the logits, that of the target once
    more after 1 is subtracted; each by at most UNIT of its size. Logits are sums of D products in float32.
    """
    x, matrix = rounded(x), rounded(weight[: len(bias)])
    logits = x @ matrix.t() + bias.double()
    sums = 2 * EPSILON * ((x.abs() @ matrix.abs().t() + bias.abs()) * (x.shape[1] + 2) + 4)
    share = torch.softmax(logits, dim=1)
    hit = torch.nn.functional.one_hot(targets, len(bias))
    error = share * (2 * bfloat16.UNIT + 4 * sums.max() + 1e-4) + hit * (1 - share) * bfloat16.UNIT * 1.02
    error = error * scale + 1e-30
    slack = (len(x) + len(bias)) * EPSILON * scale
    grads = error @ matrix.abs(), error.t() @ x.abs(), error.sum(dim=0)
    sizes = (share + hit) @ matrix.abs(), (share + hit).t() @ x.abs(), (share + hit).sum(dim=0)
    loss = len(x) * (3 * sums.max() + 1e-6 * (1 + logits.abs().max()))
    return loss, [grad + size * slack for grad, size in zip(grads, sizes, strict=True)]


def check(x, weight, bias, targets, scale=1.0):
    """Loss and gradients within what the roundings allow, and nothing at rows of the weight that are no outputs."""
    loss, grads = by_kernels(x, weight, bias, targets, scale)
    exact, exact_grads = by_float64(x, weight, bias, targets, scale)
    most, most_grads = bounds(x, weight, bias, targets, scale)
    assert abs(loss - exact) <= most
    assert torch.all(grads[1][len(bias) :] == 0)
    grads[1], exact_grads[1] = grads[1][: len(bias)], exact_grads[1][: len(bias)]
    for name, grad, exact_grad, bound in zip(("x", "weight", "bias"), grads, exact_grads, most_grads, strict=True):
        near = (grad - exact_grad).abs() <= bound
        assert near.all(), f"{name}: {(~near).sum()} of {near.numel()}, {(grad - exact_grad).abs().max()}"


@pytest.mark.parametrize(("tokens", "outputs", "width"), SIZES)
def test_loss_and_gradients_are_those_of_float64_to_the_rounding_of_bfloat16(tokens, outputs, width, threads):
    check(*make(tokens, outputs, width))


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 140),
    st.integers(1, 2 * BLOCK + 2 * WORDS),
    st.integers(1, 70),
    st.integers(0, 99),
    st.sampled_from([0.01, 1.0, 5.0]),
    st.integers(0, 2),
    st.sampled_from([1.0, 0.125, 3.0]),
)
def test_any_size_is_that_of_float64(tokens, outputs, width, seed, size, extra, scale):
    check(*make(tokens, outputs, width, seed, size, extra), scale)


def test_rows_of_the_weight_beyond_the_outputs_take_no_part(threads):
    x, weight, bias, targets = make(20, 130, 12, extra=2)
    weight[130:] = torch.nan
    loss, grads = by_kernels(x, weight, bias, targets)
    short, short_grads = by_kernels(x, weight[:130], bias, targets)
    assert loss == short
    torch.testing.assert_close(grads[1], torch.cat([short_grads[1], torch.zeros(2, 12)]), rtol=0, atol=0)
    torch.testing.assert_close(grads[0], short_grads[0], rtol=0, atol=0)


@pytest.mark.parametrize(("tokens", "outputs", "width"), [(7, 61, 9), (70, 500, 48)])
def test_our_kernels_and_torch_in_bfloat16_agree(tokens, outputs, width, threads):
    """torch rounds the logits, too: UNIT of their size, which the probabilities then are off by."""
    x, weight, bias, targets = make(tokens, outputs, width)
    loss, grads = by_kernels(x, weight, bias, targets)
    theirs, their_grads = _by_blocks(x, weight, bias, targets, True, True)
    size = float((x.abs() @ weight.abs().t()).max())
    assert abs(loss - theirs) <= 2 * tokens * bfloat16.UNIT * size
    for grad, other in zip(grads, their_grads, strict=True):
        assert (grad - other).norm() <= 4 * bfloat16.UNIT * size * other.norm()


def errors_of(logits, bias, targets):
    """The gradient [N, V] of each token's logits: that of the weight when the features are the rows of an identity."""
    x = torch.eye(len(logits))
    return by_kernels(x, logits.t().contiguous(), bias, targets)[1][1].t()


@pytest.mark.parametrize("outputs", [2, WORDS, BLOCK + 7])
def test_the_errors_of_each_tokens_logits_are_probabilities_less_one_at_the_target(outputs, threads):
    """So they sum to zero, up to the rounding of each; only the target's is negative."""
    random = torch.Generator().manual_seed(outputs)
    logits, bias = torch.randn(30, outputs, generator=random) * 3, torch.randn(outputs, generator=random)
    targets = torch.arange(30) * 7 % outputs
    errors = errors_of(logits, bias, targets)
    hit = torch.nn.functional.one_hot(targets, outputs)
    assert torch.all(errors.sum(dim=1).abs() <= 4 * bfloat16.UNIT)
    assert torch.all(errors[hit == 0] >= 0)
    assert torch.all(errors[hit == 1] <= 0)
    share = torch.softmax(rounded(logits) + bias, dim=1)
    torch.testing.assert_close((errors + hit).double(), share, rtol=2.1 * bfloat16.UNIT, atol=bfloat16.UNIT)


@pytest.mark.parametrize("target", [0, WORDS - 1, WORDS, 4 * WORDS - 1, BLOCK, BLOCK + 1, 2 * BLOCK])
def test_a_target_at_the_border_of_a_block_is_corrected_once(target, threads):
    """Of V = 481 equal logits: 1/481 everywhere and 1/481 - 1 at the target."""
    outputs = 2 * BLOCK + 1
    errors = errors_of(torch.zeros(3, outputs), torch.zeros(outputs), torch.tensor([5, target, 300]))
    expected = torch.full((3, outputs), 1 / outputs)
    for token, word in enumerate((5, target, 300)):
        expected[token, word] -= 1
    torch.testing.assert_close(errors, expected, rtol=2.1 * bfloat16.UNIT, atol=0)


@pytest.mark.parametrize("far", [80.0, 1000.0, 1e30])
def test_logits_far_apart_give_a_finite_loss_and_gradient(far, threads):
    """One logit of +far, one of -far, in one block and in two: 0 nats for the first and 2 far for the second."""
    far = float(bfloat16.rounded(far))
    for first, second in ((3, 4), (5, BLOCK + 5)):
        weight = torch.zeros(2 * BLOCK, 1)
        weight[first], weight[second] = far, -far
        x, bias = torch.ones(2, 1), torch.zeros(2 * BLOCK)
        loss, (grad_x, grad_weight, grad_bias) = by_kernels(x, weight, bias, torch.tensor([first, second]))
        np.testing.assert_allclose(loss, 2 * far, rtol=1e-6)
        expected = torch.zeros(2 * BLOCK)
        expected[first], expected[second] = 1, -1
        torch.testing.assert_close(grad_bias, expected, rtol=0, atol=1e-30)
        torch.testing.assert_close(grad_weight[:, 0], expected, rtol=0, atol=1e-30)
        torch.testing.assert_close(grad_x, torch.tensor([[0.0], [2 * far]]), rtol=1e-6, atol=1e-30 * far)


@pytest.mark.parametrize("following", [2 * BLOCK, 2 * BLOCK - 1, WORDS + 9, 1])
@pytest.mark.parametrize("where", ["x", "weight", "bias"])
def test_a_nan_anywhere_makes_the_loss_nan_and_none_is_left_for_the_next(where, following, threads):
    """Training sees by its loss that it has diverged; a network of another width may then train in the same process."""
    outputs = 2 * BLOCK
    x, weight, bias, targets = make(4, outputs, 32)
    {"x": x[0], "weight": weight[37::WORDS], "bias": bias[37:38]}[where][:] = torch.nan
    assert torch.isnan(by_kernels(x, weight, bias, targets)[0])
    check(*make(4, following, 17))


def test_no_tokens_have_no_loss_and_no_gradient():
    x, weight, bias, targets = make(1, 10, 4)
    loss, grads = run(lambda *leaves: linear_cross_entropy(*leaves, targets[:0], True), x[:0], weight, bias)
    assert loss == 0
    assert all(not grad.any() for grad in grads)


def test_the_loss_alone_is_the_same_without_gradients(threads):
    x, weight, bias, targets = make(70, 250, 20)
    alone = linear_cross_entropy(x, weight, bias, targets, True)
    assert not alone.requires_grad
    assert alone == by_kernels(x, weight, bias, targets)[0]


# -- the softmax as the fused training step calls it


def learn(softmax, x, weights, rows, targets, scale, errors, add):
    """The loss of the tokens whose features are `rows` of x, by all members; None for errors: the loss alone."""
    features = aligned((len(x), width_of(x.shape[1])), np.uint16)
    narrow(x.numpy(), features, 0, len(x))
    nats = [0.0] * softmax.team.threads

    def work(member):
        nats[member] = softmax.run(member, weights, features, rows, targets.numpy(), scale, errors, add)

    softmax.team.run(work)
    return sum(nats)


@pytest.mark.parametrize("tokens", [37, TOKENS + 3])
@pytest.mark.parametrize("add", [False, True])
def test_chosen_rows_give_scaled_gradients_that_are_written_or_added(tokens, add, threads):
    """Written over NaN or added to what is there, in several chunks; errors of other rows are left alone."""
    x, weight, bias, targets = make(tokens + 9, BLOCK + 20, 21)
    rows = np.random.default_rng(0).permutation(tokens + 9)[:tokens]
    scale, targets = 0.25, targets[:tokens]
    loss, grads = by_kernels(x[torch.from_numpy(rows)], weight, bias, targets, scale)
    errors = np.full(x.shape, np.nan, np.float32)
    held = [torch.randn(part.shape, generator=torch.Generator().manual_seed(3)) for part in (weight, bias)]
    written = [part.clone() if add else torch.full_like(part, torch.nan) for part in held]
    weights = SoftmaxWeights(weight.numpy(), bias.numpy(), *(part.numpy() for part in written))
    softmax = FusedSoftmax(team_of(threads))
    np.testing.assert_allclose(learn(softmax, x, weights, rows, targets, scale, errors, add), loss, rtol=1e-6)
    np.testing.assert_allclose(learn(softmax, x, weights, rows, targets, scale, None, add), loss, rtol=1e-6)
    for part, start, grad in zip(written, held, grads[1:], strict=True):
        torch.testing.assert_close(part - start if add else part, grad, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(errors[rows], grads[0].numpy(), rtol=1e-5, atol=1e-6)
    others = np.setdiff1d(np.arange(len(x)), rows)
    assert np.all(np.isnan(errors[others]))


def test_memory_that_is_kept_does_not_show_in_the_next_loss(threads):
    """Sizes grow, shrink and grow again; every time as if it were the first, by the one softmax of a team."""
    assert softmax_of(team_of(threads)) is softmax_of(team_of(threads))
    for tokens, outputs, width in ((70, 300, 33), (5, 61, 48), (130, 241, 17), (1, 500, 2), (70, 300, 33)):
        x, weight, bias, targets = make(tokens, outputs, width)
        loss, grads = by_kernels(x, weight, bias, targets)
        written = [torch.empty_like(part) for part in (weight, bias)]
        weights = SoftmaxWeights(weight.numpy(), bias.numpy(), *(part.numpy() for part in written))
        errors = np.empty(x.shape, np.float32)
        fresh = learn(FusedSoftmax(team_of(threads)), x, weights, np.arange(tokens), targets, 1.0, errors, False)
        np.testing.assert_allclose(fresh, loss, rtol=1e-7)
        for part, grad in zip((torch.from_numpy(errors), *written), grads, strict=True):
            assert torch.equal(part, grad)


def test_what_a_softmax_calls_impossible_still_has_a_loss() -> None:
    """In float32 the probability of a goal may be nothing, its log-prob is not."""
    weight = torch.tensor([[0.0, 0.0], [30.0, 0.0], [-30.0, 5.0]])
    x = torch.tensor([[10.0, 0.0], [1.0, 1.0], [-10.0, 0.0]], requires_grad=True)
    targets = torch.tensor([2, 0, 1])
    found = linear_cross_entropy(x, weight, torch.zeros(3), targets)
    wanted = torch.nn.functional.cross_entropy(x @ weight.T, targets, reduction="sum")
    assert float(found.detach()) == pytest.approx(float(wanted.detach()), rel=1e-6)
    assert float(found.detach()) > 1100
    torch.testing.assert_close(torch.autograd.grad(found, x), torch.autograd.grad(wanted, x))
