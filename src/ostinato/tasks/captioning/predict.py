"""A trained captioner that describes and is judged."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from typing import Any

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError
from ostinato.core.progress import Progress, Watch
from ostinato.decode import Hypothesis
from ostinato.nn.captioner import Captioner, CaptionNetwork, check_shape
from ostinato.runs import RunDir
from ostinato.tasks.arriving import grouped
from ostinato.tasks.captioning.answers import captions_of, described, looked_at
from ostinato.tasks.captioning.data import Corpus, Part, read_part
from ostinato.tasks.captioning.encoding import Encoded
from ostinato.tasks.captioning.learner import loss_of
from ostinato.tasks.captioning.options import Config, DataOptions
from ostinato.tasks.captioning.report import judge
from ostinato.tasks.captioning.seen import Looking, seen_of
from ostinato.tasks.captioning.sources import Given, open_source
from ostinato.tasks.task import PredictOptions, Report
from ostinato.tasks.translation.alignment import Alignment, averaged
from ostinato.tasks.translation.answers import Asking
from ostinato.tasks.translation.predict import Answer, distinct
from ostinato.text.sources import name_of
from ostinato.train.checkpoint import set_weights


@dataclass(frozen=True)
class CaptionPredictor:
    """The best network of a run; corpus: how captions are numbered, without items."""

    run: RunDir
    config: Config
    corpus: Corpus
    network: CaptionNetwork

    @cached_property
    def exact(self) -> Captioner:
        """The network, in float32."""
        return Captioner(self.network)

    @cached_property
    def fast(self) -> Captioner:
        """The network, its products in bfloat16."""
        return Captioner(self.network, bf16=True)

    def asking(self, options: PredictOptions) -> Asking:
        """How captions are searched for. Raises ConfigError for more captions than the beam holds."""
        return Asking.of(options, self.config.search.beam, self.config.search.length_penalty, "captions")

    def predict(self, source: str, options: PredictOptions) -> Iterator[str]:
        """A caption for each picture; see `Predictor.predict`.

        source: a .npz file, a picture, a folder of pictures (by name), lines FILE or FILE<TAB>CAPTION; - is such lines
        on standard input. A picture in a file of its own is named before its caption, a tab between. nbest: more
        captions on the line, parted by tabs; fewer where some are spelled alike. scores: the log-prob (nats) behind
        each. align: behind that, for each word `place-word`, the place (from 0) attention looked at most and its own;
        in JSON all weights.
        """
        options.refuse("captioning", "online", "tokens", "horizon", "session")
        if options.align:
            self._check_attention()
        opened = open_source(source, self._as_learnt(), captioned=False)
        return self._lines(opened.items, source, options, self.asking(options))

    def _as_learnt(self) -> DataOptions:
        """How files of pictures are read: in shades of grey, if the model has learnt from such."""
        data = self.config.data
        return replace(data, colour=False) if self.corpus.shape[-1] == 1 and data.colour else data

    def _check_attention(self) -> None:
        if self.network.options.attention == "none":
            raise ConfigError(
                f"{self.run}: a network without attention (model.attention none) looks at no place of a picture, so "
                "there is nothing to show; leave it out"
            )

    def _lines(self, items: Iterator[Given], source: str, options: PredictOptions, asking: Asking) -> Iterator[str]:
        captioner = self.fast if options.precision == "bf16" else self.exact
        for group in grouped(items, options.rows, source):
            self._check(group)
            for given, found in zip(group, self._answers(captioner, group, asking, options.align), strict=True):
                if options.json:
                    nbest = {"nbest": [answer.to_json() for answer in found]} if options.nbest > 1 else {}
                    yield json.dumps(
                        {"picture": given.file or given.where, **found[0].to_json(), **nbest}, ensure_ascii=False
                    )
                else:
                    fields = [field for answer in found for field in answer.fields(options)]
                    yield "\t".join(fields if given.file is None else [given.file, *fields])

    def _check(self, group: Sequence[Given]) -> None:
        """Raise MismatchError, naming it, for a picture of another shape than the training data's."""
        for given in group:
            try:
                check_shape(given.picture.shape, self.corpus.shape)
            except MismatchError as fault:
                raise MismatchError(f"{given.where}: {fault}") from None

    def _answers(self, captioner: Captioner, group: Sequence[Given], asking: Asking, align: bool) -> list[list[Answer]]:
        """The captions of each picture, best first."""
        pictures = [given.picture for given in group]
        found = captions_of(captioner, pictures, self.corpus, asking)
        flat = [(picture, one) for picture, several in zip(pictures, found, strict=True) for one in several]
        looked: list[Any] = [None] * len(flat)
        if align:
            sources, captions = [picture for picture, _ in flat], [one for _, one in flat]
            looked = list(looked_at(captioner, sources, captions, self.corpus, asking.rows))
        answers = iter([self._answer(one, seen and seen.weights) for (_, one), seen in zip(flat, looked, strict=True)])
        return [distinct([next(answers) for _ in several]) for several in found]

    def _answer(self, one: Hypothesis, weights: Any) -> Answer:
        side = self.corpus.target
        pieces = side.vocabulary.pieces_of(one.tokens)
        alignment = None
        if weights is not None:
            across = self.place_names(weights.shape[1])
            alignment = averaged(side, pieces, across, weights[: len(pieces)])
        return Answer(side.text(pieces), one.log_prob, alignment)

    @property
    def layout(self) -> tuple[int, int] | None:
        """Rows and columns of the places that are looked at, None where they do not lie in a plane."""
        return self.network.encoder.layout or self.corpus.layout

    def place_names(self, count: int) -> list[str]:
        """What so many places are called: row and column from 1, or a number."""
        layout = self.layout
        if layout is None or layout[0] * layout[1] != count:
            return [str(place) for place in range(1, count + 1)]
        return [f"{row},{column}" for row in range(1, layout[0] + 1) for column in range(1, layout[1] + 1)]

    def look(self, text: str) -> Alignment | Looking:
        """What the best caption of an item looks at.

        text: a number (from 1) of the run's test data, or else its validation data; FILE.npz:NUMBER; or a picture.
        Raises ConfigError without attention, DataError if there is no such item.
        """
        self._check_attention()
        given = self._item(text)
        self._check([given])
        ((answer, *_),) = self._answers(self.exact, [given], self.asking(PredictOptions()), True)
        if answer.alignment is None or not answer.alignment.target:
            raise DataError(f"{text}: the caption is empty, so there is nothing to draw; take another item")
        return seen_of(given.picture, answer.alignment, self.layout)

    def _item(self, text: str) -> Given:
        file, _, number = text.rpartition(":")
        if text.isascii() and text.isdigit():
            part, name = self._own_part(Corpus.open(self.run.path / "data"))
            if not 1 <= int(text) <= len(part):
                raise DataError(f"item {text}: {name} has items 1 to {len(part):,}")
            return Given(part.picture(int(text) - 1), (), f"{name}:{text}", None)
        if file.endswith(".npz") and number.isascii() and number.isdigit() and int(number) > 0:
            items = open_source(file, self.config.data, captioned=False).items
            found = next(islice(items, int(number) - 1, None), None)
        else:
            found = next(open_source(text, self.config.data, captioned=False).items, None)
        if found is None:
            raise DataError(f"{text}: there is no such item")
        return found

    def _own_part(self, corpus: Corpus) -> tuple[Part, str]:
        """The run's test data, or else its validation data, and its name."""
        part = "test" if "test" in corpus.parts else "valid"
        return corpus.parts[part], corpus.names[part]

    def evaluate(self, sources: Sequence[str], watch: Watch) -> Report:
        """The report on files with captions; without sources on the run's test data, or else its validation data."""
        if sources:
            (part, _), name = read_part(sources, self.config.data, watch), name_of(sources)
        else:
            part, name = self._own_part(Corpus.open(self.run.path / "data"))
        asking = self.asking(PredictOptions())
        answers: list[Answer] = []
        for begin in range(0, len(part), asking.rows):
            watch(Progress("describe", begin, begin / len(part)))
            places = range(begin, min(begin + asking.rows, len(part)))
            group = [Given(part.picture(place), (), part.items[place].where, None) for place in places]
            self._check(group)
            answers += [found[0] for found in self._answers(self.exact, group, asking, False)]
        asked = "greedy" if asking.beam == 1 else f"beam{asking.beam}+penalty{asking.length_penalty:g}"
        texts, log_probs = [answer.text for answer in answers], [answer.log_prob for answer in answers]
        nats = loss_of(self.exact, Encoded(part, self.corpus.target), asking.rows)
        return judge(self.config, self.corpus, part, texts, log_probs, name, nats, asked)


def load(run: RunDir, config: Config) -> CaptionPredictor:
    """What answers for a run. Raises FormatError if it is damaged, MismatchError if its parts do not fit."""
    corpus = Corpus.open(run.path / "data", parts=())
    arrays, about = run.load_model()
    where = f"{run}/model.safetensors"
    if (about.get("vocabulary"), about.get("shape")) != (corpus.fingerprint, list(corpus.shape)):
        raise MismatchError(
            f"{where}: made for vocabulary {about.get('vocabulary')} and shape {about.get('shape')}, but the data of "
            f"the run has {corpus.fingerprint} and {list(corpus.shape)}; restore the file or train again"
        )
    try:
        network = described(about, corpus, where)
    except (KeyError, TypeError) as fault:
        raise FormatError(
            f"{where}: the header is not that of a captioner ({fault}); restore it or train again"
        ) from None
    set_weights(network, arrays, where)
    return CaptionPredictor(run, config, corpus, network.eval())
