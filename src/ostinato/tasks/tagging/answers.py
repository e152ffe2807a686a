"""What a network says of sentences: labels, their log-probs and probabilities, in batches of similar length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ostinato.core.config import build
from ostinato.core.vocabulary import Ids
from ostinato.nn.crf import Allowed, Path
from ostinato.nn.lm import evaluating
from ostinato.nn.options import KINDS, RecurrentOptions
from ostinato.nn.spelling import Speller, Spellings, readers
from ostinato.nn.tagger import Tagger
from ostinato.tasks.learning import in_order
from ostinato.tasks.tagging.data import Corpus
from ostinato.tasks.tagging.lexicon import SHAPES, Encoded, Forms, Lexicon
from ostinato.tasks.tagging.options import ModelOptions
from ostinato.text.bucket import Places, padded
from ostinato.text.schemes import transitions


class Batch(NamedTuple):
    """What `Tagger.forward` reads."""

    words: Tensor
    lengths: Tensor
    places: Tensor
    spellings: Spellings


def batch_of(encoded: Encoded, rows: Places, lexicon: Lexicon, device: torch.device) -> Batch:
    """Some sentences, every distinct word of them spelled once."""
    numbers, lengths = padded([encoded.sentences[row] for row in rows], -1)
    distinct, places = np.unique(numbers, return_inverse=True)
    inside = numbers >= 0
    if not inside.all():  # the first is what padding is; any word will do, for none is read there
        distinct, places = distinct[1:], np.maximum(places - 1, 0)
    words = np.where(inside, encoded.forms.words[numbers], lexicon.words.pad)
    arrays = words, lengths, places.reshape(numbers.shape)
    ids, ends, looked = (torch.from_numpy(array).to(device) for array in arrays)
    return Batch(ids, ends, looked, spellings_of(encoded.forms, distinct, lexicon, device))


def spellings_of(forms: Forms, places: Places, lexicon: Lexicon, device: torch.device) -> Spellings:
    """Some distinct words as tensors."""
    pad = lexicon.letters.pad if lexicon.letters else 0
    letters = forms.spelled(places, pad)
    arrays = letters, forms.lengths[places], forms.affixes[places], forms.shapes[places]
    return Spellings(*(torch.from_numpy(array).to(device) for array in arrays))


WORDS = 1024
"""Distinct words that are spelled together."""

CLOSING = frozenset(".!?;。！？；…")
"""A sentence that is too long is cut after one of these."""


@dataclass(frozen=True)
class Answer:
    """What a network says of a sentence.

    labels: [T], numbers. log_prob: of all of them together (nats). probabilities: [T, K] of each label of each word,
    if they were asked for. others: the best labellings with their log-probs, best first, if they were.
    """

    labels: Ids
    log_prob: float
    probabilities: NDArray[np.float32] | None = None
    others: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Asking:
    """How sentences are answered. rows, tokens: of a batch, at most; they change no answer."""

    rows: int
    tokens: int
    probabilities: bool = False
    nbest: int = 1


class Parts:
    """Sentences, those of more than `longest` words in parts; a sentence without words has none."""

    def __init__(self, lexicon: Lexicon, sentences: Sequence[Sequence[str]], longest: int):
        found = [cut(words, longest) for words in sentences]
        self.sizes = [[len(part) for part in parts] for parts in found]
        self.encoded = lexicon.encode(part for parts in found for part in parts)

    def cut(self, arrays: Sequence[Ids]) -> list[Ids]:
        """Arrays [T], one for each sentence, cut where the sentences are."""
        pairs = zip(arrays, self.sizes, strict=True)
        return [part for array, sizes in pairs if sizes for part in np.split(array, np.cumsum(sizes)[:-1])]

    def joined(self, answers: Sequence[Answer]) -> list[Answer]:
        """The answers of the parts as one for each sentence."""
        found = iter(answers)
        return [joined([next(found) for _ in sizes]) for sizes in self.sizes]


def cut(words: Sequence[str], longest: int) -> list[Sequence[str]]:
    """A sentence in parts of at most `longest` words.

    They are cut after the last closing sign that leaves a part at least half as long, or else anywhere.
    """
    parts, begin = [], 0
    while len(words) - begin > longest:
        half, end = begin + (longest + 1) // 2, begin + longest
        end = next((at for at in range(end, half - 1, -1) if words[at - 1] in CLOSING), end)
        parts.append(words[begin:end])
        begin = end
    return [*parts, words[begin:]] if begin < len(words) else parts


def joined(answers: Sequence[Answer]) -> Answer:
    """The answers of the parts of a sentence as one; of several parts, only the best labelling is known."""
    if len(answers) == 1:
        return answers[0]
    if not answers:
        return Answer(np.zeros(0, np.int64), 0.0, np.zeros((0, 1), np.float32))
    labels = np.concatenate([answer.labels for answer in answers])
    looked = [answer.probabilities for answer in answers if answer.probabilities is not None]
    log_prob = float(sum(answer.log_prob for answer in answers))
    return Answer(labels, log_prob, np.concatenate(looked) if looked else None, (Path(labels, log_prob),))


def answered(
    network: Tagger, lexicon: Lexicon, sentences: Sequence[Sequence[str]], asking: Asking, longest: int
) -> list[Answer]:
    """An answer for each sentence, in their order; those of more than `longest` words are answered in parts."""
    parts = Parts(lexicon, sentences, longest)
    return parts.joined(answers_of(network, lexicon, parts.encoded, asking))


def answers_of(network: Tagger, lexicon: Lexicon, encoded: Encoded, asking: Asking) -> list[Answer]:
    """An answer for each encoded sentence; every distinct word is spelled once."""
    with evaluating(network):
        table = spelled(network, encoded.forms, lexicon)

        def answer(places: Places) -> list[Answer]:
            return chosen(network, *emissions_of(network, encoded, table, places), asking)

        return in_order(encoded.lengths, asking.rows, asking.tokens, answer)


def emissions_of(network: Tagger, encoded: Encoded, table: Tensor, places: Places) -> tuple[Tensor, Tensor]:
    """Emissions [B, T, K] and lengths [B] of some sentences; table: what `spelled` gave."""
    numbers, ends = padded([encoded.sentences[place] for place in places], 0)
    arrays = encoded.forms.words[numbers], ends, numbers
    words, lengths, looked = (torch.from_numpy(array).to(table.device) for array in arrays)
    return network.emissions(words, lengths, table[looked]), lengths


def chosen(network: Tagger, emissions: Tensor, lengths: Tensor, asking: Asking) -> list[Answer]:
    """An answer for each row of emissions [B, T, K]."""
    labels, log_probs = network.decode(emissions, lengths)
    looked = network.probabilities(emissions, lengths).cpu().numpy() if asking.probabilities else None
    ways = network.best(emissions, lengths, asking.nbest) if asking.nbest > 1 else None
    return [
        Answer(
            labels[row, :end],
            float(log_probs[row]),
            None if looked is None else looked[row, :end],
            () if ways is None else tuple(ways[row]),
        )
        for row, end in enumerate(lengths.tolist())
    ]


def spelled(network: Tagger, forms: Forms, lexicon: Lexicon) -> Tensor:
    """The vectors [W, S] that the network's speller makes of distinct words, which depend on nothing else."""
    weight = network.output.weight
    found = weight.new_zeros(len(forms.words), network.speller.output_size)
    order = np.argsort(forms.lengths, kind="stable")
    for begin in range(0, len(order), WORDS):
        places = order[begin : begin + WORDS]
        vectors = network.speller(spellings_of(forms, places, lexicon, weight.device))
        found[torch.from_numpy(places).to(weight.device)] = vectors.to(found)
    return found


