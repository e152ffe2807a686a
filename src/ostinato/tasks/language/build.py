"""From a configuration to a trained run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ostinato.core.config import flatten, to_toml
from ostinato.core.errors import ConfigError
from ostinato.core.files import write_json, write_text
from ostinato.core.progress import Watch, unwatched
from ostinato.core.score import Score
from ostinato.runs import RunDir
from ostinato.tasks.language.evaluate import evaluate, evaluate_stream
from ostinato.tasks.language.generate import sample_event
from ostinato.tasks.language.load import load, load_config
from ostinato.tasks.options import Config
from ostinato.text.corpora import Corpus, prepare
from ostinato.train.ranks import Ranks, joined, leads, started_by_torchrun

if TYPE_CHECKING:
    from ostinato.train.doctor import Diagnosis


@dataclass(frozen=True)
class Callbacks:
    """Who is told: progress, the doctor's warnings, notes in plain words, TensorBoard's folder."""

    watch: Watch = unwatched
    warn: Callable[[Diagnosis], None] = lambda diagnosis: None
    note: Callable[[str], None] = lambda text: None
    tensorboard: bool = False


def train(config: Config, run_dir: str | Path, callbacks: Callbacks | None = None) -> RunDir:
    """Prepare the text, make the run directory and train the model; return the run.

    Raises ConfigError, DataError, StorageError before anything is left on disk; Interrupted, DivergedError and
    PeerError leave a run that can be looked at and resumed. Of several processes (`train.ranks`) the first prepares.
    """
    callbacks = (callbacks if leads() else None) or Callbacks()
    config.check()
    refuse_several(config)
    if callbacks.tensorboard:
        from ostinato.train.monitor import require_tensorboard

        require_tensorboard()
    if config.model.kind == "ngram":
        with RunDir.create(run_dir) as part:
            prepare(config.data, part.path / "data", callbacks.watch)
            part.write_config(to_toml(config))
        return continue_training(RunDir.open(run_dir), config, callbacks)
    from ostinato.train.device import settle

    config = replace(config, train=settle(config.train))
    with joined(config.train.device) as ranks:
        if ranks.lead:
            config = prepare_run(config, run_dir, callbacks)
        ranks.wait()
        run = RunDir.open(run_dir)
        return continue_training(run, config if ranks.lead else load_config(run), callbacks, ranks)


def prepare_run(config: Config, run_dir: str | Path, callbacks: Callbacks) -> Config:
    """Make the directory of a neural run, with its data; the configuration with the size of word vectors."""
    from ostinato.tasks.language.learner import check_size, make_network, word_counts
    from ostinato.tasks.language.word_vectors import Known, opened, sized

    with RunDir.create(run_dir) as part:
        vectors = opened(config.model, callbacks.watch)
        config = replace(config, model=sized(config.model, vectors))
        corpus = prepare(config.data, part.path / "data", callbacks.watch)
        check_size(config, corpus)
        if vectors is not None:
            known = Known.among(vectors, corpus.vocabulary, str(config.model.vectors))
            callbacks.note(known.coverage(word_counts(corpus), corpus.vocabulary.stop))
            known.save(part.path / "data")
        make_network(config, corpus)  # a network that does not fit into memory is found before the run is made
        part.write_config(to_toml(config))
    return config


def refuse_several(config: Config) -> None:
    """Raise ConfigError if torchrun has started several processes for a model that is made by one."""
    if config.model.kind == "ngram" and started_by_torchrun():
        raise ConfigError("model.kind ngram is counted in threads of one process; start it without torchrun")


def resume(run_dir: str | Path, callbacks: Callbacks | None = None) -> RunDir:
    """Go on with a run from its last checkpoint, or from its beginning if it has none.

    Raises FormatError if the run is damaged, ConfigError if its config.toml was changed since. The number of
    processes may be another than before.
    """
    callbacks = (callbacks if leads() else None) or Callbacks()
    run = RunDir.open(run_dir)
    if (run.path / "members").is_dir():
        return run  # a mixture is finished when it is made
    config = load_config(run)
    config.check()
    refuse_several(config)
    refuse_changes(run, config)
    with joined(config.train.device) as ranks:
        return continue_training(run, config, callbacks, ranks)


def refuse_changes(run: RunDir, config: Config) -> None:
    """Raise ConfigError naming every key of config.toml that differs from the checkpoint's."""
    saved = run.load_checkpoint()
    if saved is None:
        return
    before, now = saved[1].get("config", {}), plain(config)
    changed = [f"{key} {before[key]!r} -> {now.get(key)!r}" for key in before if before[key] != now.get(key)]
    if changed:
        raise ConfigError(
            f"{run}/config.toml was changed since the last checkpoint: {'; '.join(changed)}; "
            "change it back, or train a new run with --config"
        )


def plain(config: Config) -> dict[str, Any]:
    """Every key of a configuration as JSON keeps it."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in flatten(config).items()}


def continue_training(run: RunDir, config: Config, callbacks: Callbacks, ranks: Ranks = Ranks()) -> RunDir:  # noqa: B008
    """Train the model of a prepared run to its end."""
    corpus = Corpus.open(run.path / "data")
    if config.model.kind == "ngram":
        with run.lock():
            estimate(run, config, corpus, callbacks)
        return run
    from ostinato.tasks.language.learner import train_network

    train_network(run, config, corpus, callbacks.watch, callbacks.warn, callbacks.tensorboard, plain(config), ranks)
    return run


def estimate(run: RunDir, config: Config, corpus: Corpus, callbacks: Callbacks) -> None:
    """Count the n-grams of the training stream, smooth them and save the table.

    A smoothing that has numbers to choose chooses them on the validation text.
    """
    from ostinato.ngram.counts import count
    from ostinato.ngram.estimate import write_model
    from ostinato.ngram.smoothing import smoothings
    from ostinato.ngram.store import Label
    from ostinato.ngram.workspace import Workspace, parse_memory

    path = run.path / "model.safetensors"
    if path.exists():
        return
    options, vocabulary, threads = config.model.resolve(), corpus.vocabulary, config.train.threads
    began = time.monotonic()
    space = Workspace(parse_memory(options.memory), run.path)
    counts = count(corpus.train.ids, vocabulary, options.order, callbacks.watch, threads, space)
    counts = replace(counts, unknown=options.unknown)
    more = {"regime": config.data.regime, "empty_lines": config.data.empty_lines, "options": asdict(options)}
    label = Label(vocabulary, corpus.pipeline, more)
    smoothing = smoothings[options.smoothing]()
    model = write_model(counts, smoothing, label, path, corpus.valid.ids, options.prune)
    for text in model.table.notes:
        callbacks.note(text)
    score = evaluate_stream(model, corpus.valid, corpus.pipeline, config.data.regime)
    seconds = time.monotonic() - began
    run.log({"event": "start", "step": 0, "outputs": vocabulary.outputs, "parameters": model.parameters})
    run.log({"event": "stop", "step": 0, "reason": "estimated", "best": score.nats / score.count, "seconds": seconds})


def keep_results(run: RunDir, watch: Watch = unwatched) -> Score:
    """Score a finished run on its test text and let it generate; keep both in the run as score.json, samples.txt."""
    loaded = load(run.path)
    score = evaluate(loaded, (), watch=watch)
    write_json(run.path / "score.json", score.to_json())
    texts = sample_event(loaded.model, loaded.pipeline, loaded.regime)["text"]
    write_text(run.path / "samples.txt", "\n\n".join(texts) + "\n")
    return score
