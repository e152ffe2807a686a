"""Steps that leave out the rows that have ended: nothing that counts is missing, and nothing changes."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.nn import ragged as module
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.nn.encoder_decoder_options import AttentionName, EncoderDecoderOptions
from ostinato.nn.ragged import Ragged

LENGTHS = st.lists(st.integers(0, 7), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(LENGTHS, st.booleans())
def test_every_place_that_counts_is_read_once(lengths: list[int], longest_first: bool) -> None:
    lengths = sorted(lengths, reverse=True) if longest_first else lengths
    weight = (torch.arange(8) < torch.tensor(lengths)[:, None]).float()
    ragged = Ragged.of(weight)
    assert list(ragged.sizes) == sorted(ragged.sizes, reverse=True)
    assert len(ragged.sizes) == max(lengths)
    assert all(size == len(lengths) or size % module.BLOCK == 0 for size in ragged.sizes)
    places = torch.arange(weight.numel()).view(weight.shape)
    kept = ragged.packed(places)
    assert len(kept) == sum(ragged.sizes) == len(kept.unique())
    assert set(places[weight > 0].tolist()) <= set(kept.tolist())
    if longest_first:  # no step has a block of rows more than it needs
        alive = (weight > 0).sum(dim=0).tolist()
        assert all(size < count + module.BLOCK for size, count in zip(ragged.sizes, alive, strict=False))


def test_steps_come_one_after_another() -> None:
    xs = torch.arange(12).view(3, 4, 1)
    assert Ragged([3, 2, 2, 1]).packed(xs).flatten().tolist() == [0, 4, 8, 1, 5, 2, 6, 3]
    assert Ragged.full(3, 4).packed(xs).view(4, 3, 1).transpose(0, 1).equal(xs)
    assert Ragged([]).packed(xs).shape == (0, 1)


def made(attention: AttentionName, attend: str, feeding: bool) -> EncoderDecoder:
    torch.manual_seed(1)
    options = EncoderDecoderOptions(
        kind="gru", hidden=6, embedding=5, attention=attention, bidirectional=attention != "dot", layers=2
    )
    options = dataclasses.replace(options, attend=attend, input_feeding=feeding)  # type: ignore[arg-type]
    return EncoderDecoder(9, 9, options).double().eval()


@pytest.mark.parametrize("attention", ["none", "additive", "dot", "general"])
@pytest.mark.parametrize(("attend", "feeding"), [("before", False), ("after", False), ("after", True)])
def test_the_loss_does_not_depend_on_which_rows_come_first(
    attention: AttentionName, attend: str, feeding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK", 2)
    if attention == "none" and attend == "after":
        return
    network = made(attention, attend, feeding)
    ends = torch.tensor([2, 6, 1, 4, 4, 3, 6, 1])
    sources, lengths = torch.randint(0, 9, (8, 5)), torch.tensor([1, 5, 3, 2, 5, 4, 2, 3])
    inputs, targets = torch.randint(0, 9, (8, 6)), torch.randint(0, 9, (8, 6))
    weight = (torch.arange(6) < ends[:, None]).double()

    def found(order: torch.Tensor) -> list[torch.Tensor]:
        network.zero_grad()
        loss = network.loss(*(part[order] for part in (sources, lengths, inputs, targets, weight)))
        loss.backward()  # type: ignore[no-untyped-call]
        grads = [parameter.grad for parameter in network.parameters()]
        return [loss.detach(), *(torch.zeros(()) if grad is None else grad.clone() for grad in grads)]

    log_probs, _ = network.score(sources, lengths, inputs, targets)
    ordered = found(torch.argsort(-ends, stable=True))
    torch.testing.assert_close(ordered[0], -(log_probs * weight).sum(), rtol=1e-12, atol=1e-12)
    for one, other in zip(ordered, found(torch.arange(8)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
