"""The task: from a configuration to a run that labels words, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ostinato.core.config import build, read_toml
from ostinato.core.errors import DataError
from ostinato.core.progress import Watch
from ostinato.runs import RunDir
from ostinato.tasks.starting import keep_words
from ostinato.tasks.tagging.data import Corpus, labels_of, notes_on, read_parts
from ostinato.tasks.tagging.learner import TaggingLearner, new_network
from ostinato.tasks.tagging.lexicon import made
from ostinato.tasks.tagging.options import Config
from ostinato.tasks.tagging.predict import TaggingPredictor
from ostinato.tasks.tagging.predict import load as load_predictor
from ostinato.tasks.words import open_vectors


class Tagging:
    """Words to labels; see `tasks.task.Task`."""

    def prepare(self, config: Config, folder: Path, watch: Watch) -> Sequence[str]:
        """Read, check and share out the sentences, and keep what the network starts from; notes on both."""
        parts, names, source = read_parts(config.data, watch)
        labels = labels_of(parts["train"], config.data, config.model.scheme, names["train"])
        for part in ("valid", "test"):
            found = {label for sentence in parts.get(part, []) for label in sentence.labels}
            if found and not found & labels.known:
                raise DataError(f"{names[part]}: none of its labels is one of training ({', '.join(labels.names[:9])})")
        notes: Sequence[str] = []
        vectors = open_vectors(config.model.vectors, watch) if config.model.vectors else None
        lexicon = made(config.data, config.model, [sentence.words for sentence in parts["train"]], vectors)
        if vectors is not None:
            tables = {"embedding.weight": (str(config.model.vectors), vectors, lexicon.words)}
            notes = keep_words(folder, tables, config.train.seed, {"embedding": vectors.dimensions})
        corpus = Corpus(parts, names, labels, source, lexicon)
        corpus.save(folder)
        learner = self.learner(config, folder)  # what does not fit is found before the run is made
        if not len(learner.batches(0)):
            raise DataError(
                f"{names['train']}: every sentence has more than train.longest {config.train.longest} words"
            )
        return [*notes_on(corpus, config), *notes]

    def learner(self, config: Config, folder: Path) -> TaggingLearner:
        """What the loop trains."""
        corpus = Corpus.open(folder, ("train", "valid"))
        return TaggingLearner(corpus, new_network(config, corpus, folder), config)

    def load(self, run: RunDir) -> TaggingPredictor:
        """The best model of a run."""
        path = run.path / "config.toml"
        tables = {key: value for key, value in read_toml(path).items() if key != "task"}
        return load_predictor(run, build(Config, tables, str(path)))


TASK = Tagging()
