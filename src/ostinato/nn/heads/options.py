"""Options of the output layers. No torch here: the command line reads this for its help."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Ge, Gt, Le
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.errors import ConfigError

APPLIES = {
    "cutoffs": ("adaptive",),
    "div_value": ("adaptive",),
    "samples": ("sampled", "nce"),
    "proposal": ("sampled", "nce"),
    "power": ("sampled", "nce"),
    "normaliser": ("nce",),
    "components": ("mixture",),
}
"""Which kinds of output layer an option is for."""

COVERED = 0.85, 0.95  # shares of the running text that words before the first and second cut-off make up
SAMPLES = 128, 8192  # the fewest and the most candidates taken when no number is given


@dataclass(frozen=True, config=STRICT)
class HeadOptions:
    """The output layer. An option that does not apply to its kind is refused."""

    kind: Literal["softmax", "adaptive", "sampled", "nce", "mixture"] = "softmax"
    """softmax: full; adaptive: rare words in clusters; sampled, nce: trained on a few words at a time; mixture."""
    cutoffs: tuple[Annotated[int, Ge(1)], ...] | None = None
    """adaptive (85% and 95% of the text): the word id at which each cluster of rarer words begins."""
    div_value: Annotated[float, Ge(1), Le(1 << 16)] | None = None
    """adaptive (4.0): each cluster reads features this many times narrower than the one before."""
    samples: Annotated[int, Ge(1), Le(1 << 24)] | None = None
    """sampled, nce (an eighth of the vocabulary, 128 to 8192): words drawn a batch."""
    proposal: Literal["unigram", "log-uniform"] | None = None
    """sampled, nce (unigram): what words are drawn from, their counts or the logarithm of their rank."""
    power: Annotated[float, Gt(0), Le(2)] | None = None
    """sampled, nce (0.75): exponent of the counts, of a unigram proposal."""
    normaliser: Literal["one", "learnt"] | None = None
    """nce (one): the sum of exponentiated scores is taken to be 1, or one number learnt for all contexts."""
    components: Annotated[int, Ge(1), Le(256)] | None = None
    """mixture (4): how many softmaxes."""

    def __post_init__(self) -> None:
        for name, kinds in APPLIES.items():
            if getattr(self, name) is not None and self.kind not in kinds:
                raise ValueError(f"{name} does not apply to {self.kind}; it is for {', '.join(kinds)}")
        if self.proposal == "log-uniform" and self.power is not None:
            raise ValueError("power does not apply to a log-uniform proposal; it is for unigram")


def settle(options: HeadOptions, outputs: int, counts: NDArray[Any] | None = None) -> HeadOptions:
    """The options with everything decided that depends on the vocabulary, so that a loaded model is built alike.

    counts: [outputs], how often each word stands in the training text; without them Zipf's law is assumed.
    Raises ConfigError for numbers that do not fit the vocabulary.
    """
    given: dict[str, Any] = {}
    if options.kind == "adaptive":
        given = {"cutoffs": options.cutoffs or covering(outputs, counts), "div_value": options.div_value or 4.0}
        check_cutoffs(given["cutoffs"], outputs)
    elif options.kind in ("sampled", "nce"):
        fewest, most = SAMPLES
        proposal = options.proposal or ("log-uniform" if counts is None else "unigram")
        given = {
            "samples": options.samples or min(outputs, most, max(fewest, outputs // 8)),
            "proposal": proposal,
            "power": options.power or (0.75 if proposal == "unigram" else None),
        }
        if options.kind == "nce":
            given["normaliser"] = options.normaliser or "one"
        elif given["samples"] > outputs:
            raise ConfigError(
                f"model.head.samples is {options.samples}, but there are only {outputs} words to draw; "
                "leave it out, or take the full softmax"
            )
    elif options.kind == "mixture":
        given = {"components": options.components or 4}
    return dataclasses.replace(options, **given)


def check_cutoffs(cutoffs: tuple[int, ...], outputs: int) -> None:
    """Raise ConfigError unless cut-offs rise and stay below the number of words."""
    borders = (0, *cutoffs, outputs)
    if any(low >= high for low, high in itertools.pairwise(borders)):
        raise ConfigError(
            f"model.head.cutoffs must rise from 1 or more to less than the {outputs} words of the vocabulary, "
            f"got {', '.join(map(str, cutoffs))}; leave them out for some that cover "
            f"{' and '.join(f'{share:.0%}' for share in COVERED)} of the text"
        )


def covering(outputs: int, counts: NDArray[Any] | None) -> tuple[int, ...]:
    """Cut-offs before which the most frequent words make up the shares `COVERED` of the text.

    Without counts the word of rank r, from 1, is taken to make up 1 / r of the first one [Zipf1949]. Fewer than
    two, or none, where the vocabulary is too small for clusters.
    """
    frequency = 1 / np.arange(1, outputs + 1) if counts is None or not counts.any() else np.asarray(counts, np.float64)
    mass = np.cumsum(frequency) / frequency.sum()
    found = {int(np.searchsorted(mass, share)) + 1 for share in COVERED}
    return tuple(sorted(cut for cut in found if cut < outputs))


def log_uniform(outputs: int) -> NDArray[np.float64]:
    """Probabilities [outputs] of a word of rank r, from 0: log((r + 2) / (r + 1)) / log(outputs + 1).

    Nearly Zipf's law, which ids sorted by falling frequency follow. Source: [Jozefowicz2016].
    """
    ranks = np.arange(outputs, dtype=np.float64)
    return np.log1p(1 / (ranks + 1)) / math.log(outputs + 1)
