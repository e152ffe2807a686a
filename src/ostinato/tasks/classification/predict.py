"""A trained classifier that answers and is judged."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import FormatError, MismatchError
from ostinato.core.progress import Watch
from ostinato.core.vocabulary import STOP, LogProbs
from ostinato.embed.subwords import Subwords
from ostinato.nn.classifier import Classifier
from ostinato.nn.lm import evaluating
from ostinato.runs import RunDir
from ostinato.tasks.arriving import grouped
from ostinato.tasks.classification.answers import described, judged
from ostinato.tasks.classification.data import Corpus, Labelled, read_labelled
from ostinato.tasks.classification.encoding import Encoded, Encoder
from ostinato.tasks.classification.options import Config
from ostinato.tasks.classification.report import judge
from ostinato.tasks.task import PredictOptions, Report
from ostinato.tasks.words import bare
from ostinato.text.labelled import Example, LabelledReader, found_input
from ostinato.text.read import STDIN, LineReader
from ostinato.text.sources import name_of
from ostinato.train.checkpoint import set_weights

GROUP = 64
"""Batches that are read before they are answered: enough to sort by length."""


@dataclass(frozen=True)
class ClassificationPredictor:
    """The best network of a run; corpus: how texts and labels are numbered, without examples."""

    run: RunDir
    config: Config
    corpus: Corpus
    network: Classifier
    subwords: Subwords | None

    @cached_property
    def encoder(self) -> Encoder:
        """How texts become numbers."""
        return self.corpus.encoder(self.subwords)

    def predict(self, source: str, options: PredictOptions) -> Iterator[str]:
        """A label for each text; see `Predictor.predict`.

        Without more it is the line with its label; with nbest or scores, labels (and log-probs) parted by tabs; with
        align, words and the weights attention gives them after those. Online: a line for each word, with the label of
        all words so far.
        """
        options.refuse("classification", "beam", "length_penalty", "precision", "horizon", "session")
        if options.online:
            options.refuse("answering online", "align", "rows", "tokens")
            self.network.init_state(1)  # says why if it cannot
            return self._online(source, options)
        return self._whole(source, options)

    def _whole(self, source: str, options: PredictOptions) -> Iterator[str]:
        form = found_input(source, self.corpus.form, self.corpus.labels)
        reader = LabelledReader(source, form, labelled=False)
        plain = options.nbest == 1 and not (options.scores or options.align or options.json)
        for group in grouped(reader, GROUP * options.rows, source):
            if plain and reader.header is not None:
                yield reader.header
                reader.header = None
            texts = self.encoder.texts(example.text for example in group)
            log_probs, weights = judged(self.network, texts, options.rows, options.tokens, options.align)
            for place, example in enumerate(group):
                best = self.best(log_probs[place], options.nbest)
                if plain:
                    yield example.with_label(best[0][0])
                else:
                    looked = self._looked(example.text, weights[place]) if options.align else None
                    yield self._shown(example, best, looked, options)

    def best(self, log_probs: LogProbs, most: int) -> list[tuple[str, float]]:
        """The labels with the highest log-probs [labels] and these, best first."""
        places = np.argsort(-log_probs, kind="stable")[:most]
        return [(self.corpus.labels[place], float(log_probs[place])) for place in places.tolist()]

    def _looked(self, text: str, weights: NDArray[np.float32]) -> list[tuple[str, float]]:
        names = [self.corpus.vocabulary.pieces[self.corpus.vocabulary.start], *map(bare, self.corpus.pieces(text))]
        return [(name, round(float(weight), 4)) for name, weight in zip(names, weights, strict=True)]

    def _shown(
        self,
        example: Example,
        best: Sequence[tuple[str, float]],
        looked: Sequence[tuple[str, float]] | None,
        options: PredictOptions,
    ) -> str:
        if options.json:
            more: dict[str, Any] = {} if looked is None else {"weights": looked}
            given = {} if example.label is None else {"given": example.label}
            return _json({"text": example.text, **given, **_answer(best, options), **more})
        words = [] if looked is None else [" ".join(f"{name}={weight:.4f}" for name, weight in looked)]
        return "\t".join([*_fields(best, options), *words])

    def evaluate(self, sources: Sequence[str], watch: Watch) -> Report:
        """The report on files with labels; without sources on the run's test data, or else its validation data."""
        corpus = Corpus.open(self.run.path / "data")
        if sources:
            examples, name = read_labelled(self.config.data, list(sources), watch), name_of(sources)
        else:
            part = "test" if "test" in corpus.parts else "valid"
            examples, name = corpus.parts[part], corpus.names[part]
        return judge(corpus, examples, self.log_probs(examples), name)

    def log_probs(self, examples: Sequence[Labelled]) -> LogProbs:
        """Log-probs [N, labels] (nats) of examples."""
        texts = self.encoder.texts(example.text for example in examples)
        return judged(self.network, texts, PredictOptions().rows, PredictOptions().tokens)[0]

    def _online(self, source: str, options: PredictOptions) -> Iterator[str]:
        """A line for each word as it becomes certain, an empty one (none in JSON) where a text ends."""
        start = self._read(self.network.init_state(1), self.encoder.pieces([[]]))[1]
        state = start
        for piece in self._arriving(source):
            if piece == STOP:
                state = start
                if not options.json:
                    yield ""
                continue
            log_probs, state = self._read(state, self.encoder.pieces([[piece]], begun=True))
            best = self.best(log_probs, options.nbest)
            if options.json:
                yield _json({"word": bare(piece), **_answer(best, options)})
            else:
                yield "\t".join([bare(piece), *_fields(best, options)])

    def _read(self, state: Any, text: Encoded) -> tuple[LogProbs, Any]:
        """Log-probs [labels] once a text of one id has been read after a state, and the state then."""
        ids, _, grams = text.batch(np.zeros(1, np.int64), self.network.output.weight.device)
        one = None if grams is None else grams._replace(places=grams.places[:, 0])
        with evaluating(self.network):
            log_probs, after = self.network.step(state, ids[:, 0], one)
        row: LogProbs = log_probs[0].float().cpu().numpy()
        return row, after

    def _arriving(self, source: str) -> Iterator[str]:
        """The pieces of plain lines, `</s>` where one ends, as soon as they are certain."""
        reader, last = self.corpus.pipeline.reader(), STOP
        for data in chain(_bytes(source), [None]):
            for last in reader.end() if data is None else reader.feed(data):
                yield last
        if last != STOP:
            yield STOP


