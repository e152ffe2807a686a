"""A trained forecaster that answers and is judged."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError
from ostinato.core.files import write_bytes
from ostinato.core.progress import Progress, Watch
from ostinato.runs import RunDir
from ostinato.tasks.forecasting.answers import described
from ostinato.tasks.forecasting.data import Corpus, Series, digest
from ostinato.tasks.forecasting.options import FARTHEST, Config
from ostinato.tasks.forecasting.report import report
from ostinato.tasks.forecasting.rows import Even, Follower
from ostinato.tasks.forecasting.stream import Answer, Model, Stream
from ostinato.tasks.task import PredictOptions, Report
from ostinato.text.read import check_readable
from ostinato.text.series import Table, rows_of
from ostinato.text.sources import name_of
from ostinato.train.checkpoint import set_weights
from ostinato.train.device import device_of


@dataclass(frozen=True)
class ForecastPredictor:
    """The best network of a run, and the rows it was made from."""

    run: RunDir
    config: Config
    corpus: Corpus
    model: Model

    def predict(self, source: str, options: PredictOptions) -> Iterator[str]:
        """For each row, as soon as it has come, the forecast of the next steps; see `Predictor.predict`.

        A line of CSV for each step ahead, with its names first if the file has such a line: the row's time, with
        `scores` the surprise of its values (nats), then the time, mean and interval that are forecast. The first rows
        of a series go on from those of the run, if they come right after them; with a session, from its last rows.
        """
        options.refuse(
            "forecasting", "nbest", "align", "beam", "length_penalty", "precision", "online", "rows", "tokens"
        )
        if options.scores and not self.model.network.head.has_density:
            raise ConfigError(
                "quantiles have no density, so a value has no surprise in nats; leave --scores out, or train with "
                "model.head gaussian"
            )
        if options.horizon is not None and not 1 <= options.horizon <= FARTHEST:
            raise ConfigError(f"--horizon {options.horizon}: steps ahead are 1 to {FARTHEST:,}")
        return self._lines(source, options, self._begun(options))

    def _begun(self, options: PredictOptions) -> Stream:
        """A stream as far ahead as wanted, at its beginning or where the session left it."""
        wanted = replace(self.model.options, horizon=options.horizon or self.model.options.horizon)
        model = replace(self.model, options=wanted)
        if options.session is None or not options.session.exists():
            return Stream(model)
        try:
            return Stream.from_bytes(model, options.session.read_bytes())
        except (FormatError, MismatchError) as fault:
            raise type(fault)(f"{options.session}: {fault} (remove the file, or name another one)") from None

    def stream(self) -> Stream:
        """What reads rows one by one, and can be saved between them."""
        return Stream(self.model)

    def _lines(self, source: str, options: PredictOptions, stream: Stream) -> Iterator[str]:
        try:
            yield from self._answers(Table(source), options, stream)
        finally:  # whoever stops it goes on behind the last row that was answered
            if options.session is not None:
                write_bytes(options.session, stream.to_bytes())

    def _answers(self, table: Table, options: PredictOptions, stream: Stream) -> Iterator[str]:
        columns = self.corpus.columns
        first = table.peek(1)
        if first and not options.json and all(name in first[0] for name in columns.used):
            yield _line(self._names(options.scores))
        for row in rows_of(table, columns):
            answer = stream.read(row, options.scores)
            shown = row.shown or self.corpus.columns.clock.show(answer.time)
            if options.json:
                yield json.dumps(self._told(answer, shown, options.scores), ensure_ascii=False)
            else:
                yield from self._rows(answer, shown, options.scores)

    def _names(self, scores: bool) -> list[str]:
        columns = self.corpus.columns
        surprises = [_named(value, "surprise", columns.values) for value in columns.values] if scores else []
        told = [f"{value}{end}" for value in columns.values for end in ("", " low", " high")]
        return [columns.time or "row", *([columns.series] if columns.series else []), *surprises, "next", *told]

    def _rows(self, answer: Answer, shown: str, scores: bool) -> Iterator[str]:
        """A line for each step ahead."""
        row = [shown, *([answer.series] if self.corpus.columns.series else [])]
        row += [_shown(value) for value in answer.surprise] if scores else []
        for step, time in enumerate(answer.times):
            told = zip(answer.mean[step], answer.low[step], answer.high[step], strict=True)
            yield _line([*row, self.corpus.columns.clock.show(time), *(_shown(value) for one in told for value in one)])

    def _told(self, answer: Answer, shown: str, scores: bool) -> dict[str, Any]:
        columns = self.corpus.columns
        told: dict[str, Any] = {"time": shown}
        if columns.series:
            known = answer.series in self.model.reading.names
            told |= {"series": answer.series} | ({} if known else {"known": False})
        if scores:
            told["surprise"] = dict(zip(columns.values, map(_plain, answer.surprise), strict=True))
        told["forecasts"] = [
            {
                "time": columns.clock.show(time),
                **{
                    value: {
                        "mean": _plain(answer.mean[step, place]),
                        "low": _plain(answer.low[step, place]),
                        "high": _plain(answer.high[step, place]),
                    }
                    for place, value in enumerate(columns.values)
                },
            }
            for step, time in enumerate(answer.times)
        ]
        return told

    def evaluate(self, sources: Sequence[str], watch: Watch) -> Report:
        """The report on files; without sources on the run's test rows, or else those of validation or training.

        Every forecast is made from the true rows before it; those of the run are read first, if a file goes on from
        them.
        """
        if sources:
            series, begins = self._read(sources, watch)
            return report(self.model, self.corpus, series, begins, name_of(sources))
        sizes = {part: sum(len(one.times[one.part(part)]) for one in self.corpus.series) for part in self.corpus.names}
        part = next(part for part in ("test", "valid", "train") if sizes[part])
        series = [one.before(one.part(part).stop) for one in self.corpus.series]
        begins = [one.part(part).start for one in self.corpus.series]
        return report(self.model, self.corpus, series, begins, self.corpus.names[part])

    def _read(self, sources: Sequence[str], watch: Watch) -> tuple[list[Series], list[int]]:
        """The series of files behind the rows of the run that they go on from, and where their own rows begin."""
        check_readable(sources)
        steps: dict[str, list[Even]] = {}
        followers: dict[str, Follower] = {}
        pasts: dict[str, Series | None] = {}
        count = 0
        for path in sources:
            for row in rows_of(Table(path), self.corpus.columns):
                if row.series not in followers:
                    past = pasts[row.series] = self.model.past_of(row)
                    followers[row.series] = Follower(self.model.rule, None if past is None else past.last)
                steps.setdefault(row.series, []).extend(followers[row.series].follow(row))
                count += 1
                if count % 1000 == 0:
                    watch(Progress("read", count))
        if not steps:
            raise DataError(f"{name_of(sources)}: no rows; give a table with a row for each step")
        series, begins = [], []
        for name, found in steps.items():
            own, past = Series.of(name, found, self.corpus.columns), pasts[name]
            series.append(own if past is None else past.followed_by(own))
            begins.append(0 if past is None else len(past))
        return series, begins


def _named(value: str, what: str, values: Sequence[str]) -> str:
    return what if len(values) == 1 else f"{value} {what}"


def _line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _shown(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.6g}"


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def load(run: RunDir, config: Config) -> ForecastPredictor:
    """What answers for a run. Raises FormatError if it is damaged, MismatchError if its parts do not fit."""
    corpus = Corpus.open(run.path / "data")
    arrays, about = run.load_model()
    where = f"{run}/model.safetensors"
    data = digest(corpus.series)
    if about.get("data") != data:
        raise MismatchError(
            f"{where}: made for data {about.get('data')}, but the data of the run is {data}; restore the file or train "
            "again"
        )
    try:
        network, reading = described(about, where)
    except (KeyError, TypeError, ConfigError) as fault:
        raise FormatError(f"{where}: the header is not that of a forecaster ({fault}); restore it") from None
    set_weights(network, arrays, where)
    network = network.to(device_of(config.train)).eval()
    pasts = {one.name: one for one in corpus.series}
    fingerprint = str(about["digest"])
    model = Model(network, reading, corpus.rule, config.forecast, config.train.seed, fingerprint, pasts)
    return ForecastPredictor(run, config, corpus, model)
