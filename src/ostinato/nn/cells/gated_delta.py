"""Linear attention with a matrix for its state: the gated delta rule."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, silu, softplus

from ostinato.core.errors import ConfigError
from ostinato.nn.cells.base import Cell, cells

CHUNK = 32  # steps solved at once; the fastest of 8 to 64 on a CPU at heads of 32 and 64
LARGEST_HEAD, SMALLEST_HEAD = 64, 16
EPSILON = 1e-6


class GatedDeltaState(NamedTuple):
    memory: Tensor  # [B, heads, head, head], keys by values
    recent: Tensor  # [B, window - 1, 3 * hidden_size], what the convolution still has to see, the oldest first


class GatedDeltaGates(NamedTuple):
    keep: Tensor  # [B, heads] in (0, 1)
    write: Tensor  # [B, heads] in (0, 1)
    candidate: Tensor  # [B, heads, head], the value


class Reading(NamedTuple):
    """What all steps need of the inputs; the memory takes no part in it."""

    query: Tensor  # these three [B, T, heads, head]
    key: Tensor
    value: Tensor
    log_keep: Tensor  # these two [B, T, heads]
    write: Tensor
    output: Tensor  # [B, T, hidden_size], the output gate


@cells.register("gated-delta")
class GatedDelta(Cell):
    """Gated delta rule: each head keeps a table S of values under keys, forgets, and corrects one key a step.

    query, key  q, k = u / |u| of u = silu(C(Wq x)), silu(C(Wk x))
    value       v = silu(C(Wv x))
    write       b = sigmoid(Wb x)
    keep        a = exp(-exp(r) * softplus(Wa x + d))
    memory      S' = a * S (I - b k k^T) + b v k^T
    output      y = Wo (N(S' q) * silu(Wg x))

    C is a causal depthwise convolution over `window` steps (1: none), N a root mean square norm for each head
    with one gain for all [Zhang2019]. The state holds S transposed, and what C reads again.
    heads: divides hidden_size; None takes the fewest whose size is at most 64.
    `scan` solves chunks of steps at once, by the UT transform of section 3.3 of the source.
    Source: [Yang2025] eq. 10 and section 3.4; keep as [Dao2024]. Differs: values are as wide as keys; |u|
    is sqrt(u u + 1e-6), so that a vector of zeros has a gradient; no bias but d.
    """

    def __init__(self, input_size: int, hidden_size: int, heads: int | None = None, window: int = 4):
        super().__init__(input_size, hidden_size)
        self.heads = heads_of(hidden_size, heads)
        self.window = window
        self.from_input = nn.Linear(input_size, 4 * hidden_size + 2 * self.heads, bias=False)  # q, k, v, g, b, a
        self.convolution = nn.Parameter(torch.empty(window, 3 * hidden_size))  # the oldest step first
        self.log_rate = nn.Parameter(torch.empty(self.heads))
        self.rate_shift = nn.Parameter(torch.empty(self.heads))
        self.gain = nn.Parameter(torch.empty(hidden_size // self.heads))
        self.to_output = nn.Linear(hidden_size, hidden_size, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Begin with the newest step alone in the convolution and with heads that forget in 1 to hundreds of steps.

        Source: the ranges of rate and step are those of [Dao2024]; drawn apart there, spread together here.
        """
        with torch.no_grad():
            self.convolution.zero_()
            self.convolution[-1] = 1
            self.gain.fill_(1)
            place = (torch.arange(self.heads) + 0.5) / self.heads
            self.log_rate.copy_(torch.log(16 * place))
            shift = torch.exp(math.log(0.001) + place * math.log(0.1 / 0.001))
            self.rate_shift.copy_(shift + torch.log(-torch.expm1(-shift)))  # softplus of this is the shift

    def init_state(self, batch: int) -> GatedDeltaState:
        head = self.hidden_size // self.heads
        new = self.gain.new_zeros
        return GatedDeltaState(new(batch, self.heads, head, head), new(batch, self.window - 1, 3 * self.hidden_size))

    def gates(self, state: GatedDeltaState, x: Tensor) -> GatedDeltaGates:
        read, _ = self.read(state.recent, x[:, None])
        return GatedDeltaGates(read.log_keep[:, 0].exp(), read.write[:, 0], read.value[:, 0])

    def step(self, state: GatedDeltaState, x: Tensor) -> tuple[Tensor, GatedDeltaState]:
        read, recent = self.read(state.recent, x[:, None])
        query, key, value, log_keep, write = (part[:, 0] for part in read[:5])
        kept = log_keep.exp()[..., None, None] * state.memory
        error = value - (key[..., None, :] @ kept)[..., 0, :]  # what the memory says of this key is taken out
        memory = kept + (write[..., None] * key)[..., None] * error[..., None, :]
        answer = (query[..., None, :] @ memory)[..., 0, :]
        return self.finish(answer, read.output[:, 0]), GatedDeltaState(memory, recent)

    def scan(self, state: GatedDeltaState, xs: Tensor) -> tuple[Tensor, GatedDeltaState]:
        read, recent = self.read(state.recent, xs)
        with torch.autocast(xs.device.type, enabled=False):
            answers, memory = answer_chunks(state.memory, *read[:5])
        return self.finish(answers, read.output), GatedDeltaState(memory, recent)

    def read(self, recent: Tensor, xs: Tensor) -> tuple[Reading, Tensor]:
        """What `xs` [B, T, input_size] asks and writes, in the dtype of the state, and the new `recent`."""
        heads, sizes = self.heads, [3 * self.hidden_size, self.hidden_size, self.heads, self.heads]
        mixed, gate, write, rate = self.from_input(xs).to(recent.dtype).split(sizes, dim=-1)
        seen = torch.cat([recent, mixed], dim=1)
        steps = xs.shape[1]
        total = seen[:, :steps] * self.convolution[0]
        for back in range(1, self.window):
            total = torch.addcmul(total, seen[:, back : back + steps], self.convolution[back])
        query, key, value = silu(total).reshape(*total.shape[:2], 3, heads, -1).unbind(2)
        log_keep = -self.log_rate.exp() * softplus(rate + self.rate_shift)
        read = Reading(unit(query), unit(key), value, log_keep, torch.sigmoid(write), silu(gate))
        return read, seen[:, steps:]

    def finish(self, answers: Tensor, gate: Tensor) -> Tensor:
        """The outputs [..., hidden_size] of what the heads answer, [..., heads, head]."""
        normed = rms_norm(answers, self.gain.shape, self.gain, EPSILON)
        output: Tensor = self.to_output(normed.flatten(-2) * gate)
        return output.to(gate.dtype)

    def recurrent_matrices(self) -> list[Tensor]:
        return []

    def input_matrices(self) -> list[Tensor]:
        return list(self.from_input.weight[: 4 * self.hidden_size].chunk(4))


def heads_of(hidden_size: int, heads: int | None) -> int:
    """How many heads `hidden_size` is cut into. Raises ConfigError if that cannot be done evenly."""
    if heads is None:
        heads = next(n for n in range(1, hidden_size + 1) if hidden_size % n == 0 and hidden_size // n <= LARGEST_HEAD)
        if heads > 1 and hidden_size // heads < SMALLEST_HEAD:
            raise ConfigError(
                f"no head size from {SMALLEST_HEAD} to {LARGEST_HEAD} divides {hidden_size} hidden units; take a "
                f"multiple of {LARGEST_HEAD // 2} or say how many heads"
            )
    if heads < 1 or hidden_size % heads:
        raise ConfigError(f"{heads} heads do not divide {hidden_size} hidden units; take a divisor, as 1 or 2")
    return heads


def unit(x: Tensor) -> Tensor:
    """x / |x| along the last axis; a vector of zeros stays one."""
    return x * torch.rsqrt(x.square().sum(dim=-1, keepdim=True) + EPSILON)


def answer_chunks(
    memory: Tensor, query: Tensor, key: Tensor, value: Tensor, log_keep: Tensor, write: Tensor
) -> tuple[Tensor, Tensor]:
    """What the memory [B, heads, head, head] answers at each of T steps, and the memory after them.

    query, key, value: [B, T, heads, head]; log_keep, write: [B, T, heads]. Returns [B, T, heads, head].
    Within a chunk, S_r = g_r S_0 + sum over i <= r of (g_r / g_i) u_i k_i^T, with g the product of what was kept
    and u_i = b_i (v_i - g_i S_0 k_i) - b_i * (sum over j < i of (g_i / g_j) (k_j k_i) u_j): a triangular system.
    Source: [Yang2025] section 3.3.
    """
    steps = query.shape[1]
    count = -(-steps // CHUNK)
    size = -(-steps // count)
    query, key, value, log_keep, write = (
        cut(part, count, size) for part in (query, key, value, log_keep[..., None], write[..., None])
    )
    total = log_keep.cumsum(dim=3)  # [B, heads, count, size, 1], log g
    later = torch.ones(size, size, dtype=torch.bool, device=query.device).tril()
    decay = (total - total.mT).masked_fill(~later, -torch.inf).exp()  # g_r / g_i
    system = (write * (key @ key.mT) * decay).tril(-1)
    right = torch.cat([write * value, write * total.exp() * key], dim=-1)
    own, through = torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True).chunk(2, dim=-1)
    scores = (query @ key.mT) * decay
    last = total[..., -1:, :]
    stored = ((last - total).exp() * key).mT
    chunks = (own, through, scores, total.exp() * query, stored, last.exp())
    answers = []
    for new, erased, score, asked, place, keep in zip(*(part.unbind(2) for part in chunks), strict=True):
        update = new - erased @ memory
        answers.append(asked @ memory + score @ update)
        memory = keep * memory + place @ update
    return torch.cat(answers, dim=2)[:, :, :steps].transpose(1, 2), memory


def cut(part: Tensor, count: int, size: int) -> Tensor:
    """[B, T, heads, d] as chunks [B, heads, count, size, d]; steps beyond T are zeros, which change no memory."""
    missing = count * size - part.shape[1]
    if missing:
        part = nn.functional.pad(part, (0, 0, 0, 0, 0, missing))
    rows, _, heads, width = part.shape
    return part.reshape(rows, count, size, heads, width).permute(0, 3, 1, 2, 4)