def _bytes(source: str) -> Iterator[bytes]:
    """The bytes of a text as they arrive; of a file, whole lines."""
    if source == STDIN:
        stdin = cast(io.BufferedReader, sys.stdin.buffer)
        while data := stdin.read1(1 << 16):
            yield data
        return
    for chunk, _ in LineReader(source, "keep").chunks(1 << 16):
        yield chunk + b"\n"


def _fields(best: Sequence[tuple[str, float]], options: PredictOptions) -> list[str]:
    """Labels, and with `scores` the log-prob after each."""
    return [field for label, score in best for field in ([label, f"{score:.4f}"] if options.scores else [label])]


def _answer(best: Sequence[tuple[str, float]], options: PredictOptions) -> dict[str, Any]:
    """The best label and its log-prob (nats), and with `nbest` those of others."""
    answer: dict[str, Any] = {"label": best[0][0], "log_prob": round(best[0][1], 6)}
    if options.nbest > 1:
        answer["nbest"] = [{"label": label, "log_prob": round(score, 6)} for label, score in best]
    return answer


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False)


def load(run: RunDir, config: Config) -> ClassificationPredictor:
    """What answers for a run. Raises FormatError if it is damaged, MismatchError if its parts do not fit."""
    corpus = Corpus.open(run.path / "data", parts=())
    arrays, about = run.load_model()
    where = f"{run}/model.safetensors"
    if about.get("vocabulary") != corpus.vocabulary.fingerprint or about.get("labels") != list(corpus.labels):
        raise MismatchError(
            f"{where}: made for vocabulary {about.get('vocabulary')} and labels {about.get('labels')}, but the data of "
            f"the run has {corpus.vocabulary.fingerprint} and {list(corpus.labels)}; restore the file or train again"
        )
    try:
        network, subwords = described(about, corpus, where)
    except KeyError as fault:
        raise FormatError(f"{where}: the header lacks {fault}; restore it or train again") from None
    set_weights(network, arrays, where)
    return ClassificationPredictor(run, config, corpus, network.eval(), subwords)