def make_network(kind: str, options: RecurrentOptions, corpus: Corpus, model: Features) -> Tagger:
    """A new network for these words and labels."""
    lexicon, names = corpus.lexicon, corpus.labels.names
    letters = None
    if lexicon.letters is not None:
        letters = readers[model.reader](len(lexicon.letters), model.letter_size, model.letter_hidden)
    affixes = 0 if lexicon.affixes is None else len(lexicon.affixes)
    speller = Speller(letters, affixes, model.affix_size, len(SHAPES) if lexicon.shapes else 0)
    may = transitions(names, corpus.labels.learnt)
    allowed = Allowed(start=may.first, between=may.after, end=may.last)
    sizes = len(lexicon.words), len(names), options, speller, len(lexicon.pairs), model.pair_size
    network = Tagger(kind, *sizes, lexicon.words.unknown, model.output, allowed)
    network.pair_keys.copy_(torch.from_numpy(lexicon.pairs))
    return network


@dataclass(frozen=True)
class Features:
    """What a network has beside its layers, as a model file says it."""

    reader: str
    letter_size: int
    letter_hidden: int
    affix_size: int
    pair_size: int
    output: str

    @classmethod
    def of(cls, model: ModelOptions) -> Features:
        """As the options ask for."""
        reader = model.letters if model.letters not in (None, "none") else "cnn"
        return cls(str(reader), model.letter_size, model.letter_hidden, model.affix_size, model.pair_size, model.output)


def description(network: Tagger, features: Features) -> dict[str, Any]:
    """What a model file must say so that `described` makes the network again."""
    return {"cell": network.kind, "options": asdict(network.options), "features": asdict(features)}


def described(about: dict[str, Any], corpus: Corpus, where: str) -> Tagger:
    """The network of a `description`, its weights not yet set. Raises KeyError, TypeError, ConfigError."""
    kind = str(about["cell"])
    options = build(KINDS[kind], about["options"], where)
    assert isinstance(options, RecurrentOptions)
    return make_network(kind, options, corpus, Features(**about["features"]))
