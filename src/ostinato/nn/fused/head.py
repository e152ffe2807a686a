"""The softmax over the vocabulary: loss, gradient and the errors of the features, by the kernels of `kernels.head`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.kernels import head as kernels
from ostinato.kernels.exponential import TOKENS as TILE
from ostinato.kernels.packing import pack_tokens, pair_rows, panels
from ostinato.kernels.simd import WIDTH
from ostinato.kernels.team import Team, part
from ostinato.nn.fused.memory import Memory

Floats = NDArray[np.float32]
TOKENS = 1024
"""Tokens whose exponentials over the whole vocabulary are alive at once: bounds memory."""


@dataclass(frozen=True)
class SoftmaxWeights:
    """The output matrix [V, D] and bias [V], and their gradients (None if they are not wanted)."""

    matrix: Floats
    bias: Floats
    matrix_gradient: Floats | None
    bias_gradient: Floats | None


@dataclass(frozen=True)
class Chunk:
    """Tokens that are worked on together: which rows of the features, and the words that follow them."""

    weights: SoftmaxWeights
    features: NDArray[np.uint16]
    rows: NDArray[np.int64]
    targets: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        """How many columns they take: whole tiles."""
        return -(-len(self.rows) // TILE) * TILE

    def unit(self, team: Team) -> int:
        """Words of a block: whole tiles of six rows, so few that a small vocabulary is shared evenly."""
        return min(kernels.WORDS, -(-len(self.weights.bias) // (6 * team.threads)) * 6)

    @staticmethod
    def share(count: int, team: Team, member: int, unit: int = 1) -> tuple[int, int]:
        """A member's part of 0..count."""
        return part(0, count, member, team.threads, unit)


class Room(NamedTuple):
    """What all threads read and write; V words, N tokens, P panels of the width D."""

    backs: Floats  # [threads, N, D]
    kept: NDArray[np.uint16]  # [V, N]
    largest: Floats  # [V / WORDS, N]
    sums: Floats
    logs: Floats  # [N]
    logits: Floats
    columns: NDArray[np.uint32]  # [N / 16, D / 2, 16]
    pairs: NDArray[np.uint32]  # [P, N / 2, 16]


class FusedSoftmax:
    """Cross-entropy of a softmax from bfloat16 features; each thread has a range of the vocabulary, memory is kept.

    Source: the gradient softmax(z) - onehot(target) [Bridle1990].
    """

    def __init__(self, team: Team):
        self.team = team
        self.shared = Memory()
        self.own = [Memory() for _ in range(team.threads)]

    def run(
        self,
        member: int,
        weights: SoftmaxWeights,
        features: NDArray[np.uint16],
        rows: NDArray[np.int64],
        targets: NDArray[np.int64],
        scale: float,
        errors: Floats | None,
        add: bool,
    ) -> float:
        """One member's part of the loss in nats, summed over the tokens; all members call this.

        features: [N, width] with zeros beyond D. rows: which of them count; targets: what follows them. errors [N, D]:
        those rows of it are overwritten with the gradient of scale * loss; that of the weights is added to their
        gradients, or written there if `add` is not set. None: the loss alone.
        """
        total = 0.0
        for begin in range(0, len(rows), TOKENS):
            chunk = slice(begin, begin + TOKENS)
            batch = Chunk(weights, features, rows[chunk], targets[chunk])
            total += self._forward(member, batch)
            if errors is not None:
                self._backward(member, batch, np.float32(scale), errors, int(add or begin > 0))
        return total

    def _forward(self, member: int, batch: Chunk) -> float:
        """The exponentials of all logits, and this member's part of the loss."""
        weights, team, own = batch.weights, self.team, self.own[member].take
        width, tokens = batch.features.shape[1], batch.tokens
        team.meet()
        if member == 0:  # one thread makes the room, so that all have the same
            self._room(batch)
        team.meet()
        room = self._room(batch)
        pack_tokens(
            batch.features.view(np.uint32), batch.rows, room.columns, *batch.share(panels(tokens), team, member)
        )
        pair_rows(batch.features, batch.rows, room.pairs, *batch.share(tokens // 2, team, member))
        mine = batch.share(len(batch.rows), team, member)
        kernels.target_logits(
            weights.matrix, weights.bias, batch.features, batch.rows, batch.targets, *mine, room.logits
        )
        team.meet()
        unit = batch.unit(team)
        kernels.forward(
            weights.matrix, weights.bias, room.columns, width // 2, tokens, unit,
            *batch.share(len(weights.bias), team, member, unit),
            own("narrowed", (unit, width), np.uint16), own("tile", (unit, TILE)),
            room.kept, room.largest, room.sums,
        )  # fmt: skip
        team.meet()
        kernels.log_sum(room.largest, room.sums, *mine, room.logs)
        return float((room.logs[slice(*mine)].astype(np.float64) - room.logits[slice(*mine)]).sum())

    def _backward(self, member: int, batch: Chunk, scale: np.float32, errors: Floats, add: int) -> None:
        """The gradient, after `_forward` of the same tokens."""
        weights, team, own, room = batch.weights, self.team, self.own[member].take, self._room(batch)
        unit, tokens, size = batch.unit(team), batch.tokens, weights.matrix.shape[1]
        words = batch.share(len(weights.bias), team, member, unit)
        block = unit * min(kernels.BLOCK // unit, max(1, -(-(words[1] - words[0]) // unit)))
        mine = (
            own("factors", (block // unit, tokens)),
            own("errors", (block, tokens), np.uint16),
            own("pairs", (block // 2, tokens), np.uint32),
            own("packed", (panels(size), block // 2, WIDTH), np.uint32),
            own("sums", (block,)),
        )
        team.meet()
        kernels.backward(
            weights.matrix, weights.bias_gradient, weights.matrix_gradient, room.pairs, room.kept, room.largest,
            room.logs, batch.targets, len(batch.rows), scale, add, unit, *words, mine, room.backs[member],
        )  # fmt: skip
        team.meet()
        kernels.add_up(room.backs, batch.rows, errors, *batch.share(len(batch.rows), team, member))

    def _room(self, batch: Chunk) -> Room:
        """The arrays that all members share."""
        words, size = batch.weights.matrix.shape
        width, tokens = batch.features.shape[1], batch.tokens
        take, blocks = self.shared.take, -(-words // batch.unit(self.team))
        return Room(
            take("backs", (self.team.threads, tokens, size)),
            take("kept", (words, tokens), np.uint16),
            take("largest", (blocks, tokens)),
            take("sums", (blocks, tokens)),
            take("logs", (tokens,)),
            take("logits", (tokens,)),
            take("columns", (panels(tokens), width // 2, WIDTH), np.uint32),
            take("token pairs", (panels(width), tokens // 2, WIDTH), np.uint32),
        )


@functools.cache
def softmax_of(team: Team) -> FusedSoftmax:
    """The one softmax of a team, whose memory all losses that are computed one after another share."""
    return FusedSoftmax(team)
