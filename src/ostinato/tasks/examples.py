"""Examples on disk: JSON Lines inside a run, so that it resumes and is judged without the files it was made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ostinato.core.errors import FormatError
from ostinato.core.files import write_text

Plain = Mapping[str, Any]


def write_examples(path: Path, examples: Iterable[Plain]) -> None:
    """Write examples, an object a line, atomically."""
    write_text(path, "".join(f"{json.dumps(example, ensure_ascii=False)}\n" for example in examples))


def read_examples(path: Path, *keys: str) -> list[dict[str, Any]]:
    """The examples that `write_examples` wrote, none if there is no such file.

    keys: that each must have. Raises FormatError, with the line, if the file is damaged.
    """
    if not path.is_file():
        return []
    found: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_bytes().decode("utf8", "surrogatepass").split("\n")[:-1], 1):
        try:
            example = json.loads(line)
            for key in keys:
                example[key]
        except (ValueError, TypeError, KeyError) as fault:
            raise FormatError(f"{path}:{number}: damaged ({fault}); restore the file or train again") from None
        found.append(example)
    return found


def digest(examples: Iterable[Plain], *keys: str) -> str:
    """Eight hexadecimal digits that change whenever one of these values of an example does, or their order."""
    found = hashlib.sha256()
    for example in examples:
        found.update(json.dumps([example[key] for key in keys], ensure_ascii=False).encode("utf8", "surrogatepass"))
    return found.hexdigest()[:8]
