"""The embedded corpus: the documentation that every CPython ships, so a first run needs no file.

The topics of `help()` and the docstrings of every standard library module, read from source and never
imported. One document a topic or module, in a fixed order; a paragraph is one line. It depends on the
Python version only, which is why its name carries that version. Imports nothing but `core` and the standard
library.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import platform
import re
import sys
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ostinato.core.errors import DataError, StorageError
from ostinato.core.files import write_text

FORMAT = 1
"""Raised whenever the extraction changes, so that an older cache is not used."""

_SKIPPED = frozenset(
    ("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__", "lib-dynload", "_bundled")
)
_RULE = re.compile(r"\W*")  # an underline, a table's frame
_LEAST_DOCUMENTS = 100


@dataclass(frozen=True)
class PythonDocs:
    """The documents in order; every twentieth is for validation, the one after it for the test."""

    name: str
    documents: tuple[tuple[str, tuple[str, ...]], ...]
    """The name of each topic or module, and its lines."""

    @property
    def train(self) -> list[tuple[str, ...]]:
        return [lines for place, (_, lines) in enumerate(self.documents) if place % 20 < 18]

    @property
    def valid(self) -> list[tuple[str, ...]]:
        return [lines for place, (_, lines) in enumerate(self.documents) if place % 20 == 18]

    @property
    def test(self) -> list[tuple[str, ...]]:
        return [lines for place, (_, lines) in enumerate(self.documents) if place % 20 == 19]


def python_docs(cache: Path | None = None) -> PythonDocs:
    """The embedded corpus of this Python, from the cache if it is there and whole.

    cache: a folder; the user's cache folder if None, or a temporary one if that cannot be written.
    Raises DataError if this Python was installed without its sources.
    """
    library = Path(sysconfig.get_path("stdlib"))
    key = hashlib.sha256(f"{FORMAT} {library} {sys.version}".encode()).hexdigest()[:8]
    name = f"python-docs-{platform.python_version()}"
    places = [cache] if cache else [cache_folder(), Path(tempfile.gettempdir()) / f"ostinato-{os.getuid()}"]
    files = [place / f"{name}-{key}.json" for place in places]
    for file in files:
        if (cached := _cached(file)) is not None:
            return PythonDocs(name, cached)
    documents = tuple(extract(library))
    if len(documents) < _LEAST_DOCUMENTS:
        raise DataError(
            f"{library}: only {len(documents)} documented modules, so this Python came without its sources; "
            "give a text of your own with --text FILE"
        )
    _store(files, documents)
    return PythonDocs(name, documents)


def cache_folder() -> Path:
    """Where this user's programs keep what can be made again."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "ostinato"
    home = Path(os.path.expanduser("~"))
    return home / "Library" / "Caches" / "ostinato" if sys.platform == "darwin" else home / ".cache" / "ostinato"


def _cached(file: Path) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
    """What the cache holds; None if it is missing or damaged, for it can be made again."""
    try:
        packed = file.read_text("utf8")
        checksum, _, content = packed.partition("\n")
        if checksum != hashlib.sha256(content.encode()).hexdigest():
            return None
        return tuple((name, tuple(lines)) for name, lines in json.loads(content))
    except (OSError, ValueError):
        return None


def _store(files: list[Path], documents: Any) -> None:
    """Keep the documents in the first place that can be written; do without if there is none."""
    content = json.dumps(documents, ensure_ascii=False)
    packed = f"{hashlib.sha256(content.encode()).hexdigest()}\n{content}"
    for file in files:
        try:
            return write_text(file, packed)
        except StorageError:
            continue
    return None


def extract(library: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every topic by name, then every documented module by dotted name, each with its lines."""
    for name, text in sorted(_topics(library).items()):
        if lines := tuple(paragraphs(text)):
            yield f"topic {name}", lines
    for name, file in sorted(_modules(library)):
        if lines := tuple(line for text in _docstrings(file) for line in paragraphs(text)):
            yield name, lines


def _topics(library: Path) -> dict[str, str]:
    """The dictionary that `pydoc_data.topics` assigns."""
    tree = _parsed(library / "pydoc_data" / "topics.py")
    for node in tree.body if tree else []:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
            return {str(name): str(text) for name, text in ast.literal_eval(node.value).items()}
    return {}


def _modules(library: Path) -> Iterator[tuple[str, Path]]:
    for folder, inner, files in os.walk(library):
        inner[:] = [name for name in inner if name not in _SKIPPED and name.isidentifier()]
        for file in files:
            if file.endswith(".py") and not file.startswith("_sysconfigdata"):
                path = Path(folder, file)
                yield ".".join(path.relative_to(library).with_suffix("").parts), path


def _parsed(file: Path) -> ast.Module | None:
    """The syntax tree of a file; None if it cannot be read or belongs to another Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None


def _docstrings(file: Path) -> Iterator[str]:
    """The docstrings of a module, its classes and functions, in the order of the source."""
    waiting: list[ast.AST] = [tree] if (tree := _parsed(file)) else []
    while waiting:
        node = waiting.pop()
        has_one = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if has_one and (text := ast.get_docstring(node, clean=True)):  # type: ignore[arg-type]
            yield text
        waiting.extend(child for child in reversed(list(ast.iter_child_nodes(node))) if isinstance(child, ast.stmt))


def paragraphs(text: str) -> Iterator[str]:
    """Each paragraph as one line, inner white space folded; lines without a letter or digit are left out.

    Characters that do not print (an example of NUL, half a surrogate pair) are left out too.
    """
    for paragraph in re.split(r"\n[^\S\n]*\n", inspect.cleandoc(text)):
        lines = [line for line in paragraph.splitlines() if not _RULE.fullmatch(line)]
        if words := " ".join(lines).split():
            line = " ".join(words)
            yield line if line.isprintable() else "".join(filter(str.isprintable, line))
