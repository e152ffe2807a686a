"""Small pictures and features: coloured squares in a grid, said in reading order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.captioning.options import Config, DataOptions, SearchOptions, TrainOptions
from ostinato.tasks.captioning.predict import CaptionPredictor
from ostinato.tasks.language.build import Callbacks

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
SIDE = 4


def squares(count: int, seed: int = 0, across: int = 2) -> tuple[NDArray[np.uint8], NDArray[np.str_]]:
    """Pictures [N, 4, 4 across, 3] of squares beside each other, a little noisy, and `first red then blue`."""
    random = np.random.default_rng(seed)
    drawn = random.integers(len(COLOURS), size=(count, across))
    shown = np.array(list(COLOURS.values()))[drawn]  # [N, across, 3]
    images = np.repeat(np.repeat(shown[:, None], SIDE, axis=1), SIDE, axis=2)
    noisy = np.clip(images + random.integers(-40, 41, images.shape), 0, 255).astype(np.uint8)
    names = list(COLOURS)
    return noisy, np.array(["first " + " then ".join(names[one] for one in row) for row in drawn.tolist()])


def regions(count: int, seed: int = 0, most: int = 4) -> dict[str, NDArray[Any]]:
    """Features [N, most, 6] at one to `most` places, zeros behind them, and the number of each place in words."""
    random = np.random.default_rng(seed)
    kinds = np.random.default_rng(99).normal(size=(5, 6))
    places = random.integers(1, most + 1, size=count)
    drawn = random.integers(5, size=(count, most))
    features = kinds[drawn] + random.normal(size=(count, most, 6)) * 0.1
    features[np.arange(most) >= places[:, None]] = 0
    captions = [" ".join("abcde"[one] for one in row[:size]) for row, size in zip(drawn, places, strict=True)]
    return {"features": features, "places": places, "captions": np.array(captions)}


def save(path: Path, **arrays: Any) -> str:
    """The path of a new .npz file."""
    np.savez(path, **arrays)
    return str(path)


def picture_file(path: Path, count: int, seed: int = 0) -> str:
    """Squares as a .npz file."""
    images, captions = squares(count, seed)
    return save(path, images=images, captions=captions)


def config(
    train: str, data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, **options: Any
) -> Config:
    """A small network, a few epochs."""
    from ostinato.tasks.captioning.options import ModelOptions

    small = {"kind": "gru", "hidden": 24, "embedding": 16, "size": 24, "dropout": 0.0}
    encoder = {"channels": (8,)} if (model or {}).get("encoder", "convolutional") == "convolutional" else {}
    quick = {"epochs": 6, "rows": 16, "learning_rate": 0.01, "threads": 1, "precision": "fp32", "measure": "exact"}
    search = {key: options.pop(key) for key in ("beam", "length_penalty") if key in options}
    return Config(
        DataOptions(**{"train": (train,), **(data or {})}),
        ModelOptions(**{**small, **encoder, **(model or {})}),
        TrainOptions(**{**quick, **options}),
        SearchOptions(**{"beam": 3, **search}),
    )


def trained(plan: Config, path: Path, notes: list[str] | None = None) -> RunDir:
    """A run of that configuration."""
    return working.train("captioning", plan, path, Callbacks(note=[].append if notes is None else notes.append))


def loaded(run: RunDir) -> CaptionPredictor:
    """What answers for it."""
    found = working.load(run.path)
    assert isinstance(found, CaptionPredictor)
    return found
