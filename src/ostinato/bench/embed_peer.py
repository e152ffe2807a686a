"""gensim's side of the benchmark of word vectors: `python -m ostinato.bench.embed_peer '{}'`, see `embed_case.main`.

Files are read by its compiled code, `corpus_file`, which is faster than any iterator of Python's.
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from gensim.models import KeyedVectors, Word2Vec

from ostinato.bench.embed_case import MIN_COUNT, RESTRICT, Actions, Answer, keep, kept, main, timed
from ostinato.embed.options import VectorOptions


def model_of(options: VectorOptions, threads: int) -> Any:
    """A model of gensim's with our options."""
    tree = options.loss == "hierarchical-softmax"
    return Word2Vec(
        vector_size=options.dimensions,
        window=options.window,
        min_count=MIN_COUNT,
        sg=int(options.model == "skip-gram"),
        cbow_mean=int(options.model == "cbow-mean"),
        hs=int(tree),
        negative=0 if tree else options.negatives,
        ns_exponent=options.exponent,
        sample=options.sample,
        alpha=options.rate,
        min_alpha=options.floor,
        epochs=options.epochs,
        seed=options.seed,
        workers=threads,
    )


def train(text: str, threads: int, save: str | None = None, **options: Any) -> Answer:
    """Training alone, in words of the text that have a vector: gensim itself counts all, or those it keeps.

    Several workers read a little more than the text, each its last batch to the end; that counts, too.
    """
    model = model_of(VectorOptions(**options), threads)
    model.build_vocab(corpus_file=text)
    sizes = {"total_examples": model.corpus_count, "total_words": model.corpus_total_words, "epochs": model.epochs}
    (trained, seen), took = timed(lambda: model.train(corpus_file=text, **sizes))
    if save is not None:
        keep(save, model.wv.index_to_key, model.wv.vectors)
    known = sum(int(model.wv.get_vecattr(place, "count")) for place in range(len(model.wv)))
    words = round(known * seen / model.corpus_total_words)
    return {**took, "words/s": words / took["s"], "words": words, "known": known, "kept": int(trained)}


def vocabulary(text: str, threads: int) -> Answer:
    """The vocabulary of the text, in words of the text; gensim has one thread for it."""
    model = Word2Vec(vector_size=1, min_count=MIN_COUNT, workers=threads)
    _, took = timed(lambda: model.build_vocab(corpus_file=text))
    words = int(model.corpus_total_words)
    return {**took, "words/s": words / took["s"], "words": words, "distinct": len(model.wv)}


def vectors_of(path: str) -> Any:
    """What `keep` wrote as gensim's vectors."""
    words, array = kept(path)
    made = KeyedVectors(array.shape[1])
    made.add_vectors(words, array)
    return made


def write(vectors: str, folder: str) -> Answer:
    """Vectors as word2vec's text."""
    made = vectors_of(vectors)
    _, took = timed(lambda: made.save_word2vec_format(str(Path(folder) / "peer.txt"), binary=False))
    return took


def read(path: str) -> Answer:
    """Vectors from word2vec's text."""
    found, took = timed(lambda: KeyedVectors.load_word2vec_format(path, binary=False))
    return {**took, "digest": sha256(np.ascontiguousarray(found.vectors).tobytes()).hexdigest()[:12]}


def analogies(vectors: str, questions: str) -> Answer:
    """A file of analogies read and answered, in questions of which all words are known."""
    made = vectors_of(vectors)
    made.fill_norms()
    (accuracy, sections), took = timed(lambda: made.evaluate_word_analogies(questions, restrict_vocab=RESTRICT))
    answered = len(sections[-1]["correct"]) + len(sections[-1]["incorrect"])
    return {**took, "questions/s": answered / took["s"], "answered": answered, "accuracy": float(accuracy)}


ACTIONS: Actions = {"train": train, "vocabulary": vocabulary, "write": write, "read": read, "analogies": analogies}

if __name__ == "__main__":
    main(ACTIONS)
