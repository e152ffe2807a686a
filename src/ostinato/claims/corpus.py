"""The embedded corpus as files, its documents split by a seed, so that several seeds see several texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ostinato.text.embedded import python_docs

HELD_OUT = 10  # one document in so many is for validation, one for the test


def documents(seed: int, share: float = 1.0) -> list[tuple[str, ...]]:
    """The lines of its documents in an order drawn by the seed; only the first `share` of them."""
    every = [lines for _, lines in python_docs().documents]
    order = np.random.default_rng(seed).permutation(len(every))
    return [every[place] for place in order[: max(3 * HELD_OUT, round(share * len(every)))]]


def split(folder: Path, seed: int, share: float = 1.0) -> tuple[str, str, str]:
    """Files of training, validation and test text in `folder`, a paragraph a line."""
    kept = documents(seed, share)
    parts = {
        "valid": kept[::HELD_OUT],
        "test": kept[1::HELD_OUT],
        "train": [lines for place, lines in enumerate(kept) if place % HELD_OUT > 1],
    }
    for name, some in parts.items():
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for lines in some for line in lines), "utf8")
    return str(folder / "train.txt"), str(folder / "valid.txt"), str(folder / "test.txt")
