"""Smoothings by name: `smoothings["modified-kneser-ney"]().fit(counts)` is a back-off table.

One file each. A file put beside the others is found by itself.
"""

from __future__ import annotations

import importlib
import pkgutil

from ostinato.ngram.smoothing.base import Smoothing, smoothings

for part in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{part.name}")

__all__ = ["Smoothing", "smoothings"]
