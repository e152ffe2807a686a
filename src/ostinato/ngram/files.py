"""Opening an n-gram model whatever kind of file it is in: ours, an ARPA file, or one of KenLM's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ostinato.core.errors import DataError
from ostinato.core.progress import Watch, unwatched
from ostinato.ngram.arpa import Read, is_arpa, read_arpa
from ostinato.ngram.kenlm_binary import is_kenlm_binary, read_kenlm_binary
from ostinato.ngram.model import NGramModel
from ostinato.ngram.store import Stored, is_model_file, open_model
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import Blank


def open_any(path: str | Path, watch: Watch = unwatched, others: str = "") -> Stored:
    """The model in a file, which is known by how it begins, whatever its name.

    Ours are memory-mapped; ARPA files, packed or not, and KenLM's binary files are read whole, and count as cut
    at white space. others: what else the caller takes, for the message, as "a run or ".
    Raises FormatError or DataError if it cannot be read or is none of these.
    """
    path = Path(path)
    if is_model_file(path):
        return open_model(path)
    if is_kenlm_binary(path):
        return _read(read_kenlm_binary(path, watch), kind="kenlm")
    if is_arpa(path):
        return _read(read_arpa(path, watch), kind="arpa")
    if not path.exists():
        raise DataError(f"{path}: no such file")
    what = "a folder" if path.is_dir() else "no model file of ours, no ARPA file and no binary file of KenLM"
    raise DataError(f"{path}: {what}; give {others}a file that `ostinato ngram estimate`, lmplz or build_binary made")


def _read(found: Read, **about: Any) -> Stored:
    """What was read from another program's file, as if it had been in one of ours; empty lines count there."""
    described = about | {"regime": "sentence", "empty_lines": "keep"}
    return Stored(NGramModel(found.table, found.vocabulary), Pipeline(Normaliser(), Blank()), described, {})
