"""Log-probs of a large output layer by the kernels: product, sum of exponentials and all, a few rows at a time."""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.kernels import head as kernels
from ostinato.kernels import simd
from ostinato.kernels.packing import pack_rows, packed, panels
from ostinato.nn.fused.weights import width_of
from ostinato.nn.heads import LinearHead
from ostinato.nn.looking import array_of, share_out


def log_probs(head: LinearHead, features: Tensor) -> Tensor | None:
    """Log-probs [..., outputs] (nats) after features [..., width], in float32; None where the kernels do not fit.

    Only of weights in bfloat16: those are of a copy made for answers, which nobody trains, so they are packed once.
    """
    weight = head.weight
    if weight.dtype != torch.bfloat16 or weight.device.type != "cpu" or head.bias.dtype != torch.float32:
        return None
    if not simd.HAS_BF16 or torch.is_grad_enabled() or not features.numel():
        return None
    known = _known.get(head)
    if known is None or known.place != weight.data_ptr():
        known = _known[head] = Packed.of(head)
    rows = features.reshape(-1, features.shape[-1]).to(torch.bfloat16)
    said = known.log_probs(array_of(rows), head.bias.detach().numpy())
    return torch.from_numpy(said).view(*features.shape[:-1], head.outputs)


class Packed(NamedTuple):
    """An output matrix as the kernels read it; place: where its numbers are."""

    place: int
    matrix: NDArray[np.uint32]
    width: int

    @classmethod
    def of(cls, head: LinearHead) -> Packed:
        """That of an output layer."""
        values = head.weight.detach()[: head.outputs].float().numpy()
        width = width_of(values.shape[1])
        matrix = packed(len(values), width)
        pack_rows(values, matrix, 0, panels(len(values)))
        return cls(head.weight.data_ptr(), matrix, width)

    def log_probs(self, features: NDArray[np.uint16], bias: NDArray[np.float32]) -> NDArray[np.float32]:
        """[N, outputs] after features [N, width] in bfloat16, in torch's threads."""
        if features.shape[1] < self.width:
            wide = np.zeros((len(features), self.width), np.uint16)
            wide[:, : features.shape[1]] = features
            features = wide
        out = np.empty((len(features), len(bias)), np.float32)

        def work(member: int, begin: int, end: int) -> None:
            kernels.log_probs(features, self.matrix, bias, out, begin, end)

        share_out(len(features), work)
        return out


_known: WeakKeyDictionary[LinearHead, Packed] = WeakKeyDictionary()
