"""Texts as ids on disk: the words and ids a dictionary gives, whatever the source, the threads and the blocks."""

from __future__ import annotations

import gzip
import io
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, FormatError, ShapeError, StorageError
from ostinato.embed import corpus as corpora
from ostinato.embed import encoding
from ostinato.embed.corpus import Corpus, digest_of, open_corpus, read_corpus, read_sentences
from ostinato.embed.folder import fingerprint
from ostinato.embed.lexicon import Lexicon, chosen, merged
from ostinato.text import scan, spool
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import make_tokeniser

few = settings(deadline=None, max_examples=60)
names = st.sampled_from(["a", "b", "c", "dd", "eine-sehr-lange-Sache", "月", "É", "x"])
sentence = st.lists(names, max_size=9)
texts = st.lists(sentence, min_size=1, max_size=25).filter(any)
TEXT = [["b", "a", "b"], ["a", "c"], ["d"], ["b", "a", "e", "b"]]  # b 4, a 3, c d e 1


@contextmanager
def tiny(block: int = 40, chunk: int = 5) -> Iterator[None]:
    """Kernels from the first byte on, and blocks of so few bytes and ids that a text has many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "BLOCK", block)
        patch.setattr(scan, "SCRATCH", 130)
        patch.setattr(scan, "SMALL", 0)
        patch.setattr(scan, "SHARE", 16)
        patch.setattr(spool, "CHUNK", chunk)
        patch.setattr(encoding, "CHUNK", chunk)
        yield


def ids_of(corpus: Corpus) -> list[int]:
    return corpus.read(0, corpus.size, np.empty(corpus.size, np.int32)).tolist()


def spelled(corpus: Corpus) -> list[list[str]]:
    """The sentences of a corpus."""
    found: list[list[str]] = [[]]
    for number in ids_of(corpus):
        if number < 0:
            found.append([])
        else:
            found[-1].append(corpus.lexicon.words[number])
    assert found[-1] == [], "the last id ends a sentence"
    return found[:-1]


def slow(sentences: Sequence[Sequence[str]], min_count: int, limit: int | None = None) -> tuple[list[str], list[int]]:
    """The words chosen and the ids, by a dictionary."""
    counts = Counter(word for words in sentences for word in words)  # in the order first seen
    kept = sorted((word for word in counts if counts[word] >= min_count), key=lambda word: -counts[word])[:limit]
    ids: list[int] = []
    for words in sentences:
        known = [kept.index(word) for word in words if word in kept]
        ids += [*known, -1] if known else []
    return kept, ids


def written(folder: Path, sentences: Sequence[Sequence[str]]) -> Path:
    path = folder / "text.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in sentences), "utf8")
    return path


def same(one: Corpus, other: Corpus) -> None:
    assert one.lexicon.words == other.lexicon.words
    assert one.lexicon.counts.tolist() == other.lexicon.counts.tolist()
    assert one.counts.tolist() == other.counts.tolist()
    assert ids_of(one) == ids_of(other)
    assert (one.words, one.sentences, one.read_words) == (other.words, other.sentences, other.read_words)


@few
@given(texts, st.integers(1, 3), st.sampled_from([None, 1, 3]), st.integers(1, 3), st.integers(20, 90))
def test_a_file_is_numbered_as_by_a_dictionary(tmp_path_factory, sentences, min_count, limit, threads, block):
    folder = tmp_path_factory.mktemp("corpus")
    words, ids = slow(sentences, min_count, limit)
    with tiny(block):
        if not words:
            with pytest.raises(DataError, match="no word was seen"):
                read_corpus([written(folder, sentences)], folder / "made", min_count=min_count, threads=threads)
            return
        made = read_corpus(
            [written(folder, sentences)], folder / "made", min_count=min_count, limit=limit, threads=threads
        )
    assert list(made.lexicon.words) == words
    assert ids_of(made) == ids
    assert made.counts.tolist() == made.lexicon.counts.tolist() == np.bincount([i for i in ids if i >= 0]).tolist()
    assert (made.words, made.sentences) == (len(ids) - ids.count(-1), ids.count(-1))
    assert made.read_words == sum(map(len, sentences))


@few
@given(texts, st.integers(1, 3))
def test_strings_lists_and_files_make_the_same_corpus(tmp_path_factory, sentences, threads):
    folder = tmp_path_factory.mktemp("corpus")
    with tiny():
        wanted = read_corpus([written(folder, sentences)], folder / "file", min_count=1, threads=threads)
        same(read_sentences(map(" ".join, sentences), folder / "strings", min_count=1, threads=threads), wanted)
        same(read_sentences(iter(sentences), folder / "lists", min_count=1, threads=threads), wanted)
    same(read_sentences([" ".join(words) for words in sentences], folder / "usual", min_count=1), wanted)


def test_packed_files_and_standard_input_are_read_too(tmp_path, monkeypatch):
    wanted = read_corpus([written(tmp_path, TEXT)], tmp_path / "plain", min_count=1)
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress((tmp_path / "text.txt").read_bytes()))
    same(read_corpus([packed], tmp_path / "gz", min_count=1), wanted)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO((tmp_path / "text.txt").read_bytes())))
    same(read_corpus(["-"], tmp_path / "stdin", min_count=1), wanted)


def test_real_text_has_the_words_of_gensim(shared, tmp_path):
    word2vec = pytest.importorskip("gensim.models.word2vec")
    path = shared / "lm-sotu" / "valid.txt"
    model = word2vec.Word2Vec(min_count=5)
    model.build_vocab(corpus_file=str(path))
    made = read_corpus([path], tmp_path / "made")
    theirs = {word: model.wv.get_vecattr(word, "count") for word in model.wv.index_to_key}
    assert dict(zip(made.lexicon.words, made.lexicon.counts.tolist(), strict=True)) == theirs
    assert made.read_words == model.corpus_total_words


def test_words_of_lists_may_hold_blanks_and_line_ends(tmp_path):
    made = read_sentences([["new york", "a\nb"], ["a\nb", "\0"]], tmp_path / "made", min_count=1)
    assert spelled(made) == [["new york", "a\nb"], ["a\nb", "\0"]]
    assert open_corpus(tmp_path / "made").lexicon.words == ("a\nb", "new york", "\0")


def test_a_line_end_in_a_string_is_white_space(tmp_path):
    with tiny():
        made = read_sentences(["a b\nc", "d\r\n"], tmp_path / "made", min_count=1)
    assert spelled(made) == [["a", "b", "c"], ["d"]]


def test_a_pipeline_changes_lines_many_at_once_as_one_by_one(tmp_path):
    lines = ["Das IST É ǅ", "ΣΑΣ ΣΑΣ", "e\u0301 É", "ﬁ A\u00a0b"] * 5
    for name in ("lower", "nfkc"):
        pipeline = Pipeline(Normaliser([name]), make_tokeniser("blank"))
        wanted = [pipeline.pieces(line) for line in lines]
        with tiny():
            made = read_sentences(lines, tmp_path / name, min_count=1, pipeline=pipeline, threads=2)
        assert spelled(made) == wanted
    words = Pipeline(Normaliser(), make_tokeniser("word"))
    assert spelled(read_sentences(["Well, no."], tmp_path / "w", min_count=1, pipeline=words))[0] == words.pieces(
        "Well, no."
    )


def test_a_lexicon_that_is_given_numbers_another_text(tmp_path):
    first = read_sentences(TEXT, tmp_path / "first", min_count=3)
    assert first.lexicon.words == ("b", "a")
    second = read_sentences([["e", "a"], ["e"], ["a", "f", "e"]], tmp_path / "second", lexicon=first.lexicon)
    assert ids_of(second) == [1, -1, 1, -1]
    assert second.lexicon is first.lexicon
    assert second.counts.tolist() == [0, 2]
    again = open_corpus(tmp_path / "second")
    assert again.counts.tolist() == [0, 2]
    assert again.lexicon.counts.tolist() == [4, 3]
    with pytest.raises(DataError, match="no word of the text is in the lexicon"):
        read_sentences([["z"]], tmp_path / "third", lexicon=first.lexicon)


def test_a_lexicon_grows_without_moving(tmp_path):
    first = read_sentences(TEXT, tmp_path / "first", min_count=3)
    more = [["e", "a"], ["e", "g", "g", "g"], ["a", "f", "e"]]
    grown = read_sentences(more, tmp_path / "more", min_count=2, lexicon=first.lexicon, grow=True)
    assert grown.lexicon.words == ("b", "a", "e", "g")
    assert grown.lexicon.counts.tolist() == [4, 3 + 2, 3, 3]
    assert spelled(grown) == [["e", "a"], ["e", "g", "g", "g"], ["a", "e"]]
    assert merged(first.lexicon, ["e", "a", "g", "f"], np.array([3, 2, 3, 1]), 2, limit=3).words == ("b", "a", "e")
    assert merged(first.lexicon, ["e"], np.array([9]), 2, limit=1).words == ("b", "a")
    with pytest.raises(ConfigError, match="give the lexicon too"):
        read_sentences(TEXT, tmp_path / "none", grow=True)


def test_words_are_chosen_by_count_then_by_first_sight():
    words, counts = ["d", "c", "b", "a"], np.array([2, 5, 2, 1])
    assert chosen(words, counts, 1).words == ("c", "d", "b", "a")
    assert chosen(words, counts, 2, limit=2).words == ("c", "d")
    with pytest.raises(DataError, match="most frequent one 5 times"):
        chosen(words, counts, 6)


def test_a_lexicon_is_known_by_its_words_and_places():
    lexicon = Lexicon(["b", "a"], np.array([2, 1]))
    assert lexicon.ids(["a", "x", "b"]).tolist() == [1, -1, 0]
    assert lexicon.ids([]).dtype == np.int32
    assert "a" in lexicon
    assert "x" not in lexicon
    assert lexicon.fingerprint == Lexicon(["b", "a"], np.array([7, 7])).fingerprint
    assert lexicon.fingerprint == fingerprint(lexicon.words)
    assert lexicon.fingerprint != Lexicon(["a", "b"], np.array([2, 1])).fingerprint
    with pytest.raises(ConfigError, match="'a' comes twice"):
        Lexicon(["a", "b", "a"], np.array([1, 1, 1]))
    with pytest.raises(ShapeError, match="as many counts"):
        Lexicon(["a"], np.array([1, 2]))


def test_a_corpus_opens_again(tmp_path):
    path = written(tmp_path, TEXT)
    made = read_corpus([path], tmp_path / "made", min_count=1)
    with open_corpus(tmp_path / "made") as again:
        same(again, made)
        assert again.sources == digest_of([path])
    path.write_text("longer than before " * 9, "utf8")
    assert digest_of([path]) != made.sources
    with pytest.raises(StorageError, match="holds a corpus already"):
        read_corpus([path], tmp_path / "made")
    assert sorted(file.name for file in (tmp_path / "made").iterdir()) == sorted(
        ["ids.bin", "lexicon.json", "counts.npy", "corpus.json"]
    )


def test_a_damaged_corpus_is_an_error(tmp_path):
    folder = tmp_path / "made"
    with pytest.raises(FormatError, match="missing"):
        open_corpus(folder)
    read_sentences(TEXT, folder, min_count=1)
    ids, about = (folder / "ids.bin").read_bytes(), json.loads((folder / "corpus.json").read_text())
    (folder / "ids.bin").write_bytes(ids[:-4])
    with pytest.raises(FormatError, match="not the 14 ids"):
        open_corpus(folder)
    (folder / "ids.bin").write_bytes(ids)
    for change, message in [
        ({"format": 99}, "newer"),
        ({"lexicon": "0"}, "does not belong"),
        ({"words": None}, "ours"),
    ]:
        (folder / "corpus.json").write_text(json.dumps(about | change))
        with pytest.raises(FormatError, match=message):
            open_corpus(folder)
    (folder / "corpus.json").write_text(json.dumps(about))
    (folder / "counts.npy").write_bytes(b"nothing")
    with pytest.raises(FormatError, match="not a corpus of ours"):
        open_corpus(folder)


def test_what_is_no_text_is_said_with_its_place(tmp_path, monkeypatch):
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"fine\n\xff\n")
    with pytest.raises(DataError, match=r"bad\.txt:2: byte 1"):
        read_corpus([bad], tmp_path / "a")
    with pytest.raises(DataError, match="no such file"):
        read_corpus([tmp_path / "none.txt"], tmp_path / "b")
    with pytest.raises(ConfigError, match="no text was named"):
        read_corpus([], tmp_path / "c")
    for given_sentences, message in [
        ([["a"], "b"], "sentence 2 is 'b', not a list"),
        (["a", ["b"]], r"sentence 2 is \['b'\], but"),
        ([["a"], ["b", 3]], "3 stands where a word should"),
        (["a", "b \ud800"], "sentence 2 holds"),
        ([], "used before"),
        ([[]], "no words in it"),
        (["", " "], "no words in it"),
    ]:
        for size in (0, 1 << 20):
            monkeypatch.setattr(scan, "SMALL", size)
            with pytest.raises(DataError, match=message):
                read_sentences(given_sentences, tmp_path / "d", min_count=1)
    with pytest.raises(ConfigError, match="not one text"):
        read_sentences("a b", tmp_path / "e")
    assert not (tmp_path / "d" / "corpus.json").exists()
    assert list((tmp_path / "d").iterdir()) == []


@few
@given(texts, st.integers(1, 40), st.integers(0, 6))
def test_chunks_end_with_a_sentence_if_one_ends_soon(tmp_path_factory, sentences, size, look):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpora, "LOOK", look)
        made = read_sentences(sentences, tmp_path_factory.mktemp("corpus") / "made", min_count=1)
        ids, bounds = ids_of(made), made.chunks(size).tolist()
        pieces = [piece.tolist() for piece in made.pieces(size)]
    assert list(chain.from_iterable(pieces)) == ids
    assert (bounds[0], bounds[-1]) == (0, len(ids))
    step = -(-len(ids) // max(1, round(len(ids) / size)))
    for begin, end in pairwise(bounds):
        wanted = min(begin + step, len(ids))
        near = [at for at in range(wanted, min(wanted + look, len(ids)) + 1) if ids[at - 1] == -1]
        assert end == (near[0] if near else wanted)


def test_threads_read_at_once_and_only_what_is_there(tmp_path):
    made = read_sentences([["a", "b", "c"]] * 500, tmp_path / "made", min_count=1)
    ids, found = ids_of(made), {}

    def read(begin: int) -> None:
        found[begin] = made.read(begin, begin + 500, np.empty(600, np.int32)).tolist()

    workers = [threading.Thread(target=read, args=(begin,)) for begin in range(0, 1500, 100)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert all(found[begin] == ids[begin : begin + 500] for begin in found)
    with pytest.raises(ShapeError, match="do not fit"):
        made.read(0, 11, np.empty(10, np.int32))
    with pytest.raises(ShapeError, match="do not fit"):
        made.read(1999, 2001, np.empty(10, np.int32))


def test_the_watcher_hears_of_reading_and_encoding(tmp_path):
    heard = []
    read_corpus([written(tmp_path, TEXT)], tmp_path / "made", min_count=1, watch=heard.append)
    assert [(told.label, told.tokens, told.share) for told in heard] == [("reading", 14, 1.0), ("encoding", 14, 1.0)]
