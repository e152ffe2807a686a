"""Output layers: against torch.nn, slow twins, exact expectations over all samples, and finite differences."""

from __future__ import annotations

import itertools
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from ostinato.core.config import build
from ostinato.core.errors import ConfigError
from ostinato.nn.heads import Head, HeadOptions, candidates, heads, make_head, mixture, settle
from ostinato.nn.heads.adaptive import Adaptive
from ostinato.nn.heads.mixture import Mixture
from ostinato.nn.heads.nce import NCE
from ostinato.nn.heads.options import covering, log_uniform
from ostinato.nn.heads.sampled import Sampled, inclusion
from references import heads as slow

WIDTH, WORDS = 8, 13
COUNTS = torch.tensor([9, 30, 25, 20, 12, 8, 6, 5, 4, 3, 2, 1, 0])
OPTIONS = {
    "softmax": HeadOptions(),
    "adaptive": HeadOptions(kind="adaptive", cutoffs=(4, 9), div_value=2.0),
    "sampled": HeadOptions(kind="sampled", samples=5),
    "nce": HeadOptions(kind="nce", samples=20, normaliser="learnt"),
    "mixture": HeadOptions(kind="mixture", components=3),
}
every_head = pytest.mark.parametrize("kind", sorted(OPTIONS))


def made(options: HeadOptions, tied: bool = False, words: int = WORDS, counts: Tensor | None = COUNTS) -> Any:
    """A head in float64 with weights far enough from zero that a wrong one shows."""
    torch.manual_seed(1)
    embedding = nn.Parameter(torch.randn(words + 2, WIDTH).double()) if tied else None
    head = make_head(options, WIDTH, words, counts, embedding).double()
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return head


def rows(count: int = 6) -> tuple[Tensor, Tensor]:
    """Features [count, WIDTH] and targets [count], all words among them if there are enough rows."""
    torch.manual_seed(2)
    features = torch.randn(count, WIDTH, dtype=torch.float64, requires_grad=True)
    return features, (torch.arange(count) * 5 + 1) % WORDS


def weights(head: Head, features: Tensor) -> list[Tensor]:
    tied = [part for part in (head.__dict__.get("weight"), head.__dict__.get("tied")) if part is not None]
    return [features, *head.parameters(), *tied]


