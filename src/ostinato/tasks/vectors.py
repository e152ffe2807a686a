"""Word vectors as a run: a text, its ids, two matrices, checkpoints, and vectors at the end.

NAME/  config.toml  environment.json  log.jsonl   as every run (runs.py)
       data/         the text as ids, until training is finished
       checkpoints/  both matrices; the last one stays, so that training can go on with another text
       vectors/      words.json, vectors.npy, ... (embed/folder.py)
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge
from pydantic.dataclasses import dataclass

from ostinato.core.config import STRICT, build, flatten, read_toml, to_toml
from ostinato.core.errors import ConfigError, DataError, DivergedError, FormatError, Interrupted, MismatchError
from ostinato.core.progress import Watch, unwatched
from ostinato.embed.benchmarks import Analogies, Pairs, read_benchmark
from ostinato.embed.corpus import Corpus, open_corpus
from ostinato.embed.evaluate import AnalogyScore, SimilarityScore, evaluate
from ostinato.embed.lexicon import Lexicon
from ostinato.embed.matrices import Matrices
from ostinato.embed.objectives import Objective
from ostinato.embed.options import TextOptions, VectorOptions
from ostinato.embed.trainer import Report, Trainer
from ostinato.embed.training import encoded, progress_of, trained
from ostinato.embed.vectors import Vectors
from ostinato.runs import VECTORS, RunDir
from ostinato.train.signals import stopping

CHECKPOINT = 60.0
"""Seconds between two checkpoints."""

LOGGED = 5.0
"""Seconds between two reports in the log."""

NO_MATTER = ("vectors.threads", "checks.check", "checks.every")
"""Keys that may change while a run is stopped."""


@dataclass(frozen=True, config=STRICT)
class CheckOptions:
    """What the vectors are scored on while they are trained."""

    check: tuple[str, ...] = ()
    """Files of word pairs or analogies; they are read at the beginning of training, and again by `resume`."""
    every: Annotated[float, Ge(0)] = 60.0
    """Seconds between two scores; the last one comes at the end in any case."""


@dataclass(frozen=True, config=STRICT)
class Config:
    """Everything the training of word vectors is told."""

    text: TextOptions = field(default_factory=TextOptions)
    vectors: VectorOptions = field(default_factory=VectorOptions)
    checks: CheckOptions = field(default_factory=CheckOptions)


@dataclasses.dataclass(frozen=True)
class Watching:
    """Who is told of training: progress, and notes in plain words."""

    watch: Watch = unwatched
    note: Callable[[str], None] = lambda text: None


Benchmarks = Sequence[Pairs | Analogies]


def load_config(run: RunDir) -> Config:
    """The configuration of a run. Raises ConfigError if it was edited to something that is none."""
    return build(Config, read_toml(run.path / "config.toml"), f"{run}/config.toml")


def train(config: Config, run_dir: str | Path, watching: Watching, before: str | Path | None = None) -> RunDir:
    """Read the text, make the run directory and train; return the run.

    before: a finished run whose vectors are trained on with this text; its words keep their places, frequent new ones
        join them.
    Raises ConfigError, DataError, StorageError before anything is left on disk; Interrupted leaves a run that can be
    resumed, DivergedError its last good checkpoint.
    """
    if not config.text.text:
        raise ConfigError("no text was named; give --text FILE, with a sentence a line, or - for standard input")
    benchmarks = [read_benchmark(path) for path in config.checks.check]
    older = None if before is None else _older(before, config.vectors)
    with RunDir.create(run_dir) as part:
        lexicon = None if older is None else older[0]
        corpus = encoded(config.text, part.path / "data", config.vectors.threads, lexicon, watching.watch)
        corpus.close()
        _check(corpus, config.vectors)
        part.write_config(to_toml(config), kind=VECTORS)
        if older is not None:
            matrices = _grown(older, corpus.lexicon, config.vectors)
            part.save_checkpoint(0, _arrays(matrices), {"step": 0, "config": _plain(config)})
    return _continue(RunDir.open(run_dir, VECTORS), config, watching, benchmarks)


def resume(run_dir: str | Path, watching: Watching) -> RunDir:
    """Go on with a run that was stopped or killed. Raises ConfigError for a config.toml that was changed."""
    run = RunDir.open(run_dir, VECTORS)
    config = load_config(run)
    if run.finished and (run.path / "vectors" / "words.json").is_file():
        shutil.rmtree(run.path / "data", ignore_errors=True)
        return run
    if run.ending()[0] == "diverged":
        raise DivergedError(
            f"{run}: its training diverged, and would again; train a new run with a smaller learning rate"
        )
    return _continue(run, config, watching, _benchmarks_left(config, watching))


def _check(corpus: Corpus, options: VectorOptions) -> None:
    """Raise an error, before the run is made, for a text or options that training could do nothing with."""
    if corpus.words == corpus.sentences:
        raise DataError(
            "no line of the text has two words that are frequent enough, so no word has a context; "
            "write a sentence a line, with blanks between its words, or lower --min-count"
        )
    matrices = _matrices(len(corpus.lexicon), options, 1)
    Objective(
        dataclasses.replace(options, subwords=False, least=3, most=6, buckets=2_000_000), corpus.lexicon, matrices
    )


def _benchmarks_left(config: Config, watching: Watching) -> Benchmarks:
    """The benchmarks of a run that is gone on with; one that cannot be read any more is left out with a note."""
    found = []
    for path in config.checks.check:
        try:
            found.append(read_benchmark(path))
        except DataError as fault:
            watching.note(f"no scores on this file: {fault}")
    return found


def _continue(run: RunDir, config: Config, watching: Watching, benchmarks: Benchmarks) -> RunDir:
    with run.lock(), open_corpus(run.path / "data") as corpus:
        trainer = _trainer(run, config, corpus)
        if trainer.threads > 1:
            watching.note(
                f"{trainer.threads} threads write to the same vectors without locks (Hogwild), so another run gives "
                "slightly other ones; --threads 1 gives the same again, bit for bit"
            )
        asked = Event()
        with stopping(asked.set, several=False):
            _loop(run, config, trainer, watching, benchmarks, asked)
        trained(trainer.matrices, corpus.lexicon, config.vectors).save(run.path / "vectors", force=True)
        for old in run.checkpoints()[:-1]:
            shutil.rmtree(old)
        shutil.rmtree(run.path / "data")
    return run


def _trainer(run: RunDir, config: Config, corpus: Corpus) -> Trainer:
    """A trainer where the last checkpoint left off, or at the beginning."""
    threads = config.vectors.threads or os.cpu_count() or 1
    saved = run.load_checkpoint()
    if saved is None:
        run.cut_log(-1)
        return Trainer(corpus, config.vectors, threads)
    arrays, about = saved
    changed = [key for key, value in about["config"].items() if _plain(config).get(key) != value]
    if changed:
        raise ConfigError(
            f"{run}/config.toml: {', '.join(changed)} changed since the last checkpoint; "
            "change it back, or train a new run"
        )
    run.cut_log(about["step"])
    matrices = _matrices(len(corpus.lexicon), config.vectors, threads)
    for name, view in _arrays(matrices).items():
        if arrays[name].shape != view.shape:
            raise FormatError(f"{run}: the checkpoint does not fit the text of the run; train again")
        view[:] = arrays[name]
    trainer = Trainer(corpus, config.vectors, threads, matrices)
    trainer.step = about["step"]
    return trainer


def _loop(
    run: RunDir, config: Config, trainer: Trainer, watching: Watching, benchmarks: Benchmarks, asked: Event
) -> None:
    """Train to the end with reports, scores and checkpoints; a stopped run is saved."""
    begun = saved = logged = scored = time.monotonic()
    earlier = run.training_seconds() or 0.0
    pending: list[Report] = []

    def tell() -> None:
        if pending:
            run.log({"event": "report", **_summed(pending)})
            pending.clear()

    def stop(reason: str) -> None:
        tell()
        seconds = earlier + time.monotonic() - begun
        run.log({"event": "stop", "step": trainer.step, "reason": reason, "seconds": seconds})

    if trainer.step == 0:
        run.log({"event": "start", "step": 0, "words": len(trainer.corpus.lexicon), "text": trainer.corpus.words})
    try:
        for report in trainer.run(asked.is_set):
            pending.append(report)
            watching.watch(progress_of(report))
            now, last = time.monotonic(), report.step == report.steps
            saving = now - saved >= CHECKPOINT and not last
            if now - logged >= LOGGED or saving or report.step % trainer.chunks == 0:  # none is of two epochs
                tell()
                logged = now
            if benchmarks and (now - scored >= config.checks.every or last):
                _score(run, config, trainer, benchmarks, watching)
                scored = time.monotonic()
            if saving:
                _save(run, config, trainer)
                saved = time.monotonic()
    except DivergedError as fault:
        stop("diverged")
        kept = run.checkpoints()
        raise DivergedError(f"{run}: {fault}; the run keeps {kept[-1].name if kept else 'no checkpoint'}") from None
    _save(run, config, trainer)
    done = trainer.step == trainer.steps
    stop("epochs" if done else "interrupted")
    if not done:
        raise Interrupted(f"stopped at {trainer.step / trainer.steps:.0%} and saved; `ostinato resume {run}` goes on")


def last_loss(run: RunDir) -> float | None:
    """The loss over the whole last epoch so far, nats a pair; None before there is one."""
    reports = [event for event in run.events() if event["event"] == "report" and event["pairs"]]
    last = [event for event in reports if event["epoch"] == reports[-1]["epoch"]]
    pairs = sum(event["pairs"] for event in last)
    return sum(event["loss"] * event["pairs"] for event in last) / pairs if pairs else None


def _summed(reports: Sequence[Report]) -> dict[str, Any]:
    """Several reports as one."""
    last, pairs = reports[-1], sum(report.pairs for report in reports)
    words = sum(report.words for report in reports)
    seconds = sum(report.words / report.words_per_second for report in reports if report.words)
    return {
        "step": last.step,
        "epoch": last.epoch,
        "loss": sum(report.loss * report.pairs for report in reports if report.pairs) / pairs if pairs else None,
        "pairs": pairs,
        "kept": sum(report.kept for report in reports),
        "words": words,
        "words_per_second": words / max(seconds, 1e-6),
        "learning_rate": last.learning_rate,
        "seconds": last.seconds,
    }


def _score(run: RunDir, config: Config, trainer: Trainer, benchmarks: Benchmarks, watching: Watching) -> None:
    """The vectors as they are now on every benchmark: a note and an event."""
    vectors = trained(trainer.matrices, trainer.corpus.lexicon, config.vectors).vectors
    for benchmark in benchmarks:
        score = evaluate(vectors, benchmark)
        run.log({"event": "score", "step": trainer.step, **score.to_json()})
        watching.note(_told(score))


def _told(score: SimilarityScore | AnalogyScore) -> str:
    """A score in plain words, with what it covers."""
    name = Path(score.name).name
    if isinstance(score, SimilarityScore):
        return f"{name}: Spearman {score.spearman:.4f} on {score.used:,} of {score.pairs:,} pairs"
    part = score.total
    return f"{name}: {part.accuracy:.1%} right of {part.answered:,} of {part.questions:,} analogies"


def _save(run: RunDir, config: Config, trainer: Trainer) -> None:
    """Write a checkpoint, unless the last one is of this place: nothing was done since, and it would be taken away."""
    kept = run.checkpoints()
    if not (kept and int(kept[-1].name) == trainer.step):
        run.save_checkpoint(trainer.step, _arrays(trainer.matrices), {"step": trainer.step, "config": _plain(config)})


def _arrays(matrices: Matrices) -> dict[str, Any]:
    return {"input": matrices.input, "output": matrices.output, "grams": matrices.grams}


def _plain(config: Config) -> dict[str, Any]:
    """Every key that decides what comes out, as JSON keeps it."""
    made = {key: list(value) if isinstance(value, tuple) else value for key, value in flatten(config).items()}
    return {key: value for key, value in made.items() if key not in NO_MATTER}


def _matrices(words: int, options: VectorOptions, threads: int) -> Matrices:
    """Matrices of zeros. Raises ConfigError if there is no room for them."""
    buckets = options.buckets if options.subwords else 0
    try:
        return Matrices(words, options.dimensions, buckets, threads)
    except MemoryError:
        room = 4e-9 * options.dimensions * (2 * words + buckets)
        raise ConfigError(
            f"{words:,} words and {buckets:,} buckets of {options.dimensions:,} numbers need {room:,.1f} GB of memory; "
            "choose fewer dimensions or buckets, or a limit on the words"
        ) from None


def _older(before: str | Path, options: VectorOptions) -> tuple[Lexicon, dict[str, Any]]:
    """The words and matrices of a run that is to be trained on.

    Raises MismatchError if it was made with other options that its matrices depend on.
    """
    run = RunDir.open(before, VECTORS)
    then = load_config(run).vectors
    for name in ("dimensions", "subwords", "least", "most", "buckets", "loss"):
        if getattr(then, name) != getattr(options, name):
            raise MismatchError(
                f"{run} was trained with {name} {getattr(then, name)}, not {getattr(options, name)}; give it the same"
            )
    if options.loss == "hierarchical-softmax":
        raise MismatchError(f"{run}: a tree is made for fixed counts, so its vectors cannot be trained on; train anew")
    saved = run.load_checkpoint()
    if saved is None or not run.finished:
        raise MismatchError(f"{run} is not finished; `ostinato resume {run}` ends it first")
    vectors = Vectors.load(run.path / "vectors")
    counts = np.zeros(len(vectors), np.int64) if vectors.counts is None else vectors.counts
    return Lexicon(vectors.words, counts), saved[0]


def _grown(older: tuple[Lexicon, dict[str, Any]], lexicon: Lexicon, options: VectorOptions) -> Matrices:
    """Matrices for all words: the rows of the old ones, and new ones drawn."""
    _, arrays = older
    matrices = _matrices(len(lexicon), options, 1)
    matrices.begin(options.seed, len(arrays["input"]))
    matrices.input[: len(arrays["input"])] = arrays["input"]
    matrices.output[: len(arrays["output"])] = arrays["output"]
    matrices.grams[:] = arrays["grams"]
    return matrices
