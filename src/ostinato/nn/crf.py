"""A linear-chain conditional random field: the output layer of a tagger whose tags depend on their neighbours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable

from ostinato.core.errors import ConfigError, DivergedError, MismatchError, ShapeError
from ostinato.nn.unroll import reversal, turn

Floats = NDArray[np.float64]
SPREAD = 700.0  # nats between two numbers whose exponentials float64 can both hold


class Allowed(NamedTuple):
    """Which tags may begin, follow each other, and end: arrays of truth values."""

    start: NDArray[np.bool_]  # [K]
    between: NDArray[np.bool_]  # [K, K], from row to column
    end: NDArray[np.bool_]  # [K]


class Weights(NamedTuple):
    """The scores of beginning with a tag, of one after another, and of ending; -inf is impossible."""

    start: Tensor  # [K]
    between: Tensor  # [K, K], from row to column
    end: Tensor  # [K]


class Path(NamedTuple):
    """The tags of a row and their score, not normalised."""

    tags: NDArray[np.int64]  # [length]
    score: float


class CRF(nn.Module):
    """log p(y | x) = score(x, y) - log Z(x) over the tags y of a whole row.

    score(x, y) = start[y_1] + sum over t of x[t, y_t] + sum over t > 1 of between[y_(t-1), y_t] + end[y_T]
    Z(x)        = sum over all y of exp(score(x, y))

    x: scores [B, T, K] of a network, finite; lengths: [B] from 1 to T. What stands beyond a row's length takes no
    part. allowed: what is outside it is never decoded; in_training: nor has it a share of Z, so that a network need
    not learn it. Sums are made in float64. Cost: T steps over [B, K, K].
    Raises ConfigError for an `allowed` of another size. Methods raise ShapeError for arrays that do not fit.
    Source: [Lafferty2001] section 3; forward-backward and Viterbi: [Rabiner1989] section III.
    """

    forbidden_start: Tensor
    forbidden_between: Tensor
    forbidden_end: Tensor

    def __init__(self, tags: int, allowed: Allowed | None = None, in_training: bool = False):
        super().__init__()
        self.tags, self.in_training = tags, in_training
        self.start, self.end = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))
        self.between = nn.Parameter(torch.zeros(tags, tags))
        for name, wanted in (("start", (tags,)), ("between", (tags, tags)), ("end", (tags,))):
            part = np.ones(wanted, np.bool_) if allowed is None else np.asarray(getattr(allowed, name), np.bool_)
            if part.shape != wanted:
                raise ConfigError(f"allowed.{name} is of shape {part.shape}, but {tags} tags need {wanted}")
            self.register_buffer(f"forbidden_{name}", torch.from_numpy(~part), persistent=False)

    def weights(self, constrained: bool) -> Weights:
        """The parameters, with -inf for what is not allowed if `constrained`."""
        if not constrained:
            return Weights(self.start, self.between, self.end)
        return Weights(
            self.start.masked_fill(self.forbidden_start, -torch.inf),
            self.between.masked_fill(self.forbidden_between, -torch.inf),
            self.end.masked_fill(self.forbidden_end, -torch.inf),
        )

    def loss(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """-log p(tags | scores) [B] in nats; tags: [B, T], of any number beyond a row's length.

        Raises MismatchError for tags that are not allowed, if that counts in training.
        """
        nats = self.log_partition(scores, lengths) - self.score(scores, tags, lengths)
        if self.in_training and bool(torch.isinf(nats).any()):
            raise MismatchError(
                f"row {int(torch.isinf(nats).int().argmax())} has tags that are not allowed; mend the data, or let the "
                "constraint hold in decoding only"
            )
        return nats

    def score(self, scores: Tensor, tags: Tensor, lengths: Tensor) -> Tensor:
        """score(x, y) [B] of tags [B, T]."""
        inside = self.inside(scores, lengths)
        if tags.shape != inside.shape:
            raise ShapeError(f"tags {tuple(tags.shape)} and scores {tuple(scores.shape)} must agree in [batch, steps]")
        start, between, end = self.weights(self.in_training)
        tags = torch.where(inside, tags, 0)
        own = scores.gather(2, tags[:, :, None])[:, :, 0].where(inside, 0).sum(dim=1)
        steps = between[tags[:, :-1], tags[:, 1:]].where(inside[:, 1:], 0).sum(dim=1)
        return start[tags[:, 0]] + own + steps + end[tags.gather(1, lengths[:, None] - 1)[:, 0]]

    def log_partition(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """log Z(x) [B]; its gradient are the expected counts of tags and of pairs of tags."""
        self.inside(scores, lengths)
        weights = self.weights(self.in_training)
        total: Tensor = _LogPartition.apply(scores, lengths, *weights)  # type: ignore[no-untyped-call]
        return total

    @torch.no_grad()
    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """p(y_t = k | x) [B, T, K] over the rows of tags that are allowed; 0 beyond a row's length."""
        inside = self.inside(scores, lengths)
        sums = _sums(scores, lengths, self.weights(True), both=True)
        return sums.marginals(inside).to(scores.dtype)

    @torch.no_grad()
    def decode(self, scores: Tensor, lengths: Tensor) -> tuple[NDArray[np.int64], Floats]:
        """The best tags [B, T] that are allowed, 0 beyond a row's length, and their scores [B].

        Equal ones: the lower tag, from the last place on. Raises MismatchError if a row can have no tags.
        """
        self.inside(scores, lengths)
        return _viterbi(_double(scores), lengths.cpu().numpy(), *map(_double, self.weights(True)))

    @torch.no_grad()
    def n_best(self, scores: Tensor, lengths: Tensor, count: int) -> list[list[Path]]:
        """The `count` best rows of tags that are allowed, best first; fewer where there are no more."""
        self.inside(scores, lengths)
        start, between, end = map(_double, self.weights(True))
        rows = zip(_double(scores), lengths.tolist(), strict=True)
        return [_best_paths(row[:length], start, between, end, count) for row, length in rows]

    def inside(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """Which places [B, T] are inside the rows."""
        if scores.dim() != 3 or scores.shape[2] != self.tags or lengths.shape != scores.shape[:1]:
            raise ShapeError(
                f"scores {tuple(scores.shape)} and lengths {tuple(lengths.shape)} must be [batch, steps, {self.tags}] "
                "and [batch]"
            )
        if len(lengths) and not (1 <= int(lengths.min()) and int(lengths.max()) <= scores.shape[1]):
            raise ShapeError(
                f"lengths reach from {int(lengths.min())} to {int(lengths.max())}, but rows have 1 to "
                f"{scores.shape[1]} places; leave empty rows out"
            )
        return torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]


