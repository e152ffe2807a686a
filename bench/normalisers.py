"""Stems and lemmas: how fast they are, and what they do for a count-based classifier.

    python bench/normalisers.py speed LEMMATISER TREEBANK TEXT
    python bench/normalisers.py classify TEXT [NORMALISERS ...]

LEMMATISER is a file that `ostinato lemma train` made, TREEBANK is in CoNLL-U. For `speed`, TEXT is running text; for
`classify` each of its lines is a label, a blank and a text (what follows a colon in the label is cut off, as in TREC),
and NORMALISERS are names joined by +, as in `lower+stem:english`. Times are of one thread of this process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ostinato.core.errors import DataError
from ostinato.text.lemma import Lemmatiser
from ostinato.text.lemma_score import read_words, simplemma_of
from ostinato.text.normalise import Normaliser, word_stemmer
from ostinato.text.read import read_lines

Array: TypeAlias = NDArray[np.float64]
Ids: TypeAlias = NDArray[np.int64]

FOLDS, SEEDS = 10, (0, 1, 2)
ADDED = 0.2  # count, to every word in every class
SHARES = (1.0, 0.1, 0.02)
USUAL = ("none", "lower", "lower+stem:english", "lower+lemma:en")


class Texts(NamedTuple):
    """Texts as ids of words, one after another, each beginning at its start; and their labels."""

    ids: Ids
    starts: Ids
    labels: Ids
    words: int

    @property
    def rows(self) -> Ids:
        """The text of each id."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.ids))))


def read_texts(path: str, normaliser: Normaliser) -> Texts:
    """The texts of a file, normalised and cut at white space."""
    words: dict[str, int] = {}
    names: dict[str, int] = {}
    ids: list[int] = []
    starts: list[int] = []
    labels: list[int] = []
    for number, line in enumerate(read_lines(path), 1):
        label, _, text = line.partition(" ")
        pieces = normaliser(text).split()
        if not pieces:
            raise DataError(f"{path}:{number}: a label and a text are wanted, parted by a blank")
        starts.append(len(ids))
        labels.append(names.setdefault(label.partition(":")[0], len(names)))
        ids += [words.setdefault(piece, len(words)) for piece in pieces]
    return Texts(np.array(ids), np.array(starts), np.array(labels), len(words))


def naive_bayes(texts: Texts, train: NDArray[np.bool_]) -> Ids:
    """The label of every text by multinomial naive Bayes with additive smoothing, learnt from some of the texts."""
    classes = int(texts.labels.max()) + 1
    counts = np.full((texts.words, classes), ADDED)
    known = train[texts.rows]
    np.add.at(counts, (texts.ids[known], texts.labels[texts.rows[known]]), 1)
    seen = np.zeros(texts.words, bool)
    seen[texts.ids[known]] = True
    log_p = np.where(seen[:, None], np.log(counts / counts[seen].sum(0)), 0)  # an unknown word says nothing
    prior = np.log(np.maximum(np.bincount(texts.labels[train], minlength=classes), 1e-9) / train.sum())
    return np.asarray((np.add.reduceat(log_p[texts.ids], texts.starts) + prior).argmax(1))


def nearest_centroid(texts: Texts, train: NDArray[np.bool_]) -> Ids:
    """The label whose texts have the nearest mean by the cosine of tf-idf vectors."""
    classes = int(texts.labels.max()) + 1
    pairs, tf = np.unique(texts.rows * texts.words + texts.ids, return_counts=True)
    rows, ids = pairs // texts.words, pairs % texts.words
    known = train[rows]
    frequency = np.bincount(ids[known], minlength=texts.words)
    weight = tf * np.where(frequency, np.log(train.sum() / np.maximum(frequency, 1)), 0)[ids]
    weight /= np.maximum(np.sqrt(np.bincount(rows, weight**2)), 1e-12)[rows]
    centroid = np.zeros((texts.words, classes))
    np.add.at(centroid, (ids[known], texts.labels[rows[known]]), weight[known])
    centroid /= np.maximum(np.linalg.norm(centroid, axis=0), 1e-12)
    scores = np.zeros((len(texts.starts), classes))
    np.add.at(scores, rows, weight[:, None] * centroid[ids])
    return np.asarray(scores.argmax(1))


