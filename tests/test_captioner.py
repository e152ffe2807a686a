"""Caption networks: their encoders against slow ones, and that nothing but the picture changes a number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, MismatchError, ShapeError
from ostinato.decode import Beam, Greedy
from ostinato.nn.captioner import Captioner, CaptionNetwork
from ostinato.nn.captioner_options import CaptionerOptions
from ostinato.nn.picture_encoders import halved

PICTURE, FEATURES, OUTPUTS, STOP = (6, 5, 3), (5, 4), 7, 1

FORMS: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "convolutional": (PICTURE, {"channels": (4, 6)}),
    "convolutional, after": (PICTURE, {"channels": (4,), "attention": "general", "attend": "after"}),
    "convolutional, fixed": (PICTURE, {"channels": (4,), "attention": "none", "context": "every-step"}),
    "grid": (FEATURES, {"encoder": "grid"}),
    "grid, scaled-dot": (FEATURES, {"encoder": "grid", "attention": "scaled-dot", "kind": "lstm"}),
    "vector": (FEATURES, {"encoder": "vector", "attention": "none"}),
    "vector of a picture": (PICTURE, {"encoder": "vector", "attention": "none", "context": "every-step"}),
}


def made(form: str, seed: int = 0) -> Captioner:
    """A network in float64 with larger weights, so that what should not count would be seen."""
    torch.manual_seed(seed)
    shape, options = FORMS[form]
    sizes: dict[str, Any] = {"kind": "gru", "hidden": 8, "embedding": 6, "size": 8, "dropout": 0.3}
    network = CaptionNetwork(shape, OUTPUTS, CaptionerOptions(**{**sizes, **options})).double().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2)
        network.encoder.standardise(torch.full((shape[-1],), 0.3), torch.full((shape[-1],), 0.7))
    return Captioner(network)


def pictures(form: str, rows: int = 5, seed: int = 0) -> list[NDArray[Any]]:
    """Random ones; features at one place or more."""
    shape, _ = FORMS[form]
    random = np.random.default_rng(seed)
    sizes = [1, *random.integers(1, shape[0] + 1, size=rows - 1).tolist()] if len(shape) == 2 else [shape[0]] * rows
    return [random.normal(size=(size, *shape[1:])).astype(np.float32) for size in sizes]


def targets(rows: int = 5, seed: int = 0) -> list[NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    return [np.array([*random.integers(2, OUTPUTS, size=size), STOP]) for size in random.integers(0, 6, size=rows)]


@pytest.mark.parametrize("form", FORMS)
def test_neither_batch_nor_padding_changes_a_score(form: str) -> None:
    captioner, given, said = made(form), pictures(form), targets()
    together = captioner.score(given, said)
    for picture, target, (log_probs, weights) in zip(given, said, together, strict=True):
        ((alone, looked),) = captioner.score([picture], [target])
        np.testing.assert_allclose(log_probs, alone, rtol=0, atol=1e-6)
        np.testing.assert_allclose(weights, looked, rtol=0, atol=1e-6)
    order = [3, 0, 4, 1, 2]
    again = captioner.score([given[place] for place in order], [said[place] for place in order])
    for place, (log_probs, _) in zip(order, again, strict=True):
        np.testing.assert_allclose(log_probs, together[place][0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_what_lies_beyond_the_places_is_not_read(form: str) -> None:
    captioner, given = made(form), pictures(form)
    sources, lengths = captioner.batch(given)
    network = captioner.network
    inputs = torch.full((5, 3), OUTPUTS)
    goals = torch.tensor([[2, 3, 1]] * 5)
    scores, _ = network.score(sources, lengths, inputs, goals)
    spoilt = sources.clone()
    for row, length in enumerate(lengths.tolist()):
        spoilt[row, length:] = 100.0
    torch.testing.assert_close(network.score(spoilt, lengths, inputs, goals)[0], scores, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_the_loss_is_the_sum_of_steps_and_a_beam_of_one_is_greedy(form: str) -> None:
    captioner, given, said = made(form), pictures(form), targets()
    scored = captioner.score(given, said)
    for picture, target, (log_probs, weights) in zip(given, said, scored, strict=True):
        reading = captioner.read([picture])
        state, token = reading.init_state()
        for place, goal in enumerate(target.tolist()):
            step, state = reading.step(state, token)
            assert step[0, goal] == pytest.approx(float(log_probs[place]), abs=1e-5)
            assert np.exp(step).sum() == pytest.approx(1, abs=1e-5)
            token = np.array([goal])
        assert weights.shape == (len(target), 0 if "none" in FORMS[form][1].values() else captioner.places(picture))
        if weights.shape[1]:
            np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-6)
    nats = captioner.network.loss(*captioner.batch(given), *forced(said))
    assert float(nats.detach()) == pytest.approx(-sum(float(scores.sum()) for scores, _ in scored), rel=1e-6)
    found = []
    for strategy in (Greedy(), Beam(width=1)):
        reading = captioner.read(given)
        found.append(strategy.decode(reading, *reading.init_state(), stop=STOP, max_tokens=6))
    assert [row[0].tokens for row in found[0]] == [row[0].tokens for row in found[1]]


def forced(said: list[NDArray[np.int64]]) -> tuple[torch.Tensor, ...]:
    from ostinato.tasks.translation.encoding import taught

    return tuple(torch.from_numpy(array) for array in taught(said, OUTPUTS))


def test_convolutions_are_those_of_the_definition() -> None:
    """One block by hand: 3 x 3 sums with zeros around, normalised over a whole picture, the largest of each square."""
    captioner = made("convolutional, fixed", seed=3)
    encoder: Any = captioner.network.encoder
    picture = pictures("convolutional, fixed", 1)[0].astype(np.float64)
    x = (picture - encoder.mean.numpy()) * encoder.scale.numpy()
    block = encoder.blocks[0]
    for layer in (0, 3):
        weight, bias = (getattr(block[layer], name).detach().numpy() for name in ("weight", "bias"))
        padded = np.pad(x, ((1, 1), (1, 1), (0, 0)))
        out = np.zeros((*x.shape[:2], len(weight)))
        for row in range(x.shape[0]):
            for column in range(x.shape[1]):
                window = padded[row : row + 3, column : column + 3]  # [3, 3, in]
                out[row, column] = [(window * kernel.transpose(1, 2, 0)).sum() for kernel in weight] + bias
        gain, shift = (getattr(block[layer + 1], name).detach().numpy() for name in ("weight", "bias"))
        normal = (out - out.mean()) / math.sqrt(out.var() + 1e-5)
        x = np.maximum(0, normal * gain + shift)
    pooled = np.array([[x[r : r + 2, c : c + 2].max(axis=(0, 1)) for c in (0, 2, 4)] for r in (0, 2, 4)])
    assert encoder.layout == (3, 3)
    linear = encoder.placed.linear
    flat = pooled.reshape(9, -1) @ linear.weight.detach().numpy().T + linear.bias.detach().numpy()
    values = np.tanh(flat + encoder.placed.place.detach().numpy())
    encoded = encoder(*captioner.batch([picture.astype(np.float32)]))
    np.testing.assert_allclose(encoded.values[0].detach().numpy(), values, atol=1e-6)
    np.testing.assert_allclose(encoded.summary[0].detach().numpy(), values.mean(axis=0), atol=1e-6)


def test_the_same_thing_elsewhere_is_seen_as_elsewhere() -> None:
    captioner = made("grid")
    one = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    said = [np.array([2, 3, STOP])] * 2
    (first, _), (second, _) = captioner.score([one, one[::-1].copy()], said)
    assert np.abs(first - second).max() > 1e-3


def test_bytes_are_shares_of_255_and_channels_are_standardised() -> None:
    captioner = made("convolutional")
    given = np.random.default_rng(0).integers(0, 256, size=PICTURE).astype(np.uint8)
    said = [np.array([2, STOP])]
    (whole, _), (shares, _) = (captioner.score([one], said)[0] for one in (given, (given / 255).astype(np.float32)))
    np.testing.assert_allclose(whole, shares, atol=1e-6)
    encoder = captioner.network.encoder
    encoder.standardise(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 0.0, 2.0]))
    assert encoder.scale.tolist() == [2.0, 1.0, 0.5]


def test_gradients_reach_every_parameter() -> None:
    for form in FORMS:
        captioner = made(form)
        captioner.network.train()
        captioner.network.loss(*captioner.batch(pictures(form)), *forced(targets())).backward()
        for name, parameter in captioner.network.named_parameters():
            assert parameter.grad is not None, (form, name)
            assert float(parameter.grad.abs().sum()) > 0, (form, name)


def test_a_half_row_is_kept() -> None:
    for size in range(1, 20):
        for times in range(1, 4):
            left = size
            for _ in range(times):
                left = (left + 1) // 2
            assert halved(size, times) == left


def test_what_does_not_fit_is_refused() -> None:
    options = {"kind": "gru", "hidden": 4, "embedding": 4}
    with pytest.raises(ConfigError, match="grid reads features"):
        CaptionNetwork(PICTURE, OUTPUTS, CaptionerOptions(encoder="grid", **options))
    with pytest.raises(ConfigError, match="convolutional reads pictures"):
        CaptionNetwork(FEATURES, OUTPUTS, CaptionerOptions(**options))
    with pytest.raises(ValueError, match="one place to look at"):
        CaptionerOptions(encoder="vector")
    with pytest.raises(ValueError, match="channels are for"):
        CaptionerOptions(encoder="grid", channels=(3,))
    with pytest.raises(ValueError, match="at least one block"):
        CaptionerOptions(channels=())
    for form, shape in (("convolutional", (6, 6, 3)), ("grid", (6, 4)), ("grid", (2, 5)), ("grid", (0, 4))):
        with pytest.raises(MismatchError, match="bring it to that shape"):
            made(form).read([np.zeros(shape, np.float32)])
    with pytest.raises(ShapeError, match="one target to each"):
        made("grid").score(pictures("grid"), [])
