"""What goes to the browser: JSON of finite numbers, and arrays as bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from fastapi import Response
from numpy.typing import NDArray


def answer(content: Any) -> Response:
    """Plain values as JSON; numbers that are not finite become null."""
    text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode("utf8", "replace"), media_type="application/json")


def arrays(named: Mapping[str, NDArray[Any]], **about: Any) -> Response:
    """Arrays of float32, float64, int32 or uint8 in the safetensors format, `about` (plain values) in its header.

    `lab.arrays(url)` reads it in the browser, where 8-byte integers would need a type of their own.
    """
    from safetensors.numpy import save

    plain = {name: np.ascontiguousarray(array) for name, array in named.items()}
    for name, array in plain.items():
        assert array.dtype.name in ("float32", "float64", "int32", "uint8"), f"{name}: {array.dtype}"
    header = {"about": json.dumps(finite(about), ensure_ascii=False, allow_nan=False)}
    return Response(save(plain, header), media_type="application/octet-stream")


def finite(content: Any) -> Any:
    """The same values with null in the place of infinite and missing numbers."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
