"""The small values of KenLM's interface: states, what a word was scored as, and settings."""

from __future__ import annotations

from functools import total_ordering
from typing import Any


@total_ordering
class State:
    """The longest context that still matters, as one integer; made anew, it is the empty context.

    Two states of one model are equal exactly if every future is scored alike after them. A model writes into the
    states it is given, so copy one that must stay. Their order means nothing.
    """

    __slots__ = ("row",)

    def __init__(self) -> None:
        self.row = 0

    def __eq__(self, other: object) -> bool:
        return self.row == other.row if isinstance(other, State) else NotImplemented

    def __lt__(self, other: State) -> bool:
        return self.row < other.row if isinstance(other, State) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.row)

    def __copy__(self) -> State:
        copy = State()
        copy.row = self.row
        return copy

    def __deepcopy__(self, memo: Any = None) -> State:
        return self.__copy__()


class FullScoreReturn:
    """How a word was scored: its log10 probability, the length of the n-gram that was found, whether it is unknown."""

    __slots__ = ("_log_prob", "_ngram_length", "_oov")

    def __init__(self, log_prob: float, ngram_length: int, oov: bool):
        self._log_prob, self._ngram_length, self._oov = log_prob, ngram_length, oov

    @property
    def log_prob(self) -> float:
        """The log10 probability."""
        return self._log_prob

    @property
    def ngram_length(self) -> int:
        """How many words the n-gram has, the scored one included."""
        return self._ngram_length

    @property
    def oov(self) -> bool:
        """Whether the word is not in the vocabulary."""
        return self._oov

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._log_prob!r}, {self._ngram_length!r}, {self._oov!r})"


class LoadMethod:
    """How KenLM loads its binary files. Here all mean the same."""

    LAZY, POPULATE_OR_LAZY, POPULATE_OR_READ, READ, PARALLEL_READ = range(5)


class ARPALoadComplain:
    """When KenLM complains that a file is an ARPA file. Here none does."""

    ALL, EXPENSIVE, NONE = range(3)


class Config:
    """KenLM's settings with its defaults, so that programs that set them run. None changes anything here."""

    __slots__ = ("arpa_complain", "load_method", "show_progress")

    def __init__(self) -> None:
        self.load_method: int = LoadMethod.POPULATE_OR_READ
        self.show_progress: bool = True
        self.arpa_complain: int = ARPALoadComplain.ALL