def gradients(loss: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [torch.zeros_like(leaf) if part is None else part for part, leaf in zip(found, leaves, strict=True)]


def same_gradients(one: Tensor, other: Tensor, leaves: list[Tensor]) -> None:
    torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
    for mine, theirs in zip(gradients(one, leaves), gradients(other, leaves), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-10)


def picked(head: Head, features: Tensor, targets: Tensor) -> Tensor:
    return -head.log_probs(features).gather(1, targets[:, None]).sum()


# what holds of every output layer


def test_every_registered_head_is_tested() -> None:
    assert set(heads) == set(OPTIONS)


@every_head
@pytest.mark.parametrize("tied", [False, True])
def test_a_distribution_sums_to_one_whatever_the_head_was_trained_with(kind: str, tied: bool) -> None:
    head = made(OPTIONS[kind], tied)
    for mode in (True, False):
        head.train(mode)
        probs = head.log_probs(rows()[0].reshape(2, 3, WIDTH)).exp()
        assert probs.shape == (2, 3, WORDS)
        torch.testing.assert_close(probs.sum(-1), torch.ones(2, 3, dtype=torch.float64), rtol=0, atol=1e-12)


@every_head
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("count", [1, 40])
def test_the_loss_when_evaluating_is_that_of_the_log_probs(kind: str, tied: bool, count: int) -> None:
    head = made(OPTIONS[kind], tied).eval()
    features, targets = rows(count)
    same_gradients(head.loss(features, targets) * 0.3, picked(head, features, targets) * 0.3, weights(head, features))


@pytest.mark.parametrize("kind", ["softmax", "adaptive", "mixture"])
def test_an_exact_head_has_the_same_loss_in_training(kind: str) -> None:
    head = made(OPTIONS[kind])
    features, targets = rows()
    torch.testing.assert_close(head.train().loss(features, targets), head.eval().loss(features, targets))


@every_head
@pytest.mark.parametrize("training", [False, True])
def test_no_rows_have_no_loss(kind: str, training: bool) -> None:
    head = made(OPTIONS[kind]).train(training)
    features, targets = rows(0)
    loss = head.loss(features, targets)
    assert loss.item() == 0
    assert all(part.abs().sum() == 0 for part in gradients(loss, weights(head, features)))


@every_head
def test_a_tied_vector_is_learnt_but_not_saved_or_counted_again(kind: str) -> None:
    head = made(OPTIONS[kind], tied=True)
    embedding = head.tied if kind == "adaptive" else head.weight
    assert all(parameter is not embedding for parameter in head.parameters())
    assert all(array.shape != embedding.shape for array in head.state_dict().values())
    features, targets = rows(13)
    (grad,) = torch.autograd.grad(head.eval().loss(features, targets), embedding)
    learnt = 4 if kind == "adaptive" else WORDS  # of the adaptive softmax the short list
    assert (grad[:learnt].abs().sum(1) > 0).all()
    assert (grad[learnt:] == 0).all()


@every_head
def test_a_loaded_head_needs_no_counts_to_give_the_same_numbers(kind: str) -> None:
    head = made(HeadOptions(kind=kind))  # type: ignore[arg-type]
    loaded = make_head(head.options, WIDTH, WORDS).double()
    loaded.load_state_dict(head.state_dict())
    assert loaded.options == head.options
    features, targets = rows()
    torch.testing.assert_close(loaded.log_probs(features), head.log_probs(features), rtol=0, atol=0)
    assert loaded.eval().loss(features, targets).item() == head.eval().loss(features, targets).item()


@every_head
def test_bfloat16_products_change_the_loss_by_less_than_a_percent(kind: str) -> None:
    torch.manual_seed(0)
    head = make_head(HeadOptions(kind=kind), 64, 500)  # type: ignore[arg-type]
    features, targets = torch.randn(300, 64, requires_grad=True), torch.randint(0, 500, (300,))
    found = []
    for bf16 in (False, True):
        torch.manual_seed(3)
        loss = head.loss(features, targets, bf16)
        found.append((loss, *gradients(loss, weights(head, features))))
    for exact, rough in zip(*found, strict=True):
        assert exact.dtype == rough.dtype == torch.float32
        assert (exact - rough).norm() <= 0.01 * exact.norm() + 1e-6


@every_head
def test_blocks_change_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded by working on a few rows at a time; no row may be lost at a border."""
    head, (features, targets) = made(OPTIONS[kind]), rows(40)
    torch.manual_seed(3)
    whole = head.loss(features, targets)
    for module in (candidates, mixture):
        monkeypatch.setattr(module, "ROWS", 13)
        monkeypatch.setattr(module, "CACHED", 6)
    torch.manual_seed(3)
    same_gradients(head.loss(features, targets), whole, weights(head, features))


@pytest.mark.parametrize("kind", ["sampled", "nce"])
def test_draws_come_from_the_generator_that_checkpoints_save(kind: str) -> None:
    head, (features, targets) = made(OPTIONS[kind]), rows()
    torch.manual_seed(5)
    first, second = (head.loss(features, targets).item() for _ in range(2))
    torch.manual_seed(5)
    assert head.loss(features, targets).item() == first != second


# adaptive softmax


def as_clusters(head: Adaptive) -> list[tuple[Any, ...]]:
    return [tuple(part.detach().numpy() for part in (c.project, c.weight, c.bias)) for c in head._clusters()]


@pytest.mark.parametrize("tied", [False, True])
def test_adaptive_follows_its_definition(tied: bool) -> None:
    head = made(OPTIONS["adaptive"], tied)
    features = rows()[0].detach()
    ours = head.log_probs(features).exp().detach().numpy()
    for x, row in zip(features.numpy(), ours, strict=True):
        expected = slow.adaptive(x, head.matrix().detach().numpy(), head.bias.detach().numpy(), as_clusters(head))
        np.testing.assert_allclose(row, expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adaptive_agrees_with_torch(dtype: torch.dtype) -> None:
    """Same weights, same losses and gradients; torch has no biases in the clusters."""
    head = made(OPTIONS["adaptive"]).to(dtype)
    theirs = nn.AdaptiveLogSoftmaxWithLoss(WIDTH, WORDS, [4, 9], div_value=2.0, head_bias=True).to(dtype)
    pairs = [(head.weight, theirs.head.weight), (head.bias, theirs.head.bias)]
    for cluster, tail in zip(head._clusters(), theirs.tail, strict=True):
        nn.init.zeros_(cluster.bias)
        pairs += [(cluster.project, tail[0].weight), (cluster.weight, tail[1].weight)]
    with torch.no_grad():
        for mine, other in pairs:
            other.copy_(mine)
    features, targets = rows(26)
    features = features.detach().to(dtype).requires_grad_()
    atol = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(head.log_probs(features), theirs.log_prob(features), rtol=0, atol=atol)
    one, other = head.loss(features, targets), theirs(features, targets).loss * len(targets)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=atol)
    ours = torch.autograd.grad(one, [features, *(mine for mine, _ in pairs)])
    for mine, grad in zip(ours, torch.autograd.grad(other, [features, *(p for _, p in pairs)]), strict=True):
        torch.testing.assert_close(mine, grad, rtol=0, atol=atol)


@given(st.sets(st.integers(1, WORDS - 1), min_size=0, max_size=4), st.floats(1, 9))
def test_any_cutoffs_make_a_distribution(cuts: set[int], div_value: float) -> None:
    head = made(HeadOptions(kind="adaptive", cutoffs=tuple(sorted(cuts)) or None, div_value=div_value))
    features, targets = rows(13)
    torch.testing.assert_close(head.log_probs(features).logsumexp(-1), torch.zeros(13).double(), rtol=0, atol=1e-12)
    torch.testing.assert_close(head.loss(features, targets), picked(head, features, targets))


def test_cutoffs_cover_shares_of_the_text() -> None:
    # 50 + 30 + 5 = 85 of 100; 50 + 30 + 5 + 5 + 4 = 94, so 95 takes the sixth word
    assert covering(9, np.array([50, 30, 5, 5, 4, 3, 1, 1, 1])) == (3, 6)
    assert covering(2, np.array([99, 1])) == (1,)
    assert covering(1, None) == ()
    zipf = covering(10_000, None)
    harmonic = [sum(1 / r for r in range(1, last + 1)) for last in (zipf[0] - 1, zipf[0], 10_000)]
    assert harmonic[0] / harmonic[2] < 0.85 <= harmonic[1] / harmonic[2]


# mixture of softmaxes


@pytest.mark.parametrize("tied", [False, True])
def test_the_mixture_follows_its_definition(tied: bool) -> None:
    head = made(OPTIONS["mixture"], tied)
    features = rows()[0].detach()
    prior, latent, latent_bias, matrix, bias = (
        part.detach().numpy()
        for part in (head.prior.weight, head.latent.weight, head.latent.bias, head.weight[:WORDS], head.bias)
    )
    for x, row in zip(features.numpy(), head.log_probs(features).exp().detach().numpy(), strict=True):
        expected = slow.mixture(x, prior, latent.reshape(3, WIDTH, WIDTH), latent_bias.reshape(3, WIDTH), matrix, bias)
        np.testing.assert_allclose(row, expected, rtol=1e-12)


def test_a_mixture_expresses_what_one_softmax_of_that_width_cannot() -> None:
    """The log-probs of many contexts: one softmax has at most rank width + 2 (bias, normaliser)."""
    torch.manual_seed(0)
    features = torch.randn(80, WIDTH, dtype=torch.float64)
    counts = torch.ones(60)
    one = made(OPTIONS["softmax"], words=60, counts=counts).log_probs(features)
    mixed = made(OPTIONS["mixture"], words=60, counts=counts).log_probs(features)
    assert torch.linalg.matrix_rank(one, rtol=1e-10) <= WIDTH + 2
    assert torch.linalg.matrix_rank(mixed, rtol=1e-10) == 60


@every_head
def test_the_loss_in_training_passes_gradcheck(kind: str) -> None:
    """Finite differences, with the same words drawn every time."""
    head, (features, targets) = made(OPTIONS[kind]), rows(5)

    def loss(*_: Tensor) -> Tensor:  # gradcheck moves the leaves themselves
        torch.manual_seed(3)
        return head.loss(features, targets)

    assert torch.autograd.gradcheck(loss, (features, *head.parameters()))


# sampled softmax


def test_with_every_word_sampled_it_is_the_full_softmax() -> None:
    head, (features, targets) = made(HeadOptions(kind="sampled", samples=WORDS)), rows(13)
    same_gradients(head.train().loss(features, targets), picked(head, features, targets), weights(head, features))


def test_the_sampled_loss_follows_its_definition() -> None:
    head, (features, targets) = made(OPTIONS["sampled"]), rows(13)
    hits = 0
    for seed in range(5):
        torch.manual_seed(seed)
        drawn = [w for w, u in enumerate(torch.rand_like(head.inclusion).tolist()) if u < head.inclusion[w]]
        torch.manual_seed(seed)
        ours = head.loss(features, targets).item()
        scores = head.scores(features).detach().numpy()
        assert ours == pytest.approx(slow.sampled(scores, targets.tolist(), drawn, head.inclusion.numpy()), rel=1e-10)
        hits += len(set(drawn) & set(targets.tolist()))
    assert hits > 0


def test_the_expected_sampled_gradient_vanishes_at_the_true_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all sixteen samples of four words and all targets, weighted by how likely they are, with s = log p + 3."""
    true = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    head = made(HeadOptions(kind="sampled", samples=2, power=0.5), words=4, counts=torch.tensor([5, 2, 1, 1]))
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(true.log() + 3)
    features, targets = torch.zeros(10, WIDTH).double(), torch.tensor([0] + [1] * 2 + [2] * 3 + [3] * 4)
    expected, chance = torch.zeros(4).double(), 0.0
    for inside in itertools.product([True, False], repeat=4):
        mask = torch.tensor(inside)
        likely = torch.where(mask, head.inclusion, 1 - head.inclusion).prod().item()
        monkeypatch.setattr(torch, "rand_like", lambda _, mask=mask: torch.where(mask, 0.0, 1.0))
        expected += likely * torch.autograd.grad(head.loss(features, targets), head.bias)[0]
        chance += likely
    assert chance == pytest.approx(1)
    torch.testing.assert_close(expected, torch.zeros(4).double(), rtol=0, atol=1e-7)


@given(st.lists(st.floats(1e-4, 1), min_size=1, max_size=30), st.data())
def test_inclusion_sums_to_the_sample_and_follows_the_proposal(mass: list[float], data: st.DataObject) -> None:
    samples = data.draw(st.integers(1, len(mass)))
    expected = inclusion(torch.tensor(mass, dtype=torch.float64), samples)
    assert expected.sum().item() == pytest.approx(samples)
    assert ((expected > 0) & (expected <= 1)).all()
    below = expected < 1
    ratio = (expected / torch.tensor(mass, dtype=torch.float64))[below]
    assert len(ratio) == 0 or ratio.max().item() == pytest.approx(ratio.min().item())
    if below.any() and not below.all():  # the certain ones are the largest
        assert torch.tensor(mass)[~below].min() >= torch.tensor(mass)[below].max()


# noise-contrastive estimation


@pytest.mark.parametrize("normaliser", ["one", "learnt"])
def test_nce_follows_its_definition(normaliser: str) -> None:
    head = made(HeadOptions(kind="nce", samples=20, normaliser=normaliser))  # type: ignore[arg-type]
    features, targets = rows(7)
    torch.manual_seed(4)
    noise = torch.multinomial(head.noise, 20, replacement=True).tolist()
    torch.manual_seed(4)
    ours = head.loss(features, targets).item()
    log_z = 0.0 if head.log_normaliser is None else head.log_normaliser.item()
    scores = head.scores(features).detach().numpy()
    assert ours == pytest.approx(slow.nce(scores, targets.tolist(), noise, head.noise.numpy(), log_z), rel=1e-10)


def test_the_expected_nce_gradient_vanishes_at_the_true_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise and targets stand in exactly the shares they are drawn with: q = 4:2:1:1 of 8, p = 1:2:3:4 of 10."""
    head = made(HeadOptions(kind="nce", samples=8, power=1.0), words=4, counts=torch.tensor([4, 2, 1, 1]))
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.tensor([0.1, 0.2, 0.3, 0.4]).log())
    monkeypatch.setattr(torch, "multinomial", lambda *_, **__: torch.tensor([0, 0, 0, 0, 1, 1, 2, 3]))
    features, targets = torch.zeros(10, WIDTH).double(), torch.tensor([0] + [1] * 2 + [2] * 3 + [3] * 4)
    (grad,) = torch.autograd.grad(head.loss(features, targets), head.bias)
    torch.testing.assert_close(grad, torch.zeros(4).double(), rtol=0, atol=1e-6)


def test_the_nce_gradient_nears_that_of_the_likelihood() -> None:
    """With scores that sum to one: within p/kq (bias) plus five standard deviations p/sqrt(kq) of the noise."""
    head = made(HeadOptions(kind="nce", samples=1, power=1.0))
    features, targets = rows(1)
    with torch.no_grad():
        head.bias -= head.scores(features).logsumexp(-1)
    probs = head.log_probs(features)[0].exp().detach()
    (exact,) = torch.autograd.grad(picked(head, features, targets), head.bias)
    errors = []
    for samples in (100, 10_000, 1_000_000):
        head.samples = samples
        torch.manual_seed(6)
        (grad,) = torch.autograd.grad(head.loss(features, targets), head.bias)
        expected = samples * head.noise
        bound = probs / expected + 5 * probs / expected.sqrt()
        bound[targets] += probs[targets] / expected[targets]
        assert ((grad - exact).abs() <= bound).all()
        errors.append((grad - exact).norm().item())
    assert errors[0] > 20 * errors[2]


def test_nce_begins_nearly_normalised() -> None:
    head = make_head(HeadOptions(kind="nce", power=1.0), WIDTH, WORDS, COUNTS)
    assert isinstance(head, NCE)
    assert head.bias.exp().sum().item() == pytest.approx(1)
    assert head.bias.exp()[1].item() == pytest.approx(30 / (COUNTS.sum().item() + 1))  # the unseen word counts once


# options


def test_the_log_uniform_proposal_is_a_distribution_that_falls_like_zipfs_law() -> None:
    probs = log_uniform(1000)
    assert probs.sum() == pytest.approx(1)
    assert probs[0] / probs[99] == pytest.approx(np.log(2) / np.log(101 / 100))


def test_what_is_left_out_is_decided_from_the_vocabulary() -> None:
    assert settle(HeadOptions(kind="sampled"), 80).samples == 80
    assert settle(HeadOptions(kind="sampled"), 10_000).samples == 1250
    assert settle(HeadOptions(kind="nce"), 1_000_000).samples == 8192
    assert settle(HeadOptions(kind="nce"), 80).proposal == "log-uniform"
    assert settle(HeadOptions(kind="nce"), 3, np.array([3, 2, 1])).proposal == "unigram"
    settled = settle(HeadOptions(kind="adaptive"), 10_000)
    assert settle(settled, 10_000) == settled
    assert settle(HeadOptions(), 10) == HeadOptions()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cutoffs": (3,)}, "cutoffs does not apply to softmax; it is for adaptive"),
        ({"kind": "adaptive", "samples": 3}, "samples does not apply to adaptive; it is for sampled, nce"),
        ({"kind": "nce", "proposal": "log-uniform", "power": 0.5}, "power does not apply to a log-uniform"),
        ({"kind": "mixture", "components": 0}, "components"),
        ({"kind": "hierarchical"}, "kind"),
    ],
)
def test_an_option_that_has_no_effect_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build(HeadOptions, given, "model.head")


@pytest.mark.parametrize("cutoffs", [(13,), (5, 5), (6, 3)])
def test_cutoffs_that_do_not_rise_inside_the_vocabulary_are_refused(cutoffs: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="must rise"):
        make_head(HeadOptions(kind="adaptive", cutoffs=cutoffs), WIDTH, WORDS)


def test_more_samples_than_words_are_refused() -> None:
    with pytest.raises(ConfigError, match="only 13 words to draw"):
        make_head(HeadOptions(kind="sampled", samples=14), WIDTH, WORDS)


@pytest.mark.parametrize("kind", ["sampled", "nce"])
def test_a_unigram_proposal_without_counts_evaluates_but_does_not_train(kind: str) -> None:
    head = make_head(HeadOptions(kind=kind, proposal="unigram"), WIDTH, WORDS)  # type: ignore[arg-type]
    features, targets = rows()
    assert head.eval().loss(features.float(), targets) > 0
    with pytest.raises(ConfigError, match="needs the word counts"):
        head.train().loss(features.float(), targets)


def test_options_are_read_without_torch() -> None:
    code = "import sys; from ostinato.nn.heads import HeadOptions; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_isinstance_tells_heads_apart() -> None:
    kinds = {"adaptive": Adaptive, "mixture": Mixture, "nce": NCE, "sampled": Sampled}
    assert all(isinstance(made(OPTIONS[kind]), found) for kind, found in kinds.items())