class _Sums(NamedTuple):
    """What forward and backward give; in float64, of finite numbers beyond a row's length."""

    scores: Tensor  # these three [B, T, K]
    before: Tensor  # log of the sum over all tags up to a place that end there with a tag, its score included
    after: Tensor  # the same from a place on
    total: Tensor  # [B], log Z
    safe: bool  # whether no exponential of a difference was lost

    def marginals(self, inside: Tensor) -> Tensor:
        """The shares [B, T, K] of tags, 0 where not `inside` [B, T]."""
        logs = self.before + self.after - self.scores - self.total[:, None, None]
        return logs.exp().where(inside[:, :, None], 0)

    def pairs(self, weights: Tensor, between: Tensor) -> Tensor:
        """The expected counts [K, K] of pairs of tags, place t weighing `weights` [B, T - 1] with the one after it."""
        before, after = self.before[:, :-1], self.after[:, 1:]
        counted = weights != 0  # elsewhere an exponential might overflow
        if not self.safe:
            logs = before[..., None] + between + after[:, :, None] - self.total[:, None, None, None]
            return torch.einsum("bt,btij->ij", weights, logs.where(counted[:, :, None, None], -torch.inf).exp())
        top = before.amax(dim=2, keepdim=True).clamp(min=-1e300)
        reached = counted[:, :, None] & (self.before[:, 1:] > -torch.inf)
        left = (before - top).exp()
        right = (after + top - self.total[:, None, None]).where(reached, -torch.inf).exp() * weights[:, :, None]
        return between.exp() * (left.flatten(0, 1).T @ right.flatten(0, 1))


def _sums(scores: Tensor, lengths: Tensor, weights: Weights, both: bool) -> _Sums:
    """Forward and, if `both`, backward in one loop: the latter is the former on rows turned around."""
    inside = torch.arange(scores.shape[1], device=scores.device) < lengths[:, None]
    scores = scores.double().where(inside[:, :, None], 0)
    start, between, end = (part.double() for part in weights)
    turned = reversal(lengths, scores.shape[1])
    rows, starts, steps = scores[None], start[None], between[None]
    if both:
        rows = torch.stack([scores, turn(scores, turned)])
        starts, steps = torch.stack([start, end]), torch.stack([between, between.T])
    sums, safe = _by_products(rows, starts, steps)
    if not safe:
        sums = _by_steps(rows, starts, steps)
    before = sums[0]
    last = before.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, scores.shape[2]))[:, 0]
    return _Sums(scores, before, turn(sums[1], turned) if both else before, torch.logsumexp(last + end, dim=1), safe)


def _by_steps(rows: Tensor, starts: Tensor, between: Tensor) -> Tensor:
    """s_1 = start + x_1, s_t[j] = x_t[j] + log of the sum over i of exp(s_(t-1)[i] + between[i, j]).

    rows: [D, B, T, K], starts: [D, K], between: [D, K, K] for D recursions at once. Returns [D, B, T, K].
    """
    first, *others = rows.unbind(dim=2)
    sums = [starts[:, None] + first]
    for row in others:
        sums.append(torch.logsumexp(sums[-1][..., None] + between[:, None], dim=2) + row)
    return torch.stack(sums, dim=2)


