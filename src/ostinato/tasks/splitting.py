"""How the examples of a task are shared out: training, validation, test, and the folds of cross-validation."""

from __future__ import annotations

from typing import Annotated, Self

import numpy as np
from annotated_types import Ge, Le, Lt
from numpy.typing import NDArray
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.core.errors import DataError

Places = NDArray[np.int64]


@dataclass(frozen=True, config=STRICT)
class SplitOptions:
    """Files of examples, and what is held out where there is none."""

    train: tuple[str, ...] = ()
    """Training examples; .gz and .zst are unpacked."""
    valid: tuple[str, ...] = ()
    """Validation examples, by which the best model is chosen. None: a share of the training examples."""
    test: tuple[str, ...] = ()
    """Test examples. None: the run is judged on its validation examples."""
    holdout: Annotated[float, Ge(0.001), Lt(0.5)] = 0.1
    """The share of the training examples held out for validation where no file is given."""
    folds: Annotated[int, Ge(0), Le(1000)] = 0
    """So many parts the training examples are cut into, of which one is the test; 0: none."""
    fold: Annotated[int, Ge(1)] = 1
    """Which part is the test, from 1."""
    split_seed: Annotated[int, Ge(0)] = 1
    """Draws what is held out and the folds; apart from train.seed, so that seeds are compared on the same parts."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.folds == 1:
            raise ValueError("one fold leaves nothing to train on; give folds 2 or more, or 0 for none")
        if self.folds and self.test:
            raise ValueError("folds are cut from the training examples; leave test out")
        if self.fold > max(1, self.folds):
            raise ValueError(f"fold {self.fold} of {self.folds} folds: they are numbered from 1")
        return self


def part_name(part: str, options: SplitOptions, name: str) -> str:
    """A name for signatures of a part that `split` has cut from the training examples, which are called `name`."""
    return {"test": f"{name}/fold-{options.fold}-of-{options.folds}", "valid": f"{name}/held-out"}.get(part, name)


def split(count: int, options: SplitOptions, name: str) -> dict[str, Places]:
    """Which of `count` training examples go to `train`, `valid` and `test`, each in order; absent: from its own file.

    The folds are the same for every number of fold and every train.seed. name: of the examples, in errors.
    Raises DataError if there are too few.
    """
    order = np.random.default_rng(options.split_seed).permutation(count)
    parts: dict[str, Places] = {}
    if options.folds:
        folds = np.array_split(order, options.folds)
        parts["test"] = folds.pop(options.fold - 1)
        order = np.concatenate(folds)
    if not options.valid:
        held = max(1, round(len(order) * options.holdout))
        parts["valid"], order = order[:held], order[held:]
    parts["train"] = order
    if any(not len(part) for part in parts.values()):
        raise DataError(f"{name}: {count} examples are too few to share out as asked; give more, or files of their own")
    return {part: np.sort(places).astype(np.int64) for part, places in parts.items()}
