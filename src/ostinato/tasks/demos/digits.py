"""Pictures of several handwritten digits, with captions that say them in reading order."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError
from ostinato.core.files import atomic_path
from ostinato.tasks.captioning.options import Config, DataOptions, ModelOptions, TrainOptions
from ostinato.tasks.demos.prepared import Prepared

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CELL = 10
"""Pixels of a digit's square, in which its 8 x 8 stand anywhere."""

SHARES = (0.7, 0.1)
"""Of the handwritten digits that training and validation pictures are made of; test pictures have the others."""

INK = 16
"""Full ink in scikit-learn's digits."""


COUNTS = (8000, 500, 1000)
"""Training, validation and test pictures of the demonstration."""


class Pictures(NamedTuple):
    """images: [N, H, W], bytes. captions: [N]."""

    images: NDArray[np.uint8]
    captions: NDArray[np.str_]

    def save(self, path: Path) -> str:
        """Write them as `ostinato train` reads them; the path."""
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, images=self.images, captions=self.captions)
        return str(path)


def digits(folder: Path, share: float = 1.0) -> Prepared:
    """Pictures of 2 x 2 digits; no digit of the test, as a hand wrote it, stands in a training picture."""
    first, second, third = (int(count * share) for count in COUNTS)
    made = dict(zip(("train", "valid", "test"), digit_pictures(2, 2, (first, second, third), seed=1), strict=True))
    files = {part: pictures.save(folder / f"{part}.npz") for part, pictures in made.items()}
    asked = Pictures(made["test"].images[:5], made["test"].captions[:5]).save(folder / "asked.npz")
    data = DataOptions(**{part: (path,) for part, path in files.items()})  # type: ignore[arg-type]
    model = ModelOptions(kind="gru", embedding=64, hidden=128, label_smoothing=0.1)
    train = TrainOptions(epochs=5, rows=64, learning_rate=0.002, weight_decay=0.01, warmup=50, measure="exact")
    given = tuple(f"a picture of {caption}" for caption in made["test"].captions[:5].tolist())
    return Prepared("captioning", Config(data, model, train), asked, given, look="1")


def digit_pictures(
    rows: int, columns: int, counts: tuple[int, int, int], seed: int
) -> tuple[Pictures, Pictures, Pictures]:
    """Training, validation and test pictures of rows x columns digits, so many of each.

    The 1,797 handwritten digits of scikit-learn are shared out first, so that no digit of a test picture stands in a
    training picture. Raises ConfigError if scikit-learn is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise ConfigError("the digits are scikit-learn's; pip install 'ostinato[demos]'") from None
    loaded = load_digits()
    random = np.random.default_rng(seed)
    order = random.permutation(len(loaded.images))
    bounds = (np.cumsum(SHARES) * len(order)).round().astype(int)
    ink = np.round(loaded.images * (255 / INK)).astype(np.uint8)
    first, second, third = (
        composed(ink[part], loaded.target[part], rows, columns, count, random)
        for part, count in zip(np.split(order, bounds), counts, strict=True)
    )
    return first, second, third


def composed(
    digits: NDArray[np.uint8],
    labels: NDArray[np.int64],
    rows: int,
    columns: int,
    count: int,
    random: np.random.Generator,
) -> Pictures:
    """Pictures of digits [D, 8, 8] drawn at random, each anywhere in its cell."""
    size = digits.shape[1]
    images = np.zeros((count, rows * CELL, columns * CELL), np.uint8)
    captions = []
    for image in images:
        drawn = random.integers(len(digits), size=rows * columns)
        for place, digit in enumerate(drawn.tolist()):
            row, column = divmod(place, columns)
            top, left = random.integers(CELL - size + 1, size=2)
            image[row * CELL + top :, column * CELL + left :][:size, :size] = digits[digit]
        captions.append(caption([int(label) for label in labels[drawn]]))
    return Pictures(images, np.array(captions))


def caption(numbers: list[int]) -> str:
    """`three, seven and seven`."""
    words = [NAMES[number] for number in numbers]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