def _by_products(rows: Tensor, starts: Tensor, between: Tensor) -> tuple[Tensor, bool]:
    """As `_by_steps`, a step being a matrix product of exponentials; and whether float64 could hold them all."""
    finite = between.where(between > -torch.inf, torch.nan).nan_to_num(0.0)
    shift = finite.max()
    factors = (between - shift).exp()
    first, *others = rows.unbind(dim=2)
    sums = [starts[:, None] + first]
    for row in others:
        top = sums[-1].amax(dim=2, keepdim=True).clamp(min=-1e300)  # finite where nothing can be reached
        sums.append(((sums[-1] - top).exp() @ factors).log_().add_(top + shift).add_(row))
    found = torch.stack(sums, dim=2)
    lowest = found.where(found > -torch.inf, torch.inf).amin(dim=3)
    spread = (found.amax(dim=3) - lowest).amax() + (shift - finite.min())
    return found, bool(spread < SPREAD)


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, lengths: Tensor, start: Tensor, between: Tensor, end: Tensor) -> Tensor:
        ctx.wanted = any(ctx.needs_input_grad)
        ctx.sums = _sums(scores, lengths, Weights(start, between, end), both=ctx.wanted)
        ctx.lengths, ctx.between, ctx.dtype = lengths, between, scores.dtype
        total: Tensor = ctx.sums.total.to(scores.dtype)
        return total

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator, unused-ignore]
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        sums, lengths, between = ctx.sums, ctx.lengths, ctx.between  # type: ignore[attr-defined]
        inside = torch.arange(sums.scores.shape[1], device=grad.device) < lengths[:, None]
        weight = grad.double()
        shares = sums.marginals(inside) * weight[:, None, None]
        pairs = sums.pairs(inside[:, 1:] * weight[:, None], between.double())
        ends = shares.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, shares.shape[2]))[:, 0].sum(dim=0)
        dtype = between.dtype
        return shares.to(ctx.dtype), None, shares[:, 0].sum(dim=0).to(dtype), pairs.to(dtype), ends.to(dtype)  # type: ignore[attr-defined]


def _double(part: Tensor) -> Floats:
    return part.double().cpu().numpy()


def _viterbi(
    scores: Floats, lengths: NDArray[np.int64], start: Floats, between: Floats, end: Floats
) -> tuple[NDArray[np.int64], Floats]:
    """The best tags [B, T] and their scores [B]. Where each came from is looked up for the best alone."""
    rows, steps, _ = scores.shape
    best = np.empty((steps, *scores[:, 0].shape))
    best[0] = start + scores[:, 0]
    for t in range(1, steps):
        best[t] = (best[t - 1][:, :, None] + between).max(axis=1) + scores[:, t]
    last = lengths - 1
    final = best[last, np.arange(rows)] + end
    tag, tags = final.argmax(axis=1), np.zeros((rows, steps), np.int64)
    for t in range(steps - 1, -1, -1):
        tag = np.where(t < last, (best[t] + between[:, tag].T).argmax(axis=1), tag)
        tags[:, t] = np.where(t <= last, tag, 0)
    found = final.max(axis=1)
    if not (found > -np.inf).all():
        row = int((found > -np.inf).argmin())
        if not np.isfinite(scores[row, : lengths[row]]).all():
            raise DivergedError(f"row {row} has scores that are not finite; the weights are damaged, load earlier ones")
        raise MismatchError(f"row {row} has {lengths[row]} places, and no tags for so many are allowed; allow more")
    return tags, found


def _best_paths(scores: Floats, start: Floats, between: Floats, end: Floats, count: int) -> list[Path]:
    """The best `count` paths through one row [T, K]; equal ones: the lower tag, from the last place on."""
    steps, tags = scores.shape
    best = np.full((tags, count), -np.inf)  # the best of those that end with a tag
    best[:, 0] = start + scores[0]
    origins = []
    for row in scores[1:]:
        ways = (best[:, :, None] + between[:, None]).reshape(-1, tags)  # from (tag, rank) to tag
        order = np.argsort(-ways, axis=0, kind="stable")[:count]
        best = (np.take_along_axis(ways, order, axis=0) + row).T
        origins.append(order.T)
    final = (best + end[:, None]).reshape(-1)
    paths = []
    for place in np.argsort(-final, kind="stable")[:count]:
        if final[place] == -np.inf:
            break
        found, at = np.empty(steps, np.int64), int(place)
        for t in range(steps - 1, -1, -1):
            found[t] = at // count
            if t:
                at = int(origins[t - 1][found[t], at % count])
        paths.append(Path(found, float(final[place])))
    return paths
