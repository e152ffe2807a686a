"""A decoder's loop by the kernels within torch's graph, against the same steps by torch in float32."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ostinato.kernels import simd
from ostinato.nn.decoder import SHAPED, Decoder, Encoded
from ostinato.nn.encoder_decoder_options import DecoderOptions
from ostinato.nn.fused.cells import KERNELS
from ostinato.nn.ragged import Ragged

pytestmark = pytest.mark.skipif(not simd.HAS_BF16, reason="this processor has no bfloat16 instructions")

KINDS = [name.split()[0] for name in KERNELS if not name.startswith("min-") and name not in ("rnn relu", "rnn sigmoid")]
ROUNDED = {"lstm-layer-norm": 0.03}
"""A norm of small sums makes what was rounded larger."""


def decoder_of(kind: str = "lstm", hidden: int = 11, embedding: int = 7, **options: Any) -> Decoder:
    torch.manual_seed(5)
    chosen = DecoderOptions(kind=kind, hidden=hidden, embedding=embedding, dropout=0.0, **options)
    decoder = Decoder(13, 9, 6, chosen)
    with torch.no_grad():
        for parameter in decoder.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
    return decoder.train()


def told(rows: int, places: int, seed: int = 0) -> Encoded:
    """What an encoder might hand on; every row has another number of places."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, places, 9, generator=generator).requires_grad_()
    summary = torch.randn(rows, 6, generator=generator).requires_grad_()
    lengths = torch.randint(1, places + 1, (rows,), generator=generator)
    return Encoded(values, torch.arange(places) < lengths[:, None], summary)


def ids_of(sizes: tuple[int, ...], rows: int) -> Tensor:
    return torch.randint(0, 13, (rows, len(sizes)), generator=torch.Generator().manual_seed(sum(sizes)))


def by_kernels(decoder: Decoder, encoded: Encoded, ids: Tensor, sizes: tuple[int, ...]) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        decoding = decoder.start(encoded)
        loop = decoder.loop(decoding)
        assert loop is not None
        return decoder.by_kernels(loop, decoding, ids, Ragged(sizes)).float()


