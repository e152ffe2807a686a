"""Our side of the benchmark of sequence tasks: `python -m ostinato.bench.tasks_ours SPEC`, driven as serve.py says.

train: the very loop of `ostinato train`, on pairs that begin again at their end, without validation and checkpoints.
beam: what `ostinato predict` does to numbered sources. tag: `ostinato predict` itself, from a file to lines.
"""

from __future__ import annotations

import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ostinato.bench.serve import Channel, Ended, Pace, peak_bytes
from ostinato.bench.tasks_case import TagCase, TranslateCase, config_of, corpus_of, drawn_sentences
from ostinato.bench.train_ours import Endless
from ostinato.core.progress import Progress
from ostinato.core.state import State
from ostinato.core.vocabulary import Ids, LogProbs
from ostinato.nn.translator import Reading, Translator
from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.learning import TaskBatch
from ostinato.tasks.tagging.options import Config as TagConfig
from ostinato.tasks.tagging.options import DataOptions, ModelOptions
from ostinato.tasks.task import PredictOptions
from ostinato.tasks.translation.answers import Asking, answers_of
from ostinato.tasks.translation.encoding import Encoded
from ostinato.tasks.translation.learner import TranslationLearner, new_network
from ostinato.train.loop import Trainer
from ostinato.train.options import TaskTrainOptions

BEAM = 5


class Measured(TranslationLearner):
    """A learner that keeps the loss (nats a target) of the last batch, and never comes to an epoch's end."""

    last = 0.0
    tokens = 0

    def batches(self, epoch: int) -> Any:
        """The batches of the epoch, again and again."""
        return Endless(super().batches(epoch))

    def gradients(self, state: Any, batch: TaskBatch, scale: float, add: bool) -> tuple[float, Any]:
        nats, state = super().gradients(state, batch, scale, add)
        self.tokens = len(batch.weight)
        self.last = nats / self.tokens
        return nats, state


def train(case: TranslateCase, precision: str, threads: int) -> None:
    """Train for ever, in blocks."""
    config, corpus = config_of(case, precision, threads), corpus_of(case)
    encoded = Encoded(corpus, corpus.parts["train"])
    learner = Measured(corpus, new_network(config, corpus, encoded), config, encoded)
    parameters = sum(parameter.numel() for parameter in learner.network.parameters())
    pace = Pace(Channel(), {"engine": learner.start_event()["engine"], "parameters": parameters})

    def watch(progress: Progress) -> None:
        if progress.label == "train":
            pace.update(learner.last, learner.tokens)

    with tempfile.TemporaryDirectory() as folder:
        Trainer(learner, RunDir(Path(folder)), config.train, watch).fit()


class PlannedState(NamedTuple):
    """The reading's own state, which source, and how many words it said."""

    inner: State
    row: Ids
    said: Ids


class Planned:
    """A reading whose answers end where the drawn targets do.

    Weights that nobody trained would say a word or go on for ever; so no hypothesis stops before its source's length
    in `lengths`, and there every one does. The rest is the network's work and the search's, all of it.
    """

    def __init__(self, reading: Reading, lengths: Ids, stop: int):
        self.outputs, self._reading, self._lengths, self._stop = reading.outputs, reading, lengths, stop

    def init_state(self) -> tuple[State, Ids]:
        """The state of every source, and the start symbol for each."""
        inner, tokens = self._reading.init_state()
        rows = np.arange(len(tokens))
        return PlannedState(inner, rows, np.zeros_like(rows)), tokens

    def step(self, state: State, tokens: Ids) -> tuple[LogProbs, State]:
        """The log-probs of the reading, with the stop symbol where it is planned alone."""
        inner, row, said = PlannedState(*state)
        log_probs, inner = self._reading.step(inner, tokens)
        due = said >= self._lengths[row]
        log_probs[:, self._stop] = -np.inf
        log_probs[due] = -np.inf
        log_probs[due, self._stop] = 0
        return log_probs, PlannedState(inner, row, said + 1)


class PlannedTranslator(Translator):
    """A translator whose answers to these sources are as long as their targets."""

    def plan(self, sources: list[Ids], targets: list[Ids], stop: int) -> None:
        """Remember how long the answer to each source is; targets end with the stop symbol."""
        self._stop = stop
        self._ends = {source.tobytes(): len(target) - 1 for source, target in zip(sources, targets, strict=True)}

    def read(self, sources: Any) -> Any:
        """A planned reading."""
        lengths = np.array([self._ends[source.tobytes()] for source in sources])
        return Planned(super().read(sources), lengths, self._stop)


def beam(case: TranslateCase, precision: str, rows: int) -> Callable[[], int]:
    """What translates a pool of sources with a beam of 5 and says how many there were."""
    config, corpus = config_of(case, "fp32", 1), corpus_of(case)
    encoded = Encoded(corpus, corpus.parts["train"])
    network = new_network(config, corpus, encoded).eval()
    translator = PlannedTranslator(network, bf16=precision == "bf16")
    translator.plan(encoded.sources, encoded.targets, corpus.target.vocabulary.stop)
    asking = Asking(beam=BEAM, rows=rows)

    def once() -> int:
        answers = answers_of(translator, encoded.sources, corpus, asking)
        assert all(len(row[0].tokens) == len(said) - 1 for row, said in zip(answers, encoded.targets, strict=True))
        return len(answers)

    return once


def tag(case: TagCase, folder: Path) -> Callable[[], int]:
    """What tags a file of sentences and says how many there were."""
    train, test = folder / "train.conll", folder / "test.conll"
    train.write_text(drawn_sentences(case, 500), "utf8")
    test.write_text(drawn_sentences(case, case.sentences, seed=2), "utf8")
    model = ModelOptions(kind="lstm", hidden=200, embedding=100, affixes=4, output=case.output)  # type: ignore[arg-type]
    options = TaskTrainOptions(epochs=1, threads=1, precision="fp32")
    config = TagConfig(DataOptions(train=(str(train),), form="conll", scheme="none"), model, options)
    run = working.train("tagging", config, folder / "run", Callbacks())
    predictor, asking = working.load(run.path), PredictOptions(rows=case.rows)
    gc.freeze()  # as the command does

    def once() -> int:
        return sum(1 for answer in predictor.predict(str(test), asking) if answer)

    return once


def serve(once: Callable[[], int]) -> None:
    """Do it again and again in blocks of some seconds; a request says how many."""
    channel = Channel()
    once()
    for request in channel.requests():
        cpu, began, counts = time.process_time(), time.perf_counter(), 0
        rates: list[float] = []
        while not rates or time.perf_counter() - began < request["seconds"]:
            start = time.perf_counter()
            count = once()
            rates.append(count / (time.perf_counter() - start))
            counts += count
        used = time.process_time() - cpu
        answer = {"sentences/s": float(np.median(rates)), "cpu": used, "cpu_sentence": used / counts}
        channel.say(answer | {"peak_bytes": peak_bytes()})


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(spec["threads"])
    with suppress(Ended), tempfile.TemporaryDirectory() as scratch:
        if spec["kind"] == "train":
            train(TranslateCase(**spec["case"]), spec["precision"], spec["threads"])
        elif spec["kind"] == "beam":
            serve(beam(TranslateCase(**spec["case"]), spec["precision"], spec["rows"]))
        else:
            serve(tag(TagCase(**spec["case"]), Path(scratch)))
