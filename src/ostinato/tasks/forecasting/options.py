"""The configuration of a forecaster: one tree for files, command line and help. No torch here."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from itertools import pairwise
from typing import Annotated, Literal, Self

from annotated_types import Ge, Le
from pydantic import model_validator
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT
from ostinato.tasks.stacks import StackOptions
from ostinato.text.series import Wanted
from ostinato.text.times import Cycle
from ostinato.train.options import Count, LoopOptions, TaskTrainOptions

Part = Annotated[float, Ge(0)]
Lag = Annotated[int, Ge(2)]


@dataclass(frozen=True, config=STRICT)
class DataOptions:
    """Series, and which of their rows train, choose and judge: always the later ones judge."""

    train: tuple[str, ...] = ()
    """CSV or Parquet files that follow each other in time; .gz and .zst are unpacked."""
    valid: tuple[str, ...] = ()
    """Files that go on after those, by which the best model is chosen. None: the last rows of training."""
    test: tuple[str, ...] = ()
    """Files that go on after those. None: the last rows of training, see test_part."""
    valid_part: Part = 0.1
    """Rows of each series kept for validation where no file is given: a share below 1, or a number. 0: none, and the
    weights that fit training best are kept."""
    test_part: Part = 0.0
    """Rows at the end of each series kept for the test: a share below 1, or a number."""
    time: str | None = None
    """The column of the time. None: the first one that begins with a date, or is named like one; none: rows are
    counted."""
    values: tuple[str, ...] = ()
    """The columns that are read and forecast together. None: all other columns of numbers."""
    series: str | None = None
    """The column that names the series a row belongs to; all series share one network. None: there is one series."""
    covariates: tuple[str, ...] = ()
    """Columns of numbers that are read beside the values and not forecast; a row's are known when it comes."""
    times: Literal["auto", "date", "number"] = "auto"
    """How times are written: as ISO dates or plain numbers. date: digits alone, as 20100131, are a date."""
    missing: Literal["refuse", "last"] = "refuse"
    """What becomes of a missing value: an error, or the last value is read again, and neither learnt nor judged."""
    irregular: Literal["refuse", "keep", "fill"] = "refuse"
    """What becomes of a step that is not like the others: an error; nothing, the next row is the next step; or the rows
    between are filled in, as missing values are."""
    season: Count | None = None
    """Steps of a season, for lags, relative forecasts, the seasonal-naive forecast and MASE. None: by the step: 12 of
    months, 24 of hours, 7 of days, 52 of weeks."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name in ("valid_part", "test_part"):
            part = getattr(self, name)
            if part >= 1 and part != int(part):
                raise ValueError(f"{name} is a share below 1 or a whole number of rows, got {part}")
        if self.test and self.test_part:
            raise ValueError("test_part is cut from training where there is no test file; leave one of them out")
        if self.valid and self.test_part:
            raise ValueError("the rows after valid judge, not those of training: name them as test")
        return self

    @property
    def wanted(self) -> Wanted:
        """What is said about the columns."""
        return Wanted(self.time, self.values, self.series, self.covariates, self.times)


@dataclass(frozen=True, config=STRICT)
class ModelOptions(StackOptions):
    """The network: what it reads, its layers, and what it says."""

    hidden: int | None = 32
    """Hidden units."""
    dropout: float | None = 0.0
    """Share of inputs and outputs dropped in training."""
    head: Literal["gaussian", "quantile"] = "gaussian"
    """gaussian: mean and deviation, by likelihood; quantile: quantiles, by the pinball loss."""
    levels: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    """Of the quantiles, rising."""
    calibrate: bool = True
    """Widen the intervals, if need be, until they hold the values of the validation part as often as they say."""
    relative: Literal["none", "last", "season", "both"] = "last"
    """What a forecast is a change from: nothing, the last value, the one a season before, or the last value and the
    change that came a season before."""
    level: bool = True
    """Read the values themselves beside their changes; false where they grow beyond what training saw."""
    log: bool = False
    """Work with logarithms, for values above zero whose changes grow with them."""
    lags: tuple[Lag, ...] | None = None
    """How many steps before the value that is forecast others are read, beside the last. None: a season."""
    calendar: tuple[Cycle | Literal["none"], ...] | None = None
    """Cycles of the calendar whose sine and cosine are read: hour, weekday, yearday, month; or none. None: those that
    the step resolves and training saw twice."""
    series_size: Annotated[int, Ge(0), Le(4096)] = 0
    """Numbers in a vector for each series; 0: the network does not know which it reads."""
    direct: bool = True
    """The output layer reads the inputs too: a linear path beside the recurrent one."""

    @model_validator(mode="after")
    def _can_be(self) -> Self:
        if self.bidirectional:
            raise ValueError(
                "bidirectional: a network that reads from the end too would read what it must forecast; leave it out"
            )
        for name in ("embedding", "embedding_dropout"):
            if getattr(self, name) is not None:
                raise ValueError(f"{name} is of words, and a series has none; leave it out")
        if not self.level and self.relative == "none":
            raise ValueError("level false reads changes only, and relative none has none; set relative last")
        rising = all(low < high for low, high in pairwise(self.levels))
        if not (rising and 0.5 in self.levels and 0 < self.levels[0] <= 0.05 and 0.95 <= self.levels[-1] < 1):
            raise ValueError(
                f"levels rise from 0.05 or less to 0.95 or more, with 0.5 among them, got {list(self.levels)}"
            )
        return self


FARTHEST = 10_000
"""Steps ahead that can be forecast."""


@dataclass(frozen=True, config=STRICT)
class ForecastOptions:
    """How far a trained run looks ahead."""

    horizon: Annotated[int, Ge(1), Le(FARTHEST)] = 1
    """Steps ahead; beyond the first, each is made from those before."""
    paths: Annotated[int, Ge(0), Le(100000)] = 200
    """Futures drawn for each forecast beyond one step, whose mean and spread it is. 0: the forecast itself is read as
    if it had come, and has no interval."""


@dataclass(frozen=True, config=STRICT)
class TrainOptions(LoopOptions):
    """How a forecaster is trained: on windows of the series, by the true value after every step."""

    epochs: Count = 40
    """Passes over the training part."""
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    """bf16: matrix products of training in bfloat16, which has three digits; auto: where the processor has it."""
    rows: Count = 16
    """Windows of a batch."""
    window: Count = 64
    """Steps of a window; they are cut elsewhere in every epoch. The state begins anew in each; in use it is carried."""

    def as_task(self) -> TaskTrainOptions:
        """As the training of other tasks is told."""
        shared = {option.name: getattr(self, option.name) for option in dataclasses.fields(LoopOptions)}
        return TaskTrainOptions(**shared, rows=self.rows, tokens=self.rows * self.window, longest=self.window)


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything the training of a forecaster is told."""

    data: DataOptions = field(default_factory=DataOptions)
    model: ModelOptions = field(default_factory=ModelOptions)
    train: TrainOptions = field(default_factory=TrainOptions)
    forecast: ForecastOptions = field(default_factory=ForecastOptions)
