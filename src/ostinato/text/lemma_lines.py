"""Lemmas filled into lines as they come: CoNLL-U, or a form and perhaps its part of speech on each line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from ostinato.core.errors import DataError
from ostinato.text.columns import CONLLU
from ostinato.text.lemma import UNSPECIFIED, Lemmatiser
from ostinato.text.numbered import Line, numbered_lines
from ostinato.text.read import STDIN

_FORM, _LEMMA, _UPOS = (CONLLU.index(name) for name in ("FORM", "LEMMA", "UPOS"))
_NUMBER = re.compile(r"\d+")
_NOT_A_WORD = re.compile(r"\d+-\d+|\d+\.\d+")  # a range of a multiword token, an empty node
_WORD_COLUMNS = 2


class Lines:
    """Fills in what a lemmatiser says; `strange` counts the parts of speech that it was not trained on."""

    def __init__(self, lemmatiser: Lemmatiser):
        self.lemmatiser = lemmatiser
        self.strange: Counter[str] = Counter()
        self._tags = {*lemmatiser.tags, UNSPECIFIED, ""}

    def filled(self, path: str | Path) -> Iterator[str]:
        """Every line with its lemma, and its line end; `-` is standard input, `.gz` and `.zst` are unpacked.

        The first line that is not empty and no comment says whether it is CoNLL-U: ten columns, the first a number.
        In any other text a line that begins with # is a word too.
        Raises DataError, with file and line, for a line with another number of columns.
        """
        name = "standard input" if str(path) == STDIN else str(path)
        lines = numbered_lines(path)
        begin = list(_up_to_a_row(lines))
        fill = self._conllu if begin and _is_conllu(begin[-1].text.split("\t")) else self._word
        for line in chain(begin, lines):
            yield fill(line, name) if line.text.strip() else line.text + line.end

    def _conllu(self, line: Line, name: str) -> str:
        if line.text.startswith("#"):
            return line.text + line.end
        fields = line.text.split("\t")
        if len(fields) != len(CONLLU):
            raise DataError(f"{name}:{line.number}: {len(fields)} columns parted by tabs, but CoNLL-U has ten")
        if not _NOT_A_WORD.fullmatch(fields[0]):
            fields[_LEMMA] = self._lemma(fields[_FORM], fields[_UPOS], line, name)
        return "\t".join(fields) + line.end

    def _word(self, line: Line, name: str) -> str:
        fields = line.text.split("\t")
        if len(fields) > _WORD_COLUMNS:
            raise DataError(
                f"{name}:{line.number}: {len(fields)} columns parted by tabs; give CoNLL-U, or a form and its part "
                "of speech on each line"
            )
        lemma = self._lemma(fields[0], fields[1] if len(fields) > 1 else "", line, name)
        return f"{line.text}\t{lemma}{line.end}"

    def _lemma(self, form: str, upos: str, line: Line, name: str) -> str:
        if not form:
            raise DataError(f"{name}:{line.number}: the form is empty; write one, or remove the line")
        if upos not in self._tags:
            self.strange[upos] += 1
        return self.lemmatiser.lemma(form, upos)


def _up_to_a_row(lines: Iterator[Line]) -> Iterator[Line]:
    """The lines up to the first that is neither empty nor a comment, with that."""
    for line in lines:
        yield line
        if line.text.strip() and not line.text.startswith("#"):
            return


def _is_conllu(fields: list[str]) -> bool:
    return len(fields) == len(CONLLU) and bool(_NUMBER.fullmatch(fields[0]) or _NOT_A_WORD.fullmatch(fields[0]))
