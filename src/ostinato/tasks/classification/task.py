"""The task: from a configuration to a run that classifies, and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ostinato.core.config import build, read_toml
from ostinato.core.errors import DataError
from ostinato.core.progress import Watch
from ostinato.core.vocabulary import Vocabulary
from ostinato.runs import RunDir
from ostinato.tasks.classification.data import Corpus, forms, labels_of, made_pieces, notes_on, read_parts
from ostinato.tasks.classification.encoding import pieces_of
from ostinato.tasks.classification.learner import ClassificationLearner, new_network
from ostinato.tasks.classification.options import Config
from ostinato.tasks.classification.predict import ClassificationPredictor
from ostinato.tasks.classification.predict import load as load_predictor
from ostinato.tasks.starting import keep, keep_words, layers_of, open_language_model
from ostinato.tasks.words import extended, open_vectors
from ostinato.text.pipeline import Pipeline


class Classification:
    """Texts to labels; see `tasks.task.Task`."""

    def prepare(self, config: Config, folder: Path, watch: Watch) -> Sequence[str]:
        """Read, check and share out the examples, and keep what the network starts from; notes on both."""
        parts, names = read_parts(config.data, watch)
        labels = labels_of(parts["train"], names["train"])
        for part in ("valid", "test"):
            if part in parts and not {example.label for example in parts[part]}.intersection(labels):
                raise DataError(f"{names[part]}: none of its labels is one of training ({', '.join(labels[:9])})")
        pipeline, vocabulary, notes = begin(config, [example.text for example in parts["train"]], folder, watch)
        form = forms(config.data, config.data.train[:1])[0]
        corpus = Corpus(parts, names, labels, form, pipeline, vocabulary)
        corpus.save(folder)
        learner = self.learner(config, folder)  # what does not fit is found before the run is made
        if not len(learner.batches(0)):
            raise DataError(f"{names['train']}: every text has more than train.longest {config.train.longest} tokens")
        return [*notes_on(corpus, config.data, config.train.longest), *notes]

    def learner(self, config: Config, folder: Path) -> ClassificationLearner:
        """What the loop trains."""
        corpus = Corpus.open(folder, ("train", "valid"))
        return ClassificationLearner(corpus, new_network(config, corpus, folder), config)

    def load(self, run: RunDir) -> ClassificationPredictor:
        """The best model of a run."""
        path = run.path / "config.toml"
        tables = {key: value for key, value in read_toml(path).items() if key != "task"}
        return load_predictor(run, build(Config, tables, str(path)))


def begin(config: Config, texts: Sequence[str], folder: Path, watch: Watch) -> tuple[Pipeline, Vocabulary, list[str]]:
    """How texts are cut and numbered, and notes; what the network starts from is kept in the run's data folder."""
    if config.model.from_run:
        source = config.model.from_run
        config.data.refuse_pieces(source)
        loaded = open_language_model(source)
        arrays, taken = layers_of(loaded)
        keep(folder, arrays, source, taken)
        return loaded.pipeline, loaded.vocabulary, [_known(loaded.pipeline, loaded.vocabulary, texts, source)]
    pipeline, vocabulary = made_pieces(config.data, texts)
    if not config.model.vectors:
        return pipeline, vocabulary, []
    vectors = open_vectors(config.model.vectors, watch)
    vocabulary = extended(vocabulary, vectors, config.model.more_words)
    tables = {"embedding.weight": (config.model.vectors, vectors, vocabulary)}
    return pipeline, vocabulary, keep_words(folder, tables, config.train.seed, {"embedding": vectors.dimensions})


def _known(pipeline: Pipeline, vocabulary: Vocabulary, texts: Sequence[str], source: str) -> str:
    """How much of the training texts a language model knows. Raises DataError if that is nothing."""
    pieces = [piece for text in texts for piece in pieces_of(pipeline, text)]
    known = sum(piece in vocabulary for piece in pieces)
    if not known:
        raise DataError(f"{source}: knows none of the words of the training texts; start from a model of this language")
    return f"{source}: knows {known / len(pieces):.1%} of the {pipeline.unit}s of the training texts"


TASK = Classification()
