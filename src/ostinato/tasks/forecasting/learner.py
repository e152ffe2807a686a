"""A forecaster as the training loop sees it: windows of the training part, and the true value after every step."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.nn.forecaster import Forecaster
from ostinato.tasks.forecasting.answers import (
    Reading,
    Stretches,
    description,
    forecaster_options,
    one_step,
    scales,
)
from ostinato.tasks.forecasting.data import Corpus, digest
from ostinato.tasks.forecasting.options import Config
from ostinato.tasks.learning import TaskBatch, TaskLearner
from ostinato.text.bucket import Places
from ostinato.text.times import Numbers
from ostinato.train.device import device_of
from ostinato.train.learner import Validation

NAME = "forecasting"


class Windows:
    """The batches of an epoch, by number: windows [B, 3] of a series from a step to before another."""

    def __init__(self, windows: Places, targets: list[NDArray[np.bool_]], rows: int):
        self._windows, self._targets, self._rows = windows, targets, rows

    def __len__(self) -> int:
        return -(-len(self._windows) // self._rows)

    def __getitem__(self, number: int) -> TaskBatch:
        rows = self._windows[number * self._rows : (number + 1) * self._rows]
        count = sum(int(self._targets[place][begin + 1 : end + 1].sum()) for place, begin, end in rows.tolist())
        return TaskBatch(rows, np.ones(count, np.float32))


class ForecastLearner(TaskLearner):
    """Trains by the loss of each value given the true ones before it; keeps the weights best on the validation part.

    Without a validation part it is the training part that they are best on.
    """

    network: Forecaster
    measure = "RMSE"

    def __init__(self, corpus: Corpus, network: Forecaster, reading: Reading, config: Config):
        self.corpus, self.reading, self.config = corpus, reading, config
        self.stretches = Stretches(reading, corpus.series)
        self.part = "valid" if any(one.ends[1] > one.ends[0] for one in corpus.series) else "train"
        back = network.options.back
        self.counted = [counted(one.came, back) for one in corpus.series]
        ends = np.array([one.ends[0] for one in corpus.series], np.int64)
        learnt = [mask[:end].sum() for mask, end in zip(self.counted, ends, strict=True)]
        super().__init__(NAME, network, config.train.as_task(), ends, np.array(learnt, np.int64))

    def batches(self, epoch: int) -> Windows:  # type: ignore[override]
        """The shuffled windows of an epoch; the same for the same seed. Each series is cut at another place."""
        window, random = self.config.train.window, np.random.default_rng([self.options.seed, epoch])
        found = []
        for place, end in enumerate(self.lengths.tolist()):
            bounds = [0, *range(int(random.integers(1, window + 1)), end - 1, window), end - 1]
            found += [(place, begin, stop) for begin, stop in pairwise(bounds) if stop > begin]
        windows = random.permutation(np.array(found, np.int64), axis=0)
        learnt = [bool(self.counted[place][begin + 1 : end + 1].any()) for place, begin, end in windows.tolist()]
        return Windows(windows[learnt], self.counted, self.options.rows)

    def loss(self, rows: Places) -> Tensor:
        """The summed loss of the values after each step of the windows `rows` [B, 3], the state new in each."""
        read = self.stretches.inputs(rows, self.device)
        past = self.stretches.pasts(rows, self.network.options.past, self.device)
        state = self.network.init_state(len(rows))._replace(past=self.network.inward(past))
        forecast, _ = self.network.scan(state, read)
        following = self.stretches.inputs(rows + np.array([0, 1, 1]), self.device).values
        mask = np.zeros(following.shape, np.bool_)
        for row, (place, begin, end) in zip(mask, rows.tolist(), strict=True):
            row[: end - begin] = self.counted[place][begin + 1 : end + 1]
        return self.network.loss(forecast, following, torch.from_numpy(mask).to(self.device))

    def validate(self) -> Validation:
        """The loss and the root mean square error one step ahead, the state carried from the first step on.

        The intervals are calibrated on the same values; `coverage` is what they held before.
        """
        self.network.stretch.fill_(1)
        losses, errors, misses = self._judged()
        if self.config.model.calibrate and self.part == "valid":
            for column, found in enumerate(misses):
                self.network.calibrate(torch.from_numpy(found), column)
        loss = float(np.concatenate(losses).mean())
        rmse = float(np.sqrt(np.square(np.concatenate(errors)).mean()))
        coverage = 100 * float((np.concatenate(misses) <= 1).mean())
        return Validation(loss, loss, {"rmse": rmse, "coverage": coverage})

    def _judged(self) -> list[list[Numbers]]:
        """Losses, errors and misses of the validation part: for each value column its numbers in all series."""
        series = [one.before(one.part(self.part).stop) for one in self.corpus.series]
        said = one_step(self.network, self.reading, series)
        found: list[list[Numbers]] = [[], [], []]
        for column in range(self.network.options.values):
            parts: list[list[Numbers]] = [[], [], []]
            for one, mask, told in zip(self.corpus.series, self.counted, said, strict=True):
                span = one.part(self.part), column
                numbers = told.losses[span], one.values[span] - told.mean[span], told.misses[span]
                for part, number in zip(parts, numbers, strict=True):
                    part.append(number[mask[span]])
            for whole, part in zip(found, parts, strict=True):
                whole.append(np.concatenate(part))
        return found

    def told(self, loss: float, best: float) -> str:
        """The loss, and the least on the validation part so far."""
        text = f"loss {loss:.3f}"
        return text if best == np.inf else f"{text}  best valid {best:.3f}"

    def about(self) -> dict[str, Any]:
        """The network, how it reads, and what it was made for."""
        columns = [*self.corpus.columns.values, *self.corpus.columns.covariates]
        return {**description(self.network, self.reading), "columns": columns, "data": digest(self.corpus.series)}


def counted(came: NDArray[np.bool_], back: int) -> NDArray[np.bool_]:
    """Which values [N, D] are learnt: all that came, but those before what forecasts are a change from."""
    found = came.copy()
    found[: max(1, back)] = False
    return found


def new_learner(config: Config, folder: Path) -> ForecastLearner:
    """The learner of a configuration, its network on its device and drawn with its seed.

    Raises ConfigError or DataError for options that do not fit the data.
    """
    corpus = Corpus.open(folder)
    options, cycles = forecaster_options(config.model, corpus)
    torch.manual_seed(config.train.seed)
    network = Forecaster(*config.model.resolve(), options)
    network.set_scales(scales(network, corpus))
    reading = Reading(tuple(one.name for one in corpus.series), corpus.step, cycles)
    return ForecastLearner(corpus, network.to(device_of(config.train)), reading, config)
