"""Our side of the benchmark of word vectors: `python -m ostinato.bench.embed_ours '{}'`, see `embed_case.main`."""

from __future__ import annotations

import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.bench.embed_case import MIN_COUNT, RESTRICT, Actions, Answer, keep, kept, main, timed
from ostinato.embed.benchmarks import Analogies, read_benchmark
from ostinato.embed.corpus import Corpus, read_corpus
from ostinato.embed.evaluate import SimilarityScore, analogies, evaluate
from ostinato.embed.files import read_vectors, write_vectors
from ostinato.embed.options import VectorOptions
from ostinato.embed.trainer import Trainer
from ostinato.embed.vectors import Vectors


@cache
def corpus_of(text: str) -> Corpus:
    """The text as ids, read once; their file has no name any more but stays as long as it is open."""
    with tempfile.TemporaryDirectory() as folder:
        return read_corpus([text], Path(folder) / "corpus", min_count=MIN_COUNT)


def train(text: str, threads: int, save: str | None = None, **options: Any) -> Answer:
    """Training alone, in words of the text that have a vector; compiled before."""
    corpus, chosen = corpus_of(text), VectorOptions(threads=threads, **options)
    next(Trainer(corpus, chosen, threads).run())
    trainer = Trainer(corpus, chosen, threads)
    reports, took = timed(lambda: list(trainer.run()))
    if save is not None:
        keep(save, corpus.lexicon.words, trainer.matrices.input)
    words, trained = corpus.words * chosen.epochs, sum(report.kept for report in reports)
    pairs = sum(report.pairs for report in reports)
    loss = sum(report.loss * report.pairs for report in reports if report.pairs) / max(1, pairs)
    return {**took, "words/s": words / took["s"], "words": words, "known": corpus.words, "kept": trained, "loss": loss}


def registers(**request: Any) -> Answer:
    """The same, with the numbers that a register of the kernels holds, and what Numba was told that it compiles for."""
    from ostinato.kernels import rows, skipgram

    target: Any = skipgram.negative_sampling.targetctx
    _, processor, features = target.codegen().magic_tuple()
    return {**train(**request), "lanes": rows.LANES, "processor": processor, "features": features}


def vocabulary(text: str, threads: int) -> Answer:
    """The text as ids with its vocabulary, in words of the text."""
    with tempfile.TemporaryDirectory() as folder:
        paths, place = [text], Path(folder) / "corpus"
        corpus, took = timed(lambda: read_corpus(paths, place, min_count=MIN_COUNT, threads=threads))
        with corpus:
            words = corpus.read_words
            return {**took, "words/s": words / took["s"], "words": words, "distinct": len(corpus.lexicon)}


def write(vectors: str, folder: str) -> Answer:
    """Vectors as word2vec's text."""
    made = Vectors(*kept(vectors))
    _, took = timed(lambda: write_vectors(made, Path(folder) / "ours.txt", "word2vec-text"))
    return took


def read(path: str) -> Answer:
    """Vectors from word2vec's text."""
    found, took = timed(lambda: read_vectors(path, "word2vec-text"))
    return {**took, "digest": digest(found)}


def digest(vectors: Vectors) -> str:
    """Of every bit of the array."""
    return sha256(np.ascontiguousarray(vectors.array).tobytes()).hexdigest()[:12]


def answered(vectors: str, questions: str) -> Answer:
    """A file of analogies read and answered, in questions of which all words are known."""
    made = Vectors(*kept(vectors))

    def work() -> tuple[int, float]:
        asked = read_benchmark(questions)
        assert isinstance(asked, Analogies)
        total = analogies(made, asked, restrict=RESTRICT).total
        return total.answered, total.accuracy

    work()
    (answered, accuracy), took = timed(work)
    return {**took, "questions/s": answered / took["s"], "answered": answered, "accuracy": accuracy}


def score(vectors: str, files: list[str]) -> Answer:
    """How good vectors are by each file: the score, and how many of its pairs or questions count."""
    made, found = Vectors(*kept(vectors)), {}
    for file in files:
        benchmark = read_benchmark(file)
        if isinstance(benchmark, Analogies):
            total = analogies(made, benchmark, restrict=RESTRICT).total
            found[file] = [total.accuracy, total.answered, total.questions]
        else:
            similar = evaluate(made, benchmark)
            assert isinstance(similar, SimilarityScore)
            found[file] = [similar.spearman, similar.used, similar.pairs]
    return {"scores": found}


ACTIONS: Actions = {
    "train": train,
    "registers": registers,
    "vocabulary": vocabulary,
    "write": write,
    "read": read,
    "analogies": answered,
    "score": score,
}

if __name__ == "__main__":
    main(ACTIONS)
