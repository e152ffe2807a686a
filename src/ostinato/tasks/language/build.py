"""From a configuration to a trained run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ostinato.core.config import flatten, to_toml
from ostinato.core.errors import ConfigError
from ostinato.core.files import write_json, write_text
from ostinato.core.progress import Watch, unwatched
from ostinato.core.score import Score
from ostinato.core.vocabulary import Vocabulary
from ostinato.nn.lm import NeuralLM
from ostinato.nn.networks import Network, networks
from ostinato.runs import RunDir
from ostinato.tasks.language.evaluate import evaluate, evaluate_stream
from ostinato.tasks.language.generate import sample_event
from ostinato.tasks.language.load import load, load_config
from ostinato.tasks.options import Config
from ostinato.text.batch import Batch, Batches, make_batches
from ostinato.text.corpora import Corpus, prepare
from ostinato.train.checkpoint import as_array
from ostinato.train.doctor import Diagnosis
from ostinato.train.loop import Trainer
from ostinato.train.monitor import require_tensorboard
from ostinato.train.options import TrainOptions

CHUNK = 1 << 22  # ids counted at once


class LanguageLearner:
    """A neural language model as the training loop sees it."""

    def __init__(self, network: Network, corpus: Corpus, config: Config):
        self.network, self.corpus, self.config = network, corpus, config
        self.model = NeuralLM(network, corpus.vocabulary)
        self._batches: tuple[int, Batches] | None = None

    def start_event(self) -> dict[str, Any]:
        """`outputs`, `train_tokens` and `unigram_nats`, the entropy of the training words counted alone."""
        ids, outputs = self.corpus.train.ids, self.corpus.vocabulary.outputs
        counts = np.zeros(outputs, np.int64)
        for begin in range(0, len(ids), CHUNK):  # the stream may be larger than memory
            counts += np.bincount(ids[begin : begin + CHUNK], minlength=outputs)
        shares = counts[counts > 0] / counts.sum()
        return {
            "outputs": self.network.outputs,
            "train_tokens": len(ids),
            "unigram_nats": float(-(shares * np.log(shares)).sum()),
        }

    def batches(self, epoch: int) -> Batches:
        """The shuffled batches of an epoch; the same for the same seed."""
        if self._batches is None or self._batches[0] != epoch:
            options = self.config.train
            made = make_batches(
                self.config.data.regime,
                self.corpus.train,
                self.corpus.vocabulary,
                rows=options.rows,
                length=options.bptt,
                seed=options.seed,
                epoch=epoch,
                training=True,
            )
            self._batches = (epoch, made)
        return self._batches[1]

    def init_state(self, rows: int) -> Any:
        """The state of rows that have read nothing."""
        return self.network.init_state(rows)

    def loss(self, state: Any, batch: Batch) -> tuple[Tensor, Any]:
        """Summed -log p in nats of the counted targets, and the state after the batch."""
        arrays = (batch.inputs, batch.targets, batch.weight)
        inputs, targets, weight = (torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)
        return self.network.loss(state, inputs, targets, weight)

    def validate(self) -> Score:
        """The score on the validation text.

        Long documents of a stream are cut and read side by side, so this is a little pessimistic there;
        `ostinato evaluate` reads them whole.
        """
        return evaluate_stream(self.model, self.corpus.valid, self.corpus.pipeline, self.config.data.regime, split=True)

    def sample(self) -> dict[str, Any]:
        """Two texts drawn from the model with a fixed seed."""
        return sample_event(self.model, self.corpus.pipeline, self.config.data.regime)

    def save(self, run: RunDir) -> None:
        """Write the network as the run's model."""
        arrays = {name: as_array(tensor) for name, tensor in self.network.state_dict().items()}
        run.save_model(self.config.model.kind, arrays, self.about())

    def about(self) -> dict[str, Any]:
        """The header of the model file."""
        options = asdict(self.config.model.resolve())
        return model_header(self.config, self.corpus.vocabulary, self.model.parameters) | {"options": options}


def model_header(config: Config, vocabulary: Vocabulary, parameters: int) -> dict[str, Any]:
    """What every model file says of itself beside its kind."""
    return {
        "vocabulary": vocabulary.fingerprint,
        "parameters": parameters,
        "regime": config.data.regime,
        "empty_lines": config.data.empty_lines,
    }