def by_torch(decoder: Decoder, encoded: Encoded, ids: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return decoder.read_ragged(decoder.start(encoded), ids, Ragged(sizes))


def found(read: Any, decoder: Decoder, encoded: Encoded, sizes: tuple[int, ...]) -> list[Tensor]:
    """Features, and the gradients of a weighted sum of them by what was encoded and by every parameter."""
    parameters = [one for name, one in decoder.named_parameters() if not name.startswith("head")]
    features = read(decoder, encoded, ids_of(sizes, len(encoded.values)), sizes)
    weight = torch.randn(features.shape, generator=torch.Generator().manual_seed(1))
    wanted = [encoded.values, encoded.summary, *parameters]
    gradients = torch.autograd.grad((features * weight).sum(), wanted)
    return [features.detach(), *gradients]


def apart(left: Tensor, right: Tensor) -> float:
    return float((left.detach() - right.detach()).norm() / right.detach().norm().clamp(min=1e-2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sizes", "rows", "threads"),
    [((6, 6, 4, 3, 1), 6, 1), ((5, 5, 5, 2), 6, 2), ((3,), 3, 1), ((2, 2, 1), 2, 3), ((1, 1), 1, 2)],
)
def test_features_and_gradients_are_those_of_the_steps(
    kind: str, sizes: tuple[int, ...], rows: int, threads: int
) -> None:
    decoder, encoded, before = decoder_of(kind), told(rows, 5), torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        ours, theirs = (found(read, decoder, encoded, sizes) for read in (by_kernels, by_torch))
    finally:
        torch.set_num_threads(before)
    assert [one.shape for one in ours] == [one.shape for one in theirs]
    assert all(apart(one, other) < 0.06 for one, other in zip(ours, theirs, strict=True))
    assert apart(*(torch.cat([one.flatten() for one in each[1:]]) for each in (ours, theirs))) < ROUNDED.get(kind, 0.01)


@pytest.mark.parametrize("sizes", [(16, 16, 9, 4), (16,) * 3])
def test_sizes_of_whole_registers_and_tied_vectors(sizes: tuple[int, ...]) -> None:
    decoder, encoded = decoder_of("gru", hidden=32, embedding=16, tied=True, attention_size=48), told(16, 8)
    ours, theirs = (found(read, decoder, encoded, sizes) for read in (by_kernels, by_torch))
    assert all(apart(one, other) < 0.025 for one, other in zip(ours, theirs, strict=True))


def test_training_in_bfloat16_goes_this_way(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder, encoded, sizes = decoder_of(), told(4, 3), (4, 3, 3)
    monkeypatch.setattr(Decoder, "by_steps", None)
    with torch.autocast("cpu", torch.bfloat16):
        features = decoder.read_ragged(decoder.start(encoded), ids_of(sizes, 4), Ragged(sizes))
    assert features.shape == (10, 7)


def test_dropout_is_drawn_as_often_and_in_the_same_order_as_by_torch() -> None:
    """Of words, then of outputs: with a seed, features of a whole block of words differ by rounding alone."""
    decoder, encoded, sizes = decoder_of(), told(16, 4), (16,) * (SHAPED // 16)
    decoder.stack.dropout.share = 0.5
    features = []
    for read in (by_kernels, by_torch):
        torch.manual_seed(3)
        features.append(read(decoder, encoded, ids_of(sizes, 16), sizes))
    assert apart(*features) < 0.02


@given(shapes=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 6)), min_size=2, max_size=4), data=st.data())
@settings(max_examples=20)
def test_passes_that_share_memory_do_not_disturb_each_other(shapes: list[tuple[int, int]], data: st.DataObject) -> None:
    """Read one after the other, then learnt from in any order: what each gives alone."""
    decoder = decoder_of("lstm")
    many = [(told(rows, rows + 1, number), (rows,) * steps) for number, (rows, steps) in enumerate(shapes)]
    alone = [found(by_kernels, decoder_of("lstm"), *one) for one in many]
    features = [by_kernels(decoder, encoded, ids_of(sizes, len(encoded.values)), sizes) for encoded, sizes in many]
    for number in data.draw(st.permutations(range(len(shapes)))):
        encoded = many[number][0]
        weight = torch.randn(features[number].shape, generator=torch.Generator().manual_seed(1))
        gradient = torch.autograd.grad((features[number] * weight).sum(), encoded.values)[0]
        assert torch.equal(features[number], alone[number][0])
        assert torch.equal(gradient, alone[number][1])


def test_what_the_kernels_do_not_know_is_left_to_torch() -> None:
    def tried(decoder: Decoder, dtype: torch.dtype = torch.bfloat16) -> object:
        with torch.autocast("cpu", dtype):
            return decoder.loop(decoder.start(told(3, 4)))

    assert tried(decoder_of()) is not None
    assert tried(decoder_of(), torch.float16) is None
    assert tried(decoder_of(layers=2)) is None
    assert tried(decoder_of(layer_norm=True)) is None
    assert tried(decoder_of(attention="scaled-dot")) is None
    assert tried(decoder_of("min-gru")) is None
    assert tried(decoder_of("gated-delta", hidden=16)) is None
    frozen = decoder_of()
    frozen.stack.requires_grad_(False)
    assert tried(frozen) is None
    assert tried(decoder_of().eval()) is None
    assert tried(decoder_of(attend="after")) is None
    with torch.no_grad():
        assert tried(decoder_of()) is None


def test_a_batch_without_words_has_no_gradient() -> None:
    decoder, encoded = decoder_of(), told(3, 4)
    found(by_kernels, decoder, encoded, (3, 2))  # the memory of this one must not come back
    with torch.autocast("cpu", torch.bfloat16):
        features = decoder.read_ragged(decoder.start(encoded), ids_of((), 3), Ragged(()))
    assert features.shape == (0, 7)
    assert not features.requires_grad


def test_weights_that_changed_or_moved_and_copies_of_a_decoder_are_read_as_they_are() -> None:
    decoder, encoded, sizes = decoder_of(), told(3, 4), (3, 3, 2)
    first = found(by_kernels, decoder, encoded, sizes)
    twin = copy.deepcopy(decoder)
    with torch.no_grad():
        decoder.stack.cells[0].get_parameter("from_input.weight").mul_(2)
    changed = found(by_kernels, decoder, encoded, sizes)
    assert apart(changed[0], first[0]) > 0.02
    assert apart(changed[0], found(by_torch, decoder, encoded, sizes)[0]) < 0.02
    assert all(map(torch.equal, found(by_kernels, twin, encoded, sizes), first))


def test_a_second_gradient_of_the_same_loop_is_refused() -> None:
    features = by_kernels(decoder_of(), told(2, 3), ids_of((2, 2), 2), (2, 2))
    features.sum().backward(retain_graph=True)
    with pytest.raises(AssertionError, match="asked for twice"):
        features.sum().backward()
