"""Stream files: a model that steps without torch, its vocabulary and its way to cut text, in one file.

An array file (core/arrays.py), so other programs can read it as safetensors: the weights row-major under the names
they had in training, float32, bfloat16 (as uint16), or int8 with `NAME.scale`; `vocabulary` and `text` (JSON) as
bytes; the rest in the header. Opening one maps it into memory and checks its digest; it never executes code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.core.arrays import intact, new_array_file, open_arrays
from ostinato.core.errors import ConfigError, FormatError
from ostinato.core.vocabulary import Vocabulary, pieces_in, spelled
from ostinato.stream.matrix import PRECISIONS
from ostinato.stream.model import StreamModel

KIND = "stream"
"""The kind in the header of a stream file."""

PIECES, TEXT = "vocabulary", "text"
"""The arrays that are no weights: the pieces, and how text is cut into them."""

OWN = ("format", "digest", "kind", "model", "options", "precision", "vocabulary", "words", "parameters")
"""What every header says; the rest is what `save_model` was given besides."""

ALWAYS = 1 << 62  # bytes up to which the file gets a digest


@dataclass(frozen=True)
class StreamFile:
    """A model from a file; text: the pipeline as plain values; about: what the file says of itself."""

    model: StreamModel
    text: Mapping[str, Any]
    about: Mapping[str, Any]


def save_model(path: Path, model: StreamModel, text: Mapping[str, Any], **more: Any) -> None:
    """Write a stream file, atomically. Raises StorageError.

    text: the pipeline as plain values. more: plain values for the header, such as regime, run and measured.
    """
    with new_array_file(path) as file:
        file.add(PIECES, spelled(model.vocabulary))
        file.add(TEXT, np.frombuffer(json.dumps(text, ensure_ascii=False).encode("utf8", "surrogatepass"), np.uint8))
        for name, array in model.arrays.items():
            file.add(f"{KIND}.{name}", array)
        about = {
            **more,
            "kind": KIND,
            "model": model.kind,
            "options": dict(model.options),
            "precision": model.precision,
            "vocabulary": model.vocabulary.fingerprint,
            "words": model.outputs - 2,
            "parameters": model.parameters,
        }
        file.finish(about, ALWAYS)


def open_model(path: str | Path) -> StreamFile:
    """The model in a file, memory-mapped and checked.

    Raises FormatError if the file is missing, cut short, damaged, newer or something else.
    """
    path = Path(path)
    arrays, about = open_arrays(path)
    try:
        if about["kind"] != KIND:
            raise FormatError(f"holds a model of kind {about['kind']!r}; `ostinato export` makes stream files")
        if "digest" not in about or not intact(arrays, about):
            raise FormatError("the contents were changed after saving; restore the file or export again")
        if about["precision"] not in PRECISIONS:
            raise FormatError(f"weights of unknown precision {about['precision']!r}; upgrade Ostinato")
        vocabulary = Vocabulary.later(int(about["words"]), str(about["vocabulary"]), lambda: pieces_in(arrays[PIECES]))
        weights = {name.removeprefix(f"{KIND}."): array for name, array in arrays.items() if name.startswith(KIND)}
        model = StreamModel(
            str(about["model"]), about["options"], weights, vocabulary, about["precision"], str(about["digest"])
        )
        assert len(vocabulary.pieces) == len(vocabulary)
        text = json.loads(bytes(arrays[TEXT]).decode("utf8", "surrogatepass"))
        return StreamFile(model, text, about)
    except (FormatError, ConfigError) as fault:
        raise FormatError(f"{path}: {fault}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise FormatError(f"{path}: not a stream file of ours ({fault!r}); restore it or export again") from None


def is_stream_file(path: Path) -> bool:
    """Whether a file is one of ours that holds a model to step without torch."""
    try:
        return open_arrays(path)[1].get("kind") == KIND
    except FormatError:
        return False
