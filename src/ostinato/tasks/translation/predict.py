"""A trained translator that answers and is judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError
from ostinato.core.files import read_json, write_json
from ostinato.core.progress import Progress, Watch
from ostinato.core.vocabulary import Ids
from ostinato.decode import Hypothesis
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.nn.translator import Translator
from ostinato.runs import RunDir
from ostinato.tasks.arriving import grouped
from ostinato.tasks.task import PredictOptions, Report
from ostinato.tasks.translation.alignment import Alignment, aligned
from ostinato.tasks.translation.answers import Asking, Looked, answers_of, described, looked_at
from ostinato.tasks.translation.data import Corpus, Pair, read_pairs, with_references
from ostinato.tasks.translation.encoding import Encoded
from ostinato.tasks.translation.learner import loss_of
from ostinato.tasks.translation.measures import NAMES, measured, worth
from ostinato.tasks.translation.options import Config
from ostinato.tasks.translation.report import Judged, judge
from ostinato.text.numbered import numbered_lines
from ostinato.text.read import STDIN
from ostinato.text.sources import name_of
from ostinato.train.checkpoint import set_weights

GROUP = 32
"""Batches that are read before they are answered: enough to sort by length."""

TUNED = "tuned.json"
"""In the run: the length penalty that was best on its validation data."""

PENALTIES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0)
"""Length penalties that are tried."""

PATIENCE = 2
"""Length penalties without a gain after which no larger one is tried."""


class Given(NamedTuple):
    """A source: its text, its pieces, and their numbers."""

    text: str
    pieces: list[str]
    ids: Ids


@dataclass(frozen=True)
class Answer:
    """A hypothesis as text, and what it looked at if that was asked for."""

    text: str
    log_prob: float
    alignment: Alignment | None

    def fields(self, options: PredictOptions) -> list[str]:
        """Text, and the log-prob (nats) and the alignment behind it if they were asked for."""
        more = [f"{self.log_prob:.4f}"] if options.scores else []
        return [self.text.replace("\t", " "), *more, *([] if self.alignment is None else [str(self.alignment)])]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        more = {} if self.alignment is None else {"alignment": self.alignment.to_json()}
        return {"answer": self.text, "log_prob": round(self.log_prob, 6), **more}


def distinct(answers: Sequence[Answer]) -> list[Answer]:
    """The answers without those whose text a better one has: other pieces may spell the same."""
    found: dict[str, Answer] = {}
    for answer in answers:
        found.setdefault(answer.text, answer)
    return list(found.values())


NOTHING = Answer("", 0.0, None)
"""What is answered to a source without pieces."""


@dataclass(frozen=True)
class TranslationPredictor:
    """The best network of a run; corpus: how texts are numbered, without pairs."""

    run: RunDir
    config: Config
    corpus: Corpus
    network: EncoderDecoder

    @cached_property
    def exact(self) -> Translator:
        """The network, in float32."""
        return Translator(self.network)

    @cached_property
    def fast(self) -> Translator:
        """The network, its products in bfloat16."""
        return Translator(self.network, bf16=True)

    def translator(self, options: PredictOptions) -> Translator:
        """What searches as these options ask."""
        return self.fast if options.precision == "bf16" else self.exact

    @property
    def length_penalty(self) -> float:
        """The run's own: as configured, as tuned, or 0."""
        if self.config.search.length_penalty is not None:
            return self.config.search.length_penalty
        path = self.run.path / TUNED
        try:
            return float(read_json(path)["length_penalty"]) if path.is_file() else 0.0
        except (KeyError, TypeError, ValueError) as fault:
            raise FormatError(f"{path}: damaged ({fault}); delete it, or tune again") from None

    def asking(self, options: PredictOptions) -> Asking:
        """How sources are answered. Raises ConfigError for more answers than the beam holds."""
        given = options.length_penalty  # what was tuned is read only where it is needed
        return Asking.of(options, self.config.search.beam, self.length_penalty if given is None else given, "answers")

    def predict(self, source: str, options: PredictOptions) -> Iterator[str]:
        """A translation for each line; see `Predictor.predict`.

        nbest: more answers on the line, parted by tabs; fewer where hypotheses are spelled alike. scores: the log-prob
        (nats) behind each. align: behind that, for each word of the answer `source-target`, the places (from 0) of the
        word attention looked at most and of its own; in JSON all weights. Of a line in columns, where the run has
        learnt from such, the source is read. An empty line is answered by an empty line; one of more pieces than
        train.longest is refused.
        """
        options.refuse("translation", "horizon", "session")
        if options.online:
            raise ConfigError(
                "--online: an answer begins when the whole source has been read"
                + (", from both ends" if self.network.options.bidirectional else "")
                + "; leave it out (lines are answered as they come)"
            )
        self._check_attention(options.align)
        return self._lines(source, options, self.asking(options))

    def _check_attention(self, wanted: bool) -> None:
        if wanted and self.network.options.attention == "none":
            raise ConfigError(
                f"{self.run}: a network without attention (model.attention none) looks at no word, so there is no "
                "alignment; leave it out"
            )

    def _lines(self, source: str, options: PredictOptions, asking: Asking) -> Iterator[str]:
        translator = self.translator(options)
        empty = 0
        for group in grouped(self._read(source), GROUP * options.rows, source):
            for given, answers in zip(group, self._answers(translator, group, asking, options.align), strict=True):
                empty += not answers
                found = answers or [NOTHING]
                if options.json:
                    nbest = {"nbest": [answer.to_json() for answer in found]} if options.nbest > 1 else {}
                    content = {"source": given.text, **found[0].to_json(), **nbest}
                    yield json.dumps(content, ensure_ascii=False)
                else:
                    yield "\t".join(field for answer in found for field in answer.fields(options))
        if empty:
            options.say(f"lines without anything to translate, which are answered by empty ones: {empty:,}")

    def _read(self, source: str) -> Iterator[Given]:
        """The sources of a file. Raises DataError, with file and line, for one that is too long."""
        name = "standard input" if source == STDIN else source
        column = None if self.config.data.in_pairs(self.config.data.train) else self.config.data.columns[0]
        for line in numbered_lines(source):
            fields = line.text.split("\t")
            text = fields[column] if column is not None and -len(fields) <= column < len(fields) else line.text
            yield self.given(text, f"{name}:{line.number}")

    def given(self, text: str, where: str) -> Given:
        """A source as numbers. Raises DataError if it is too long."""
        pieces, longest = self.corpus.source.pieces(text), self.config.train.longest
        if len(pieces) > longest:
            raise DataError(
                f"{where}: {len(pieces):,} pieces, but this run has learnt from sources of up to {longest:,} "
                "(train.longest); break it up"
            )
        return Given(text, pieces, self.corpus.source.vocabulary.ids(pieces))

    def _answers(
        self, translator: Translator, group: Sequence[Given], asking: Asking, align: bool
    ) -> list[list[Answer]]:
        """The answers to each source, best first; none to one without pieces."""
        found = answers_of(translator, [given.ids for given in group], self.corpus, asking)
        flat = [(given, one) for given, several in zip(group, found, strict=True) for one in several]
        unknown = self.corpus.target.vocabulary.unknown
        copies = self.config.model.copy_unknown
        asked = [place for place, (_, one) in enumerate(flat) if align or (copies and unknown in one.tokens)]
        sources, hypotheses = [flat[place][0].ids for place in asked], [flat[place][1] for place in asked]
        looked = dict(zip(asked, looked_at(translator, sources, hypotheses, self.corpus, asking), strict=True))
        answers = iter([self._answer(*pair, looked.get(place), align) for place, pair in enumerate(flat)])
        return [distinct([next(answers) for _ in several]) for several in found]

    def _answer(self, given: Given, one: Hypothesis, looked: Looked | None, align: bool) -> Answer:
        side = self.corpus.target
        pieces = side.vocabulary.pieces_of(one.tokens)
        if looked is not None and self.config.model.copy_unknown:
            pieces = [
                given.pieces[place] if token == side.vocabulary.unknown else piece
                for piece, token, place in zip(pieces, one.tokens, looked.places(len(pieces)), strict=True)
            ]
        alignment = None
        if align and looked is not None:
            alignment = aligned(self.corpus.source, side, given.pieces, pieces, looked)
        return Answer(side.text(pieces), one.log_prob, alignment)

    def hypotheses(self, text: str, options: PredictOptions) -> list[Answer]:
        """The answers to a text, best first: `nbest`, or fewer where some are spelled alike; none to an empty text.

        Raises ConfigError as `predict` does, DataError for a text that is too long.
        """
        self._check_attention(options.align)
        given = self.given(text, "text")
        return self._answers(self.translator(options), [given], self.asking(options), options.align)[0]

    def translate(self, texts: Sequence[str], options: PredictOptions | None = None) -> list[Answer]:
        """The best answer to each text."""
        chosen = options or PredictOptions()
        self._check_attention(chosen.align)
        group = [self.given(text, f"text {number}") for number, text in enumerate(texts, 1)]
        translator = self.translator(chosen)
        found = self._answers(translator, group, replace(self.asking(chosen), nbest=1), chosen.align)
        return [answers[0] if answers else NOTHING for answers in found]

    def look(self, text: str) -> Alignment:
        """What the best answer to a text looks at. Raises ConfigError without attention, DataError for no text."""
        (answer,) = self.translate([text], PredictOptions(align=True))
        if answer.alignment is None or not answer.alignment.target:
            raise DataError("there is no attention to draw, since the text or its answer is empty; give a sentence")
        return answer.alignment

    def evaluate(self, sources: Sequence[str], watch: Watch) -> Report:
        """The report on files with targets; without sources on the run's test data, or else its validation data."""
        corpus = Corpus.open(self.run.path / "data")
        if sources:
            read = read_pairs(self.config.data, sources, watch).pairs
            pairs, name = with_references(self.config.data, read, sources), name_of(sources)
        else:
            part = "test" if "test" in corpus.parts else "valid"
            pairs, name = corpus.parts[part], corpus.names[part]
        options = PredictOptions()
        asking = self.asking(options)
        answers = self._judged(pairs, asking, watch)
        asked = "greedy" if asking.beam == 1 else f"beam{asking.beam}+penalty{asking.length_penalty:g}"
        texts, log_probs = [answer.text for answer in answers], [answer.log_prob for answer in answers]
        nats = loss_of(self.network, Encoded(corpus, pairs), asking)
        return judge(Judged(self.config, corpus, pairs, texts, log_probs, asked), name, nats)

    def _judged(self, pairs: Sequence[Pair], asking: Asking, watch: Watch) -> list[Answer]:
        """The best answer to each pair's source; what is longer than train.longest is answered too."""
        answers: list[Answer] = []
        step = GROUP * asking.rows
        for begin in range(0, len(pairs), step):
            watch(Progress("translate", begin, begin / len(pairs)))
            pieces = [self.corpus.source.pieces(pair.source) for pair in pairs[begin : begin + step]]
            group = [Given("", row, self.corpus.source.vocabulary.ids(row)) for row in pieces]
            answers += [found[0] if found else NOTHING for found in self._answers(self.exact, group, asking, False)]
        return answers

    def tune(self, watch: Watch) -> str:
        """Find the length penalty that is best on the run's validation data and keep it in the run; what was found.

        Raises ConfigError where search.length_penalty is configured, or for a beam of 1.
        """
        if self.config.search.length_penalty is not None or self.config.search.beam == 1:
            raise ConfigError(
                f"{self.run}: nothing to tune, since search.length_penalty is configured or search.beam is 1"
            )
        pairs = Corpus.open(self.run.path / "data", ("valid",)).parts["valid"]
        values: dict[float, float] = {}
        for penalty in PENALTIES:
            asking = self.asking(PredictOptions(length_penalty=penalty))
            answers = [answer.text for answer in self._judged(pairs, asking, watch)]
            values[penalty] = measured(self.config, self.corpus, pairs, answers)
            best = min(values, key=lambda one: (worth(self.config.measure, values[one]), one))
            if PENALTIES.index(penalty) - PENALTIES.index(best) >= PATIENCE:
                break
        found = {str(one): round(value, 4) for one, value in values.items()}
        content = {"length_penalty": best, "beam": self.config.search.beam, "measure": self.config.measure}
        write_json(self.run.path / TUNED, {**content, "valid": found})
        shown = ", ".join(f"{one:g}: {value:.2f}" for one, value in values.items())
        measure = NAMES[self.config.measure]
        return f"length penalty {best:g} is best on the validation data ({measure} {shown}); kept in {self.run}/{TUNED}"


def load(run: RunDir, config: Config) -> TranslationPredictor:
    """What answers for a run. Raises FormatError if it is damaged, MismatchError if its parts do not fit."""
    corpus = Corpus.open(run.path / "data", parts=())
    arrays, about = run.load_model()
    where = f"{run}/model.safetensors"
    if about.get("vocabularies") != corpus.fingerprints:
        raise MismatchError(
            f"{where}: made for vocabularies {about.get('vocabularies')}, but the data of the run has "
            f"{corpus.fingerprints}; restore the file or train again"
        )
    try:
        network = described(about, corpus, where)
    except (KeyError, TypeError) as fault:
        raise FormatError(
            f"{where}: the header is not that of a translator ({fault}); restore it or train again"
        ) from None
    set_weights(network, arrays, where)
    return TranslationPredictor(run, config, corpus, network.eval())
