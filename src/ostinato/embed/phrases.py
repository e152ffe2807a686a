"""Phrases: pairs of words that stand together more often than chance has it become one word, as `new_york`.

A pre-pass over a corpus that has all words of its text (`min_count` 1), since a word left out would make neighbours
of words that are none. Several passes find longer phrases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, MismatchError
from ostinato.core.progress import Watch, unwatched
from ostinato.core.registry import unknown
from ostinato.embed.corpus import Choice, Corpus, finish, read_corpus, workplace
from ostinato.embed.encoding import cores, in_order, write_at
from ostinato.embed.lexicon import Lexicon
from ostinato.text.spool import Meter

if TYPE_CHECKING:
    from ostinato.embed.options import TextOptions

Scoring: TypeAlias = Literal["published", "word2phrase", "gensim", "npmi"]

ENGLISH_CONNECTORS = (
    "a",
    "an",
    "the",
    "for",
    "of",
    "with",
    "without",
    "at",
    "from",
    "to",
    "in",
    "on",
    "by",
    "and",
    "or",
)
"""Articles, prepositions and conjunctions that stand inside English names, as gensim has them."""

PIECE = 1 << 16
"""Ids that are handled at a time. A sentence longer than that is cut, see Corpus.chunks."""

MOST = 1 << 26
"""Words whose pairs are counted in one go; with more of them the text is read several times.

