"""A trained tagger that answers and is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ostinato.core.errors import ConfigError, FormatError, MismatchError
from ostinato.core.progress import Watch
from ostinato.core.vocabulary import STOP
from ostinato.nn.tagger import Tagger
from ostinato.runs import RunDir
from ostinato.tasks.arriving import grouped
from ostinato.tasks.tagging.answers import Answer, Asking, answered, described
from ostinato.tasks.tagging.data import Corpus
from ostinato.tasks.tagging.online import Online
from ostinato.tasks.tagging.options import Config
from ostinato.tasks.tagging.reading import read_tagged
from ostinato.tasks.tagging.report import Judged, judge
from ostinato.tasks.tagging.written import as_json, items
from ostinato.tasks.task import PredictOptions, Report
from ostinato.text.sources import name_of
from ostinato.train.checkpoint import set_weights

GROUP = 64
"""Batches that are read before they are answered: enough to sort by length and to spell each word once."""


@dataclass(frozen=True)
class TaggingPredictor:
    """The best network of a run; corpus: how words and labels are numbered, without sentences."""

    run: RunDir
    config: Config
    corpus: Corpus
    network: Tagger

    def predict(self, source: str, options: PredictOptions) -> Iterator[str]:
        """The sentences of a file with their labels; see `Predictor.predict`.

        Columns come with the labels in their column, plain text that is to be cut with blanks between words. scores:
        the log-prob of each label, in a column of its own (CoNLL-U: in MISC), or of the whole line after a tab. align:
        the probabilities of labels. nbest: the best labellings of each sentence, in JSON. Online: plain text in, a
        line for each word. A sentence of more words than train.longest is labelled in parts.
        """
        options.refuse("tagging", "beam", "length_penalty", "precision", "horizon", "session")
        if options.online:
            options.refuse("answering online", "nbest", "align", "rows", "tokens")
            return self._online(Online(self.network, self.corpus), source, options)
        if options.nbest > 1 and not options.json:
            raise ConfigError("--nbest gives several labels for each word, which have no place in columns; add --json")
        return self._whole(source, options)

    def _whole(self, source: str, options: PredictOptions) -> Iterator[str]:
        asking = Asking(options.rows, options.tokens, options.scores or options.align, options.nbest)
        for group in grouped(items(self.corpus.source, source), GROUP * options.rows, source):
            for item, answer in zip(group, self.answers([item.words for item in group], asking), strict=True):
                if not options.json:
                    yield item.columns(answer, self.corpus.labels, options)
                elif (content := item.told(answer, self.corpus.labels, options)) is not None:
                    yield as_json(content)

    def answers(self, sentences: Sequence[Sequence[str]], asking: Asking) -> list[Answer]:
        """What the network says of sentences of words (of characters, where text is cut)."""
        return answered(self.network, self.corpus.lexicon, sentences, asking, self.config.train.longest)

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A label for each word of each sentence (for each character, where text is cut)."""
        found = self.answers(sentences, Asking(PredictOptions().rows, PredictOptions().tokens))
        return [self.corpus.labels.answers(answer.labels.tolist()) for answer in found]

    def evaluate(self, sources: Sequence[str], watch: Watch) -> Report:
        """The report on files with labels; without sources on the run's test data, or else its validation data."""
        corpus = Corpus.open(self.run.path / "data")
        if sources:
            sentences, name = read_tagged(corpus.source, list(sources), watch), name_of(sources)
        else:
            part = "test" if "test" in corpus.parts else "valid"
            sentences, name = corpus.parts[part], corpus.names[part]
        asking = Asking(PredictOptions().rows, PredictOptions().tokens)
        answers = self.answers([sentence.words for sentence in sentences], asking)
        return judge(Judged.of(corpus, sentences, answers), name)

    def _online(self, tagger: Online, source: str, options: PredictOptions) -> Iterator[str]:
        """A line for each word as it becomes certain, an empty one (none in JSON) where a sentence ends."""
        state = tagger.start
        for word in tagger.words(source):
            if word == STOP:
                state = tagger.start
                if not options.json:
                    yield ""
                continue
            label, log_probs, state = tagger.step(state, word)
            score = float(log_probs[int(state.label)])
            if options.json:
                yield as_json({"word": word, "label": label, "log_prob": round(score, 6)})
            else:
                yield "\t".join([word, label, *([f"{score:.4f}"] if options.scores else [])])


def load(run: RunDir, config: Config) -> TaggingPredictor:
    """What answers for a run. Raises FormatError if it is damaged, MismatchError if its parts do not fit."""
    corpus = Corpus.open(run.path / "data", parts=())
    arrays, about = run.load_model()
    where = f"{run}/model.safetensors"
    labels, lexicon = list(corpus.labels.names), corpus.lexicon.fingerprint
    if about.get("lexicon") != lexicon or about.get("labels") != labels:
        raise MismatchError(
            f"{where}: made for lexicon {about.get('lexicon')} and labels {about.get('labels')}, but the data of "
            f"the run has {lexicon} and {labels}; restore the file or train again"
        )
    try:
        network = described(about, corpus, where)
    except (KeyError, TypeError) as fault:
        raise FormatError(f"{where}: the header is not that of a tagger ({fault}); restore it or train again") from None
    set_weights(network, arrays, where)
    return TaggingPredictor(run, config, corpus, network.eval())
