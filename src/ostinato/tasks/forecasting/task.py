"""The task: from a configuration to a run that forecasts, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ostinato.core.config import build, read_toml
from ostinato.core.progress import Watch
from ostinato.runs import RunDir
from ostinato.tasks.forecasting.data import read_corpus
from ostinato.tasks.forecasting.learner import ForecastLearner, new_learner
from ostinato.tasks.forecasting.options import Config
from ostinato.tasks.forecasting.predict import ForecastPredictor
from ostinato.tasks.forecasting.predict import load as load_predictor


class Forecasting:
    """Series to what comes next; see `tasks.task.Task`."""

    def prepare(self, config: Config, folder: Path, watch: Watch) -> Sequence[str]:
        """Read, check and share out the rows; notes on them."""
        corpus, notes = read_corpus(config, watch)
        corpus.save(folder)
        reading = self.learner(config, folder).reading  # what does not fit is found before the run is made
        cycles = ", ".join(reading.cycles)
        return [*notes, f"the calendar is read by {cycles}"] if cycles else notes

    def learner(self, config: Config, folder: Path) -> ForecastLearner:
        """What the loop trains."""
        return new_learner(config, folder)

    def load(self, run: RunDir) -> ForecastPredictor:
        """The best model of a run."""
        path = run.path / "config.toml"
        tables = {key: value for key, value in read_toml(path).items() if key != "task"}
        return load_predictor(run, build(Config, tables, str(path)))


TASK = Forecasting()
