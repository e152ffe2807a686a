"""Parts by name: one registry a kind of part, filled by the files that define them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from ostinato.core.errors import ConfigError

Part = TypeVar("Part")


class Registry(Generic[Part]):
    """Parts of one kind under their standard names; `kind` is what an error message calls them."""

    def __init__(self, kind: str):
        self.kind = kind
        self._parts: dict[str, Part] = {}

    def register(self, name: str) -> Callable[[Part], Part]:
        """Put the decorated part under `name`, which must be new."""

        def put(part: Part) -> Part:
            assert name not in self._parts, f"{self.kind} {name!r} is registered twice"
            self._parts[name] = part
            return part

        return put

    def __getitem__(self, name: str) -> Part:
        """The part of that name. Raises ConfigError with the nearest name otherwise."""
        if name not in self._parts:
            raise ConfigError(unknown(self.kind, name, self._parts))
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._parts))

    def __contains__(self, name: str) -> bool:
        return name in self._parts

    def __len__(self) -> int:
        return len(self._parts)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like `name`, if any is alike."""
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return found[0] if found else None


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """The message for a name that is not known: the nearest one and all there are."""
    names = sorted(known)
    alike = nearest(name, names)
    hint = f"; did you mean {alike!r}?" if alike else ""
    return f"unknown {kind} {name!r}{hint} (known: {', '.join(names)})"
