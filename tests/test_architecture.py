"""Who may import whom (docs/overview.md). A room imports itself, its brackets, and nothing else of ours."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "ostinato"

ROOMS: dict[str, set[str]] = {
    "kernels": set(),
    "core": set(),
    "text": {"core", "kernels"},
    "ngram": {"core", "kernels", "text"},
    "embed": {"core", "kernels", "text"},
    "nn": {"core", "kernels"},
    "decode": {"core"},
    "mix": {"core"},
    "runs": {"core"},
    "stream": {"core", "kernels"},
    "train": {"core", "kernels", "text", "nn", "runs"},
    "tasks": {"core", "text", "ngram", "embed", "nn", "decode", "mix", "stream", "runs", "train"},
    "kenlm": {"core", "kernels", "text", "ngram", "runs"},
    "bench": {"core", "kernels", "text", "ngram", "embed", "nn", "kenlm", "stream", "runs", "train", "tasks"},
    "claims": {
        *("core", "text", "ngram", "embed", "nn", "decode", "mix", "stream", "runs", "train", "tasks", "bench"),
    },
    "lab": {
        "core",
        "text",
        "ngram",
        "embed",
        "nn",
        "decode",
        "mix",
        "stream",
        "runs",
        "train",
        "tasks",
        "kenlm",
        "bench",
        "claims",
    },
    "cli": {
        *("core", "text", "ngram", "embed", "nn", "decode", "mix", "stream", "runs", "train", "tasks", "bench"),
        *("claims", "lab"),
    },
}
LIBRARIES = {
    "torch": {"nn", "train", "tasks", "bench", "claims"},
    "numba": {"kernels"},
    "cyclopts": {"cli"},
    "rich": {"cli"},
    "fastapi": {"lab"},
    "starlette": {"lab"},
    "uvicorn": {"lab"},
}
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Every module a file imports, whether at the top or inside a function."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            found |= {f"{module}.{alias.name}" for alias in node.names} if module == "ostinato" else {module}
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_what_stands_in_its_brackets(path: Path) -> None:
    room = room_of(path)
    if room in ("__init__", "__main__"):
        return
    rooms = {name.split(".")[1] for name in imports(path) if name.startswith("ostinato.")} - {"__version__"}
    assert rooms <= ROOMS[room] | {room}, f"{room} may not import {rooms - ROOMS[room] - {room}}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_heavy_library_stays_in_its_rooms(path: Path) -> None:
    used = {name.split(".")[0] for name in imports(path)}
    for library, rooms in LIBRARIES.items():
        assert library not in used or room_of(path) in rooms, f"{library} belongs to {rooms}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_stays_readable(path: Path) -> None:
    assert len(path.read_text("utf8").splitlines()) <= 400
