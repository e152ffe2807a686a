"""Options as frozen dataclasses, and the one way to fill them from plain values.

A config file, the command line, a `repr` and a test all speak of the same fields. pydantic converts and
validates; this room turns its findings into one line that names the key, the value and the nearest key.
"""

from __future__ import annotations

import dataclasses
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import ConfigDict, TypeAdapter, ValidationError

from ostinato.core.errors import ConfigError
from ostinato.core.registry import unknown

STRICT = ConfigDict(extra="forbid")
"""Give this to `pydantic.dataclasses.dataclass(frozen=True, config=STRICT)`."""

Options = TypeVar("Options")


def build(kind: type[Options], values: Mapping[str, Any], where: str) -> Options:
    """The options of that kind from plain values, nested tables for nested options.

    `where` names the source (a file, the command line) in the message.
    Raises ConfigError for an unknown key (with the nearest known one) or a value of the wrong type or size.
    """
    check_keys(kind, values, where)
    try:
        made: Options = TypeAdapter(kind).validate_python(dict(values))
    except ValidationError as fault:
        raise ConfigError(f"{where}: {explain(fault)}") from None
    return made


def explain(fault: ValidationError) -> str:
    """The first finding of a validation as `key: what is wrong, got value`."""
    first = fault.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("function-", "tagged-")))
    message = first["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(first["input"], dict) or not key else f", got {first['input']!r}"
    return f"{key}: {message}{shown}" if key else message


def check_keys(kind: type[Any], values: Mapping[str, Any], where: str, prefix: str = "") -> None:
    """Raise ConfigError for the first key that `kind` (a dataclass, nested ones too) does not have."""
    fields = {field.name: field for field in dataclasses.fields(kind)}
    for key, value in values.items():
        if key not in fields:
            raise ConfigError(f"{where}: {unknown('key', prefix + key, [prefix + name for name in fields])}")
        nested = nested_kind(kind, key)
        if nested is not None:
            if not isinstance(value, Mapping):
                raise ConfigError(f"{where}: {prefix}{key} is a table of keys, got {value!r}")
            check_keys(nested, value, where, f"{prefix}{key}.")


def nested_kind(kind: type[Any], name: str) -> type[Any] | None:
    """The dataclass of a field that is itself a table, or None for a plain value."""
    hint = typing.get_type_hints(kind)[name]
    return hint if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None


def flatten(options: Any, prefix: str = "") -> dict[str, Any]:
    """Every plain value of nested options under its dotted key, in order."""
    flat: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            flat.update(flatten(value, f"{prefix}{field.name}."))
        else:
            flat[prefix + field.name] = value
    return flat


def nest(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Nested tables from dotted keys; the reverse of `flatten`."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *tables, name = key.split(".")
        inner = nested
        for table in tables:
            inner = inner.setdefault(table, {})
        inner[name] = value
    return nested


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises ConfigError if it is missing or is not TOML (with the line)."""
    try:
        return tomllib.loads(path.read_text("utf8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except OSError as fault:
        raise ConfigError(f"{path}: cannot be read ({fault.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise ConfigError(f"{path}: not a TOML file: {fault}") from None


def to_toml(options: Any) -> str:
    """Nested options as TOML text that `read_toml` and `build` read back; None is left out."""
    lines: list[str] = []
    tables: list[tuple[str, Any]] = [("", options)]
    while tables:
        name, table = tables.pop(0)
        if name:
            lines += ["", f"[{name}]"]
        for field in dataclasses.fields(table):
            value = getattr(table, field.name)
            if dataclasses.is_dataclass(value):
                tables.append((f"{name}.{field.name}".lstrip("."), value))
            elif value is not None:
                lines.append(f"{field.name} = {_toml_value(value)}")
    return "\n".join(lines).strip() + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in text) + '"'


def narrowed(kind: type[Options], options: Any) -> Options:
    """The options of `kind` among those of a dataclass that derives from it."""
    return kind(**{field.name: getattr(options, field.name) for field in dataclasses.fields(cast(Any, kind))})