@dataclass(frozen=True)
class Callbacks:
    """Who is told: progress, the doctor's warnings, notes in plain words, TensorBoard's folder."""

    watch: Watch = unwatched
    warn: Callable[[Diagnosis], None] = lambda diagnosis: None
    note: Callable[[str], None] = lambda text: None
    tensorboard: bool = False


def train(config: Config, run_dir: str | Path, callbacks: Callbacks | None = None) -> RunDir:
    """Prepare the text, make the run directory and train the model; return the run.

    Raises ConfigError, DataError, StorageError before anything is left on disk; Interrupted and
    DivergedError leave a run that can be looked at and resumed.
    """
    callbacks = callbacks or Callbacks()
    config.check()
    if callbacks.tensorboard:
        require_tensorboard()
    if config.model.kind != "ngram":
        config = replace(config, train=settle(config.train))
    with RunDir.create(run_dir) as part:
        corpus = prepare(config.data, part.path / "data", callbacks.watch)
        if config.model.kind != "ngram":
            check_size(config, corpus)
            make_network(config, corpus)  # a network that does not fit into memory is found before the run is made
        part.write_config(to_toml(config))
    return continue_training(RunDir.open(run_dir), config, callbacks)


def settle(options: TrainOptions) -> TrainOptions:
    """The options with what depends on this machine decided, so that a resumed run does the same."""
    precision = options.precision
    if precision == "auto":
        precision = "bf16" if has_bf16() else "fp32"
    return replace(options, threads=options.threads or os.cpu_count() or 1, precision=precision)


def has_bf16() -> bool:
    """Whether this processor multiplies bfloat16 natively; where it does not, bfloat16 is slower than float32."""
    ask = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(ask and ask())


def check_size(config: Config, corpus: Corpus) -> None:
    """Raise DataError if the text is too short for one batch of training."""
    options = config.train
    make_batches(config.data.regime, corpus.train, corpus.vocabulary, options.rows, options.bptt, training=True)


def resume(run_dir: str | Path, callbacks: Callbacks | None = None) -> RunDir:
    """Go on with a run from its last checkpoint, or from its beginning if it has none.

    Raises FormatError if the run is damaged, ConfigError if its config.toml was changed since.
    """
    run = RunDir.open(run_dir)
    if (run.path / "members").is_dir():
        return run  # a mixture is finished when it is made
    config = load_config(run)
    config.check()
    refuse_changes(run, config)
    return continue_training(run, config, callbacks or Callbacks())


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


def continue_training(run: RunDir, config: Config, callbacks: Callbacks) -> RunDir:
    """Train the model of a prepared run to its end."""
    corpus = Corpus.open(run.path / "data")
    if config.model.kind == "ngram":
        with run.lock():
            estimate(run, config, corpus, callbacks)
        return run
    torch.set_num_threads(config.train.threads or 1)
    network = make_network(config, corpus)
    board = run.path / "tensorboard" if callbacks.tensorboard else None
    learner = LanguageLearner(network, corpus, config)
    trainer = Trainer(learner, run, config.train, callbacks.watch, callbacks.warn, board, plain(config))
    trainer.fit()
    return run


def make_network(config: Config, corpus: Corpus) -> Network:
    """The network of a configuration, its weights drawn with the configuration's seed."""
    torch.manual_seed(config.train.seed)
    network = networks[config.model.kind](corpus.vocabulary.outputs, config.model.resolve())
    network.bf16 = config.train.precision == "bf16"
    return network


def estimate(run: RunDir, config: Config, corpus: Corpus, callbacks: Callbacks) -> None:
    """Count the n-grams of the training stream, smooth them and save the table."""
    from ostinato.ngram.counts import count
    from ostinato.ngram.model import NGramModel
    from ostinato.ngram.smoothing import smoothings

    if (run.path / "model.safetensors").exists():
        return
    options, vocabulary = config.model.resolve(), corpus.vocabulary
    began = time.monotonic()
    counts = count(corpus.train.ids, vocabulary, options.order, callbacks.watch)
    table = smoothings[options.smoothing]().fit(counts)
    for text in table.notes:
        callbacks.note(text)
    model = NGramModel(table, vocabulary)
    header = model_header(config, vocabulary, model.parameters) | {"options": asdict(options)}
    run.save_model("ngram", model.arrays(), header | {"table": model.metadata()})
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