The tables take at most 64 bytes a word, and for ordinary text a quarter of that.
"""


@dataclass(frozen=True)
class PhraseOptions:
    """Which pairs are phrases: those whose score is above the threshold.

    With n(w) how often a word was seen, n(ab) how often a is followed by b, d the discount, the score is
    "published":   (n(ab) - d) / (n(a) n(b))            [Mikolov2013b] eq. 6
    "word2phrase": that times the number of words in the text; the threshold 100 is usual
    "gensim":      that times the number of distinct words and pairs; 10 is usual
    "npmi":        ln(p(ab) / (p(a) p(b))) / -ln p(ab), from -1 to 1, for pairs seen d times or more [Bouma2009]
    connectors: words that do not begin or end a phrase, but may stand inside, and do not count.
    Raises ConfigError for a value out of range.
    """

    scoring: Scoring = "gensim"
    threshold: float = 10.0
    discount: int = 5
    delimiter: str = "_"
    connectors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = ["published", "word2phrase", "gensim", "npmi"]
        if self.scoring not in known:
            raise ConfigError(unknown("scoring of phrases", self.scoring, known))
        if self.discount < 1:
            raise ConfigError(f"the discount must be 1 or more, got {self.discount}; 5 is usual")
        if self.scoring == "npmi" and not -1 <= self.threshold <= 1:
            raise ConfigError(f"npmi lies between -1 and 1, but the threshold is {self.threshold}; 0.5 is a start")
        if self.scoring != "npmi" and not self.threshold > 0:
            raise ConfigError(f"the threshold must be above 0, got {self.threshold}; 10 is usual")


@dataclass(frozen=True)
class Phrase:
    """Words that are joined, how often they stand together, and their score."""

    words: tuple[str, ...]
    count: int
    score: float


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Pairs seen often enough, how many distinct ones there are in all, and the connectors of each chain."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    chain: NDArray[np.int64]
    count: NDArray[np.int64]
    distinct: int
    chains: NDArray[np.uint64]


def find_phrases(
    corpus: Corpus,
    options: PhraseOptions = PhraseOptions(),
    threads: int | None = None,
) -> list[Phrase]:
    """The phrases of a corpus, by falling score. The same whatever the number of threads.

    Raises MismatchError if words of the text were left out of the corpus.
    Source: [Mikolov2013b] section 4.
    """
    if corpus.words != corpus.read_words:
        raise MismatchError(
            f"{corpus.folder}: {corpus.read_words - corpus.words:,} words of the text were left out, so neighbours are "
            "not known; read it with min_count 1"
        )
    lexicon = corpus.lexicon
    pairs = _counted(corpus, _kinds(lexicon, options.connectors), cores(threads), options.discount)
    scores = _scores(pairs, corpus, options)
    found = np.flatnonzero(scores > options.threshold)
    keys = (pairs.chain[found], pairs.second[found], pairs.first[found], -scores[found])
    found = found[np.lexsort(keys)]
    between = _spelled_chains(pairs.chains, lexicon)
    columns = pairs.first, pairs.second, pairs.chain, pairs.count, scores
    rows = zip(*(column[found].tolist() for column in columns), strict=True)
    return [
        Phrase((lexicon.words[first], *between[chain], lexicon.words[second]), count, score)
        for first, second, chain, count, score in rows
    ]


def join_phrases(
    corpus: Corpus,
    phrases: Sequence[Phrase],
    folder: Path,
    *,
    min_count: int = 5,
    limit: int | None = None,
    lexicon: Lexicon | None = None,
    grow: bool = False,
    options: PhraseOptions = PhraseOptions(),
    threads: int | None = None,
    watch: Watch = unwatched,
) -> Corpus:
    """The same text with its phrases joined, as a corpus in `folder`, with a lexicon of its own.

    It is the corpus that reading the joined text would give. From left to right: of three words the first two are
    joined if they are a phrase, and then only later ones. options: their delimiter and connectors.
    min_count, limit, lexicon, grow: which words and phrases are numbered, see `corpus.read_corpus`.
    Raises MismatchError for a phrase that is not of this corpus.
    """
    from ostinato.kernels import pairs as kernels

    choice = Choice(min_count, limit, lexicon, grow)
    names, tables = _tables(corpus.lexicon, phrases, options)
    counts, firsts = np.zeros(len(names) + 1, np.int64), np.zeros(len(names) + 1, np.int64)
    bounds = corpus.chunks(PIECE)
    widest, threads = int(np.diff(bounds).max()), cores(threads)
    meter = Meter("joining", watch)

    def joined(place: tuple[int, int]) -> NDArray[np.uint32]:
        begin, end = place
        out = np.empty(end - begin, np.uint32)
        return out[: kernels.join(corpus.read(begin, end, np.empty(widest, np.int32)), *tables, out)]

    with workplace(folder) as inside:
        path, size = inside / "joined.bin", 0
        with path.open("wb") as file:
            for ids in in_order(joined, pairwise(bounds.tolist()), threads):
                _note(ids, size, counts, firsts)
                write_at(file.fileno(), 4 * size, ids)
                size += len(ids)
                meter.tell(size, partial(float, size / corpus.size))
        seen = np.flatnonzero(counts[1:])
        order = seen[np.argsort(firsts[1:][seen])]
        return finish(
            folder, path, size, counts[1:][order], lambda numbers: [names[at] for at in order[numbers - 1].tolist()],
            choice, threads, watch, corpus.sources, order,
        )  # fmt: skip


def read_phrased(
    text: TextOptions, folder: Path, threads: int | None = None, before: Lexicon | None = None,
    watch: Watch = unwatched,
) -> Corpus:  # fmt: skip
    """The corpus of files with phrases joined in `text.phrases` passes.

    before: a lexicon that keeps its numbers; frequent new words and phrases join it.
    """
    options = PhraseOptions(threshold=text.phrase_threshold)
    with workplace(folder) as inside:
        corpus = read_corpus(text.text, inside / "0", min_count=1, threads=threads, watch=watch)
        join = partial(join_phrases, options=options, threads=threads, watch=watch)
        for number in range(1, text.phrases + 1):
            with corpus:
                found = find_phrases(corpus, options, threads)
                if number < text.phrases:
                    after = join(corpus, found, inside / str(number), min_count=1)
                else:
                    grow = before is not None
                    after = join(
                        corpus, found, folder, min_count=text.min_count, limit=text.limit, lexicon=before, grow=grow
                    )
            corpus.ids.unlink()
            corpus = after
    return corpus


def _note(ids: NDArray[np.uint32], at: int, counts: NDArray[np.int64], firsts: NDArray[np.int64]) -> None:
    from ostinato.kernels import words as kernels

    kernels.note(ids, at, counts, firsts)


def _kinds(lexicon: Lexicon, connectors: Sequence[str]) -> NDArray[np.uint8]:
    """What each word is in a phrase, [V]."""
    from ostinato.kernels import pairs as kernels

    kinds = np.zeros(len(lexicon), np.uint8)
    ids = lexicon.ids(connectors)
    kinds[ids[ids >= 0]] = kernels.CONNECTS
    return kinds


def _counted(corpus: Corpus, kinds: NDArray[np.uint8], threads: int, least: int) -> _Pairs:
    """Every pair seen `least` times or more, counted by threads of which each has its share of all pairs."""
    parts = threads * max(1, -(-corpus.words // MOST))
    found = list(in_order(lambda part: _share(corpus, kinds, part, parts, least), range(parts), threads))
    return _Pairs(
        first=np.concatenate([share.first for share in found]),
        second=np.concatenate([share.second for share in found]),
        chain=np.concatenate([share.chain for share in found]),
        count=np.concatenate([share.count for share in found]),
        distinct=sum(share.distinct for share in found),
        chains=found[0].chains,
    )


def _share(corpus: Corpus, kinds: NDArray[np.uint8], part: int, parts: int, least: int) -> _Pairs:
    """One share of the pairs: those whose key falls to `part` of `parts`."""
    from ostinato.kernels import pairs as kernels

    slots, chains = np.zeros((1 << 12, 2), np.uint64), np.zeros((1 << 8, 2), np.uint64)
    used, cursor = 0, np.array([-1, 0, 1], np.int64)
    keys, links = np.empty(0, np.uint64), np.empty(0, np.int64)
    for ids in corpus.pieces(PIECE):
        if len(keys) < len(ids):
            keys, links = np.empty(len(ids), np.uint64), np.empty(len(ids), np.int64)
        at, cursor[kernels.START] = 0, -1
        while at < len(ids):
            at, found = kernels.gather(ids, at, kinds, part, parts, chains, cursor, keys, links)
            begin = 0
            while begin < found:
                begin, used = kernels.count(slots, used, keys, links, begin, found)
                slots = slots if begin == found else _doubled(slots)
            chains = chains if at == len(ids) else _doubled(chains)
            if len(chains) > 1 << kernels.CHAIN_BITS:
                raise DataError("there are too many sequences of connectors; name fewer connectors")
    counts = (slots[:, 1] & np.uint64(kernels.LOW)).astype(np.int64)
    often = slots[counts >= least]
    first, second = (often[:, 0] >> np.uint64(32)).astype(np.int64), often[:, 0].astype(np.uint32).astype(np.int64)
    chain = (often[:, 1] >> np.uint64(kernels.NUMBER_BITS)).astype(np.int64)
    return _Pairs(first - 1, second - 1, chain, counts[counts >= least], used, chains)


def _doubled(slots: NDArray[np.uint64]) -> NDArray[np.uint64]:
    from ostinato.kernels import scan as kernels

    larger = np.zeros((2 * len(slots), 2), np.uint64)
    kernels.rehash(slots, larger)
    return larger


def _scores(pairs: _Pairs, corpus: Corpus, options: PhraseOptions) -> NDArray[np.float64]:
    """The score of each pair."""
    counts, both = corpus.counts.astype(np.float64), pairs.count.astype(np.float64)
    first, second = counts[pairs.first], counts[pairs.second]
    if options.scoring == "npmi":
        share = both / corpus.words
        with np.errstate(invalid="ignore", divide="ignore"):  # a text of one pair alone has p(ab) = 1
            return np.asarray(np.log(share / (first / corpus.words * (second / corpus.words))) / -np.log(share))
    score = (both - options.discount) / (first * second)
    if options.scoring == "published":
        return np.asarray(score)
    inner = np.count_nonzero(_kinds(corpus.lexicon, options.connectors))
    scale = corpus.words if options.scoring == "word2phrase" else len(corpus.lexicon) - inner + pairs.distinct
    return np.asarray(score * scale)


def _chains(chains: NDArray[np.uint64]) -> Iterator[tuple[int, int, int]]:
    """Every node but the root: its parent, its word, itself; parents first."""
    taken = chains[chains[:, 0] != 0]
    for key, node in taken[np.argsort(taken[:, 1])].tolist():
        yield (key >> 32) - 1, (key & 0xFFFFFFFF) - 1, node


def _spelled_chains(chains: NDArray[np.uint64], lexicon: Lexicon) -> list[tuple[str, ...]]:
    """The connectors of each chain."""
    spelled: list[tuple[str, ...]] = [()]
    for parent, word, _ in _chains(chains):
        spelled.append((*spelled[parent], lexicon.words[word]))
    return spelled


_Tables: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]


def _tables(lexicon: Lexicon, phrases: Sequence[Phrase], options: PhraseOptions) -> tuple[list[str], _Tables]:
    """The names of all words and phrases by number, and what kernels.pairs.join wants: kinds, chains, slots."""
    from ostinato.kernels import pairs as kernels

    kinds = _kinds(lexicon, options.connectors)
    names = {word: number for number, word in enumerate(lexicon.words)}
    slots = np.zeros((max(2, 1 << (4 * len(phrases)).bit_length()), 2), np.uint64)
    inner = sum(len(phrase.words) - 2 for phrase in phrases)
    chains = np.zeros((max(2, 1 << (4 * inner).bit_length()), 2), np.uint64)
    known = 1
    for phrase in phrases:
        first, *between, second = lexicon.ids(phrase.words).tolist()
        if min(first, second, *between) < 0:
            raise MismatchError(f"the phrase {phrase.words} is not made of words of {lexicon}; it was found elsewhere")
        chain = 0
        for word in between:
            key = np.uint64(kernels.key_of(chain, word))
            slot = kernels.find(chains, key, kernels.ZERO)
            if slot < 0:
                slot = -1 - slot
                chains[slot] = key, known
                known += 1
            chain = int(chains[slot, 1])
        key = np.uint64(kernels.key_of(first, second))
        slot = kernels.find(slots, key, np.uint64(chain))
        number = names.setdefault(options.delimiter.join(phrase.words), len(names))
        slots[-1 - slot if slot < 0 else slot] = key, chain << kernels.NUMBER_BITS | number
        kinds[first] |= kernels.BEGINS
    return list(names), (kinds, chains, slots)
