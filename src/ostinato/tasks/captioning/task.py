"""The task: from a configuration to a run that describes, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ostinato.core.config import build, read_toml
from ostinato.core.errors import ConfigError, DataError
from ostinato.core.progress import Watch
from ostinato.runs import RunDir
from ostinato.tasks.captioning.data import Corpus, made_corpus, notes_on
from ostinato.tasks.captioning.encoding import Encoded
from ostinato.tasks.captioning.learner import CaptionLearner, new_network
from ostinato.tasks.captioning.options import Config
from ostinato.tasks.captioning.predict import CaptionPredictor
from ostinato.tasks.captioning.predict import load as load_predictor
from ostinato.tasks.starting import keep_words_of_size


class Captioning:
    """Pictures or features to captions; see `tasks.task.Task`."""

    def prepare(self, config: Config, folder: Path, watch: Watch) -> Sequence[str]:
        """Read, check and share out the items; notes on them."""
        corpus = made_corpus(config.data, watch)
        if config.train.measure == "bleu" and too_short(corpus):
            raise ConfigError(
                f"{corpus.names['valid']}: train.measure bleu is 0 for captions of fewer than four words, and all are; "
                "set it to exact"
            )
        corpus.save(folder)
        begun = {"decoder.embedding.weight": (config.model.vectors, corpus.target.vocabulary)}
        notes = keep_words_of_size(folder, begun, config.model.embedding, config.train.seed, watch)
        learner = self.learner(config, folder)  # what does not fit is found before the run is made
        if not len(learner.batches(0)):
            raise DataError(
                f"{corpus.names['train']}: every caption has more than train.longest {config.train.longest} pieces"
            )
        return [*notes_on(corpus, config, int((learner.lengths > config.train.longest).sum())), *notes]

    def learner(self, config: Config, folder: Path) -> CaptionLearner:
        """What the loop trains."""
        corpus = Corpus.open(folder, ("train", "valid"))
        train = Encoded(corpus.parts["train"], corpus.target)
        return CaptionLearner(corpus, new_network(config, corpus, train, folder), config, train)

    def load(self, run: RunDir) -> CaptionPredictor:
        """The best model of a run."""
        path = run.path / "config.toml"
        tables = {key: value for key, value in read_toml(path).items() if key != "task"}
        return load_predictor(run, build(Config, tables, str(path)))


def too_short(corpus: Corpus) -> bool:
    """Whether no validation caption has four symbols in a row, which BLEU asks for."""
    texts = [text for item in corpus.parts["valid"].items for text in item.targets]
    return all(len(corpus.target.symbols(text)) < 4 for text in texts)


TASK = Captioning()
