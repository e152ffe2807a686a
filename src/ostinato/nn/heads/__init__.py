"""Output layers, one file each. torch is imported when the first of them is asked for, not with the options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ostinato.nn.heads.options import HeadOptions, settle

if TYPE_CHECKING:
    from ostinato.nn.heads.make import Head, LinearHead, heads, make_head

__all__ = ["Head", "HeadOptions", "LinearHead", "heads", "make_head", "settle"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ostinato.nn.heads import make

    return getattr(make, name)
