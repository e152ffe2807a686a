"""The task: from a configuration to a run that translates, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ostinato.core.config import build, read_toml
from ostinato.core.errors import DataError
from ostinato.core.progress import Watch
from ostinato.runs import RunDir
from ostinato.tasks.starting import keep_words_of_size
from ostinato.tasks.translation.data import Corpus, made_corpus, notes_on
from ostinato.tasks.translation.encoding import Encoded
from ostinato.tasks.translation.learner import TranslationLearner, new_network
from ostinato.tasks.translation.options import Config
from ostinato.tasks.translation.predict import TranslationPredictor
from ostinato.tasks.translation.predict import load as load_predictor


class Translation:
    """Sources to targets; see `tasks.task.Task`."""

    def prepare(self, config: Config, folder: Path, watch: Watch) -> Sequence[str]:
        """Read, check and share out the pairs; notes on them."""
        corpus, notes = made_corpus(config.data, watch)
        corpus.save(folder)
        begun = {
            "encoder.embedding.weight": (config.model.vectors, corpus.source.vocabulary),
            "decoder.embedding.weight": (config.model.target_vectors, corpus.target.vocabulary),
        }
        notes = [*notes, *keep_words_of_size(folder, begun, config.model.embedding, config.train.seed, watch)]
        learner = self.learner(config, folder)  # what does not fit is found before the run is made
        if not len(learner.batches(0)):
            raise DataError(
                f"{corpus.names['train']}: every pair has a side of more than train.longest {config.train.longest} "
                "pieces"
            )
        long = int((learner.lengths.max(axis=1) > config.train.longest).sum())
        return [*notes_on(corpus, config, long), *notes]

    def learner(self, config: Config, folder: Path) -> TranslationLearner:
        """What the loop trains."""
        corpus = Corpus.open(folder, ("train", "valid"))
        train = Encoded(corpus, corpus.parts["train"])
        return TranslationLearner(corpus, new_network(config, corpus, train, folder), config, train)

    def load(self, run: RunDir) -> TranslationPredictor:
        """The best model of a run."""
        path = run.path / "config.toml"
        tables = {key: value for key, value in read_toml(path).items() if key != "task"}
        return load_predictor(run, build(Config, tables, str(path)))


TASK = Translation()
