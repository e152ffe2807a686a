"""A language model made of language models, and the weights that suit a text best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, MismatchError, ShapeError
from ostinato.core.model import LanguageModel, check_ids
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs, Vocabulary


class MixtureState(NamedTuple):
    """The state of each member, in order."""

    members: tuple[State, ...]


class Mixture:
    """Linear interpolation: p(w | h) = sum over members m of weight_m * p_m(w | h).

    Itself a language model, so a mixture may be a member. Summed in log space and float64; float32 out. Every
    member reads every token, so a state says what was read whatever the weights; a member of weight 0
    has no say, not even through NaN. Weights given within 1e-6 of sum 1 are scaled to sum 1 exactly.
    Raises ConfigError without members or for weights that are not one a member, not finite, negative, or do not
        sum to 1, MismatchError if the members' vocabularies differ.
    Source: [JelinekMercer1980].
    """

    def __init__(self, members: Sequence[LanguageModel], weights: Iterable[float] | NDArray[np.float64]):
        self.members = tuple(members)
        self.weights = _sound_weights(weights, len(self.members))
        self._log_weights = np.log(self.weights, out=np.full(len(self.weights), -np.inf), where=self.weights > 0)
        first = self.vocabulary
        for place, member in enumerate(self.members):
            if member.vocabulary.fingerprint != first.fingerprint:
                raise MismatchError(
                    f"members 0 and {place} cannot be mixed: their vocabularies are {first.fingerprint} and "
                    f"{member.vocabulary.fingerprint}; train both with one vocabulary"
                )

    def __repr__(self) -> str:
        parts = (f"{weight:.4f} {member!r}" for weight, member in zip(self.weights, self.members, strict=True))
        return f"Mixture({' + '.join(parts)})"

    @property
    def vocabulary(self) -> Vocabulary:
        """The one vocabulary of all members."""
        return self.members[0].vocabulary

    @property
    def outputs(self) -> int:
        """How many ids can come next."""
        return self.vocabulary.outputs

    @property
    def parameters(self) -> int:
        """The parameters of all members that say how many they have."""
        return sum(int(getattr(member, "parameters", 0)) for member in self.members)

    def init_state(self, batch: int) -> MixtureState:
        """The state of `batch` rows that have read nothing."""
        return MixtureState(tuple(member.init_state(batch) for member in self.members))

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, MixtureState]:
        """Read one token a row, [B]; return the log-probs [B, outputs] of the next (nats) and the new state."""
        steps = (member.step(part, tokens) for member, part in self.pairs(state))
        return self.combine(steps)

    def score(self, state: State, inputs: Ids, targets: Ids) -> tuple[LogProbs, MixtureState]:
        """Log-prob of each target; see `LanguageModel.score`."""
        check_ids(self.vocabulary, inputs, targets)
        scores = (member.score(part, inputs, targets) for member, part in self.pairs(state))
        return self.combine(scores)

    def pairs(self, state: State) -> Iterable[tuple[LanguageModel, State]]:
        """Each member with its part of a state."""
        return zip(self.members, MixtureState(*state).members, strict=True)

    def combine(self, results: Iterable[tuple[LogProbs, State]]) -> tuple[LogProbs, MixtureState]:
        """The weighted sum of the members' probabilities, as log-probs, and their states."""
        mixed: NDArray[np.float64] | None = None
        states: list[State] = []
        for log_weight, (log_probs, state) in zip(self._log_weights, results, strict=True):
            states.append(state)
            if log_weight > -np.inf:
                part = log_probs.astype(np.float64) + log_weight
                mixed = part if mixed is None else np.logaddexp(mixed, part)
        assert mixed is not None, "the weights sum to one, so some member has a say"
        return mixed.astype(np.float32), MixtureState(tuple(states))


def _sound_weights(weights: Iterable[float] | NDArray[np.float64], members: int) -> NDArray[np.float64]:
    given = np.array(list(weights), np.float64)
    shown = ", ".join(f"{weight:g}" for weight in given)
    if members == 0:
        raise ConfigError("members: a mixture needs at least one language model")
    if given.shape != (members,):
        raise ConfigError(f"weights: {members} members need {members} weights, got {len(given)} ({shown})")
    if not (np.isfinite(given).all() and (given >= 0).all()):
        raise ConfigError(f"weights: must be finite and not negative, got {shown}")
    if abs(given.sum() - 1) > 1e-6:
        raise ConfigError(f"weights: must sum to 1, got {shown} (sum {given.sum():g}); divide each by the sum")
    scaled: NDArray[np.float64] = given / given.sum()
    return scaled


def fit_weights(
    log_probs: NDArray[np.floating[Any]], tolerance: float = 1e-6, max_rounds: int = 200
) -> NDArray[np.float64]:
    """The mixture weights [M], summing to 1, under which a held-out text is most likely.

    log_probs: [M, N] in nats, what each of M members gave each of N tokens; -inf is allowed as long as one
        member gives the token a chance.
    EM from equal weights: weight_m becomes weight_m * gain_m, where gain_m = mean over tokens of p_m / p_mixture.
    The likelihood never falls, and it is concave, so at any weights the best possible is at most
    max(gain) - 1 nats a token away: the rounds end when that is within `tolerance`, or after `max_rounds`.
    Raises ShapeError unless log_probs is [M, N], DataError without members or tokens, for NaN or +inf, and for
        a token that every member gives probability zero (its position is named); ConfigError for a
        tolerance that is not above 0 or negative max_rounds.
    Source: [JelinekMercer1980]; the bound [Cover1984].
    """
    if not tolerance > 0:
        raise ConfigError(f"tolerance: must be above 0 nats a token, got {tolerance}; 1e-6 is usual")
    if max_rounds < 0:
        raise ConfigError(f"max_rounds: cannot be negative, got {max_rounds}; 200 is usual")
    probs = _relative_probs(log_probs)
    members, tokens = probs.shape
    weights = np.full(members, 1 / members)
    for _ in range(max_rounds):
        gain = probs @ (1 / (weights @ probs)) / tokens
        if gain.max() - 1 <= tolerance:
            break
        weights *= gain
        weights /= weights.sum()
    return weights


def _relative_probs(log_probs: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Probabilities [M, N] divided by each token's largest: the weights are the same, and nothing underflows."""
    if log_probs.ndim != 2:
        raise ShapeError(f"log_probs {log_probs.shape} must have shape [members, tokens]")
    if not log_probs.size:
        raise DataError(f"log_probs {log_probs.shape} are empty; weights need a held-out text of at least one token")
    values = log_probs.astype(np.float64)
    if np.isnan(values).any() or (values == np.inf).any():
        member, token = np.argwhere(np.isnan(values) | (values == np.inf))[0]
        raise DataError(f"member {member} gives token {token} a log-prob of {values[member, token]}; is it damaged?")
    best = values.max(axis=0)
    if not (best > -np.inf).all():
        raise DataError(
            f"token {int(np.argmin(best))} has probability zero under every member, so no weights fit; "
            "add a smoothed model or leave the token out"
        )
    probs: NDArray[np.float64] = np.exp(values - best)
    return probs
