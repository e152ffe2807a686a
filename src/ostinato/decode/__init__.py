"""Decoding: from a model's distributions to tokens, against `Stepper` alone.

    read_prompts(model, prompts)            the state and the last token of each prompt
    Greedy() / Sample(...) / Beam(...)      .decode(model, state, tokens, stop=..., max_tokens=...) -> hypotheses
                                            .stream(...) -> tokens as they are produced (not beam)
    strategies["beam"]                      the same by name, for configurations

A row is decoded as if it were alone: neither the batch size nor the other rows change its tokens.
A new strategy is one file with a frozen dataclass that has `decode` and `stream`, registered under its name.
"""

from ostinato.decode.beam import Beam
from ostinato.decode.diversity import distinct, repeated
from ostinato.decode.greedy import Greedy
from ostinato.decode.penalty import Penalty
from ostinato.decode.prompt import read_prompts
from ostinato.decode.sample import Sample
from ostinato.decode.strategy import Hypothesis, Strategy, strategies

__all__ = [
    "Beam",
    "Greedy",
    "Hypothesis",
    "Penalty",
    "Sample",
    "Strategy",
    "distinct",
    "read_prompts",
    "repeated",
    "strategies",
]
