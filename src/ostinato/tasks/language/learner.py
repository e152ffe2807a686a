"""A neural language model as the training loop sees it, and what is decided before it starts."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ostinato.core.progress import Watch
from ostinato.core.vocabulary import Vocabulary
from ostinato.nn.lm import NeuralLM
from ostinato.nn.networks import Network, networks
from ostinato.runs import RunDir
from ostinato.tasks.language.evaluate import evaluate_stream
from ostinato.tasks.language.generate import sample_event
from ostinato.tasks.language.word_vectors import Known
from ostinato.tasks.options import Config
from ostinato.text.batch import Batch, Batches, make_batches
from ostinato.text.corpora import Corpus
from ostinato.train import monitor
from ostinato.train.checkpoint import as_array
from ostinato.train.device import device_of
from ostinato.train.doctor import Diagnosis
from ostinato.train.engine import choose_engine
from ostinato.train.learner import Validation, perplexity
from ostinato.train.loop import Trainer
from ostinato.train.ranks import Ranks

CHUNK = 1 << 22  # ids counted at once


class LanguageLearner:
    """A neural language model as the training loop sees it."""

    def __init__(self, network: Network, corpus: Corpus, config: Config):
        self.network, self.corpus, self.config = network, corpus, config
        self.model = NeuralLM(network, corpus.vocabulary)
        self.engine = choose_engine(network)
        self._batches: tuple[int, Batches] | None = None

    def start_event(self) -> dict[str, Any]:
        """`outputs`, `train_tokens`, `unigram_nats` (the entropy of the training words alone), and the engine."""
        counts = word_counts(self.corpus)
        shares = counts[counts > 0] / counts.sum()
        return {
            "outputs": self.network.outputs,
            "train_tokens": len(self.corpus.train.ids),
            "unigram_nats": float(-(shares * np.log(shares)).sum()),
            "engine": self.engine.name,
            "engine_reason": self.engine.reason,
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

    def gradients(self, state: Any, batch: Batch, scale: float, add: bool) -> tuple[float, Any]:
        """Summed -log p in nats of the counted targets, and the state; gradients as `Learner.gradients` says."""
        return self.engine.gradients(state, batch, scale, add)

    def validate(self) -> Validation:
        """The loss on the validation text.

        Long documents of a stream are cut and read side by side, so this is a little pessimistic there;
        `ostinato evaluate` reads them whole.
        """
        pipeline, regime = self.corpus.pipeline, self.config.data.regime
        score = evaluate_stream(self.model, self.corpus.valid, pipeline, regime, split=True)
        loss = score.nats / max(1, score.count)
        return Validation(loss, loss)

    def told(self, loss: float, best: float) -> str:
        """Perplexities."""
        text = f"perplexity {perplexity(loss):.1f}"
        return text if best == math.inf else f"{text}  best valid {perplexity(best):.2f}"

    def probe(self, batch: Batch) -> dict[str, Any]:
        """Gates and gradients through time."""
        return monitor.probe(self.network, batch)

    def sample(self) -> dict[str, Any]:
        """Two texts drawn from the model with a fixed seed."""
        return sample_event(self.model, self.corpus.pipeline, self.config.data.regime)

    def save(self, run: RunDir) -> None:
        """Write the network as the run's model."""
        arrays = {name: as_array(tensor) for name, tensor in self.network.state_dict().items()}
        run.save_model(self.config.model.kind, arrays, self.about())

    def about(self) -> dict[str, Any]:
        """The header of the model file."""
        options = asdict(self.network.options)
        return model_header(self.config, self.corpus.vocabulary, self.model.parameters) | {"options": options}


def word_counts(corpus: Corpus) -> NDArray[np.int64]:
    """How often each id [outputs] stands in the training text."""
    ids, outputs = corpus.train.ids, corpus.vocabulary.outputs
    counts = np.zeros(outputs, np.int64)
    for begin in range(0, len(ids), CHUNK):  # the stream may be larger than memory
        counts += np.bincount(ids[begin : begin + CHUNK], minlength=outputs)
    return counts


def model_header(config: Config, vocabulary: Vocabulary, parameters: int) -> dict[str, Any]:
    """What every model file says of itself beside its kind."""
    return {
        "vocabulary": vocabulary.fingerprint,
        "parameters": parameters,
        "regime": config.data.regime,
        "empty_lines": config.data.empty_lines,
    }


def check_size(config: Config, corpus: Corpus) -> None:
    """Raise DataError if the text is too short for one batch of training."""
    options = config.train
    make_batches(config.data.regime, corpus.train, corpus.vocabulary, options.rows, options.bptt, training=True)


def make_network(config: Config, corpus: Corpus) -> Network:
    """The network of a configuration on its device, its weights drawn with the configuration's seed."""
    torch.manual_seed(config.train.seed)
    options = config.model.resolve()
    counts = None if options.head.kind == "softmax" else torch.from_numpy(word_counts(corpus))
    network = networks[config.model.kind](corpus.vocabulary.outputs, options, counts)
    network.bf16 = config.train.precision == "bf16"
    return network.to(device_of(config.train))


def train_network(
    run: RunDir,
    config: Config,
    corpus: Corpus,
    watch: Watch,
    warn: Callable[[Diagnosis], None],
    tensorboard: bool,
    plain: Mapping[str, Any],
    ranks: Ranks,
) -> None:
    """Train the network of a prepared run to its end; plain: every key of the configuration as JSON keeps it."""
    torch.set_num_threads(config.train.threads or 1)
    warnings.filterwarnings("ignore", "RNN module weights are not part")  # cuDNN copies them, which is little work
    network = make_network(config, corpus)
    if config.model.vectors:
        Known.load(run.path / "data").put_into(network, bool(config.model.frozen))
    learner = LanguageLearner(network, corpus, config)
    board = run.path / "tensorboard" if tensorboard else None
    Trainer(learner, run, config.train, watch, warn, board, plain, ranks).fit()
