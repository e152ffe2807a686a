"""Log-probs of an output layer by the kernels, and what is found once of every word, in copies made for answers."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from ostinato.kernels import simd
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.nn.encoder_decoder_options import EncoderDecoderOptions
from ostinato.nn.fused import saying
from ostinato.nn.heads import LinearHead, make_head
from ostinato.nn.heads.options import HeadOptions
from ostinato.nn.translator import Translator

pytestmark = pytest.mark.skipif(not simd.HAS_BF16, reason="this processor has no bfloat16 instructions")


def head_of(outputs: int, width: int, tied: bool = False) -> LinearHead:
    torch.manual_seed(2)
    embedding = nn.Embedding(outputs + 2, width) if tied else None
    head = make_head(HeadOptions(kind="softmax"), width, outputs, None, embedding.weight if embedding else None)
    assert isinstance(head, LinearHead)
    with torch.no_grad():
        head.bias.normal_()
    head.weight.data = head.weight.data.bfloat16()
    return head


def said(head: LinearHead, features: Tensor) -> Tensor:
    with torch.no_grad():
        found = saying.log_probs(head, features)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("outputs", "width", "tied"), [(43, 11, True), (500, 64, False), (17, 16, True), (1, 3, False)]
)
@pytest.mark.parametrize("threads", [1, 2])
def test_they_are_the_softmax_of_the_scores(outputs: int, width: int, tied: bool, threads: int) -> None:
    head, before = head_of(outputs, width, tied), torch.get_num_threads()
    features = torch.randn(53, width).bfloat16()
    wanted = torch.log_softmax(features.double() @ head.weight[:outputs].double().T + head.bias.double(), dim=-1)
    try:
        torch.set_num_threads(threads)
        found = said(head, features)
    finally:
        torch.set_num_threads(before)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), wanted, atol=2e-5, rtol=1e-5)
    assert torch.equal(said(head, features[7:8]), found[7:8])
    assert torch.equal(said(head, features.view(1, 53, width))[0], found)


def test_weights_that_moved_are_packed_anew() -> None:
    head, features = head_of(9, 4), torch.randn(3, 4).bfloat16()
    first = said(head, features)
    twin = copy.deepcopy(head)
    twin.weight.data = twin.weight.data * 2
    assert not torch.equal(said(twin, features), first)
    assert torch.equal(said(head, features), first)


def test_weights_that_may_be_trained_are_left_to_torch() -> None:
    head, features = head_of(9, 4), torch.randn(3, 4).bfloat16()
    assert saying.log_probs(head, features) is None  # a gradient may be asked for
    with torch.no_grad():
        assert saying.log_probs(head, features[:0]) is None
        head.weight.data = head.weight.data.float()
        assert saying.log_probs(head, features) is None


@pytest.mark.parametrize("form", [{}, {"attend": "after", "input_feeding": True}, {"kind": "gru"}, {"kind": "rnn"}])
def test_what_is_read_of_a_word_is_looked_up(form: dict[str, Any]) -> None:
    """A translator in bfloat16 says the same with its table as without, and nobody else has one."""
    torch.manual_seed(0)
    options = EncoderDecoderOptions(**{"embedding": 8, "hidden": 16, "dropout": 0.0} | form)
    network = EncoderDecoder(9, 12, options).eval()
    translator = Translator(network, bf16=True)
    assert network.decoder.table is None
    assert translator.network.decoder.table is not None
    rows, targets = [np.array([1, 2, 3]), np.array([4])], [np.array([2, 3, 5]), np.array([7, 1])]
    found = translator.score(rows, targets)
    translator.network.decoder.table = None
    for (ours, _), (theirs, _) in zip(found, translator.score(rows, targets), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-3)
