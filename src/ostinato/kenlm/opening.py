"""From a path to arrays at fixed addresses, which kernels/single.py reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import MismatchError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.files import open_any
from ostinato.ngram.model import NGramModel
from ostinato.ngram.store import Stored
from ostinato.runs import RunDir
from ostinato.text.pipeline import Pipeline


def open_path(path: Path) -> tuple[NGramModel, Stored]:
    """The n-gram model in a file of any kind or in a run; one that is compact is expanded.

    Raises FormatError, DataError or MismatchError if there is none.
    """
    stored = open_run(path) if path.is_dir() else open_any(path)
    model = stored.model
    if isinstance(model, CompactModel):
        model = NGramModel(model.table.expand(), model.vocabulary)
    return model, stored


def open_run(path: Path) -> Stored:
    """The model of a run. Raises FormatError if it is damaged, MismatchError if it is not an n-gram model."""
    run = RunDir.open(path)
    arrays, about = run.load_model()
    if about.get("kind") != "ngram":
        raise MismatchError(f"{path}: holds a {about.get('kind')} model, not an n-gram model; score it with `ostinato`")
    vocabulary = Vocabulary.load(run.path / "data" / "vocabulary.json")
    model = NGramModel.load(arrays, about["table"], vocabulary)
    return Stored(model, Pipeline.load(run.path / "data" / "text.json"), about, {})


class Desk:
    """The arrays of a model where kernels find them by one number, `address`, as long as this lives."""

    def __init__(self, model: NGramModel, stored: Stored):
        words = stored.encoder().arrays()
        self.rows = model.table.rows
        self.words = words["slots"], words["offsets"], words["blob"]
        self._firsts = np.zeros(model.table.order, np.int64)
        self._told = False
        self._numbers = self._addresses(model.vocabulary.start)
        self.address = self._numbers.ctypes.data

    def _addresses(self, start: int) -> NDArray[np.int64]:
        arrays: tuple[NDArray[Any], ...] = (self.rows, *self.words, self._firsts)
        assert all(array.flags.c_contiguous for array in arrays)
        places = [number for array in arrays for number in (array.ctypes.data, len(array))]
        return np.array([*places, start], np.int64)

    def advance(self) -> Callable[[int, int, int], tuple[float, int]]:
        """The kernel that reads a word: address, state, id to log10 probability and next state, -1 for no state."""
        from ostinato.kernels import single

        return cast(Callable[[int, int, int], tuple[float, int]], single.direct(single.advance, 0, 0, 0))

    def score(self) -> Callable[[int, bytes, int, int], float]:
        """The kernel that reads a sentence: address, text, state, whether it ends to log10 probability."""
        from ostinato.kernels import single

        return cast(Callable[[int, bytes, int, int], float], single.direct(single.score, 0, b"", 0, 0))

    def find(self, word: bytes) -> int:
        """The id of a word."""
        from ostinato.kernels import single

        return int(single.find_word(self.address, word))

    def advance_full(self, state: int, word: int) -> tuple[float, int, int]:
        """Log10 probability of a word, the next state, -1 for no state, and the length of the n-gram found."""
        from ostinato.kernels import single

        self._know_lengths()
        return cast(tuple[float, int, int], single.advance_full(self.address, state, word))

    def read(
        self, text: bytes, state: int, ended: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], int]:
        """What `Model.full_scores` gives, as arrays, and the state after the text."""
        from ostinato.kernels import single

        self._know_lengths()
        room = len(text) // 2 + 2
        log_probs, lengths, unknown = np.empty(room), np.empty(room, np.int64), np.empty(room, np.bool_)
        words, after = single.full_scores(self.address, text, state, 1 if ended else 0, log_probs, lengths, unknown)
        return log_probs[:words], lengths[:words], unknown[:words], after

    def _know_lengths(self) -> None:
        """Find out which rows are n-grams of which length."""
        from ostinato.kernels import single

        if not self._told:
            single.first_rows(self.rows, self._firsts)
            self._told = True