def accuracies(texts: Texts, classify: Callable[[Texts, NDArray[np.bool_]], Ids], share: float) -> Array:
    """The accuracy of cross-validation with each seed, learning from a share of the other folds only."""
    found = []
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        fold = random.permutation(len(texts.starts)) % FOLDS
        drawn = random.random(len(texts.starts)) < share
        right = sum(
            int((classify(texts, (fold != one) & drawn) == texts.labels)[fold == one].sum()) for one in range(FOLDS)
        )
        found.append(right / len(texts.starts))
    return np.array(found)


def classify(path: str, names: Sequence[str]) -> None:
    """Print a table of accuracies: normalisers down, classifiers and shares of the training text across."""
    heads = [f"{kind} {share:.0%}" for kind in ("naive Bayes", "tf-idf centroid") for share in SHARES]
    print(f"{path}, {FOLDS} folds, accuracy in %: mean of {len(SEEDS)} seeds, and the largest less the smallest")
    print(" | ".join(["normalisers", "words", *heads]))
    for name in names or USUAL:
        texts = read_texts(path, Normaliser(name.split("+")))
        cells = []
        for method in (naive_bayes, nearest_centroid):
            for share in SHARES:
                found = 100 * accuracies(texts, method, share)
                cells.append(f"{found.mean():.2f} ({np.ptp(found):.2f})")
        print(" | ".join([name, f"{texts.words:,}", *cells]), flush=True)


def speed(lemmatiser: str, treebank: str, text: str) -> None:
    """Print words a second: of running text, and of words that all differ."""
    made = Lemmatiser.load(lemmatiser)
    words = list(read_words([treebank]))
    forms, tags = [word.form for word in words], [word.upos for word in words]
    lines = list(read_lines(text))
    running = [word for line in lines for word in line.split()]
    distinct = sorted(set(running))
    pairs = sorted({(form, tag or "") for form, tag in zip(forms, tags, strict=True)})
    print(f"{text}: {len(running):,} words, {len(distinct):,} of them distinct")
    print(f"{treebank}: {len(forms):,} words, {len(pairs):,} distinct pairs of form and part of speech")
    fresh = Lemmatiser.from_json(made.to_json())
    tell("lemmatiser, running text without parts of speech, first time", len(running), lambda: fresh.lemmas(running))
    tell("the same again", len(running), lambda: fresh.lemmas(running))
    fresh = Lemmatiser.from_json(made.to_json())
    tell("lemmatiser, distinct words of it", len(distinct), lambda: fresh.lemmas(distinct))
    fresh = Lemmatiser.from_json(made.to_json())
    tell("lemmatiser, treebank with parts of speech, first time", len(forms), lambda: fresh.lemmas(forms, tags))
    fresh = Lemmatiser.from_json(made.to_json())
    tell("lemmatiser, treebank 40 times", 40 * len(forms), lambda: fresh.lemmas(40 * forms, 40 * tags))
    fresh = Lemmatiser.from_json(made.to_json())
    tell("lemmatiser, distinct pairs", len(pairs), lambda: fresh.lemmas(*zip(*pairs, strict=True)))
    tell("simplemma, running text", len(running), lambda: simplemma_of(running, "en"))
    tell("simplemma, distinct words", len(distinct), lambda: simplemma_of(distinct, "en"))
    stem = word_stemmer("english")
    tell(f"stem ({type(stem).__module__}), distinct words", len(distinct), lambda: [stem(word) for word in distinct])
    for name in ("stem:english", "lemma:en", f"lemma:{lemmatiser}"):
        tell(f"{name} as a normaliser of lines", len(running), partial(list, map(Normaliser([name]), lines)))


def tell(what: str, count: int, work: Callable[[], object]) -> None:
    """Print how many of `count` words a second the work does."""
    begin = time.process_time()
    work()
    print(f"{what}: {count / (time.process_time() - begin) / 1e6:.2f} M words/s", flush=True)


def main() -> None:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = parser.add_subparsers(dest="kind", required=True)
    measure = kinds.add_parser("speed")
    for name in ("lemmatiser", "treebank", "text"):
        measure.add_argument(name)
    compare = kinds.add_parser("classify")
    compare.add_argument("text")
    compare.add_argument("normalisers", nargs="*")
    asked = parser.parse_args()
    if asked.kind == "speed":
        speed(asked.lemmatiser, asked.treebank, asked.text)
    else:
        classify(asked.text, asked.normalisers)


if __name__ == "__main__":
    main()
