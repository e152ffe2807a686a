"""Files of word vectors: against gensim, there and back, however they are cut, and larger than memory."""

from __future__ import annotations

import gzip
import re
import warnings
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ostinato.core.errors import ConfigError, DataError, StorageError
from ostinato.core.progress import Progress
from ostinato.embed import stored, word2vec_text
from ostinato.embed.files import (
    Kind,
    Reading,
    convert_vectors,
    from_gensim,
    kind_of,
    read_counts,
    read_vectors,
    to_gensim,
    write_counts,
    write_vectors,
)
from ostinato.embed.gathering import WHITE, OnDisk
from ostinato.embed.vectors import Vectors
from ostinato.embed.word2vec_text import BLANKS, NUMBER, parse_lines

FOREIGN: list[Kind] = [kind for kind in get_args(Kind) if kind != "ostinato"]
calm = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
spellings = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
clean = spellings.filter(lambda word: not WHITE.search(word) and not word.startswith("\ufeff"))


@st.composite
def some_vectors(draw: st.DrawFn, words: st.SearchStrategy[str] = clean) -> Vectors:
    spelled = draw(st.lists(words, min_size=1, max_size=12, unique=True))
    dimensions = draw(st.integers(1, 9))
    numbers = draw(st.lists(floats, min_size=len(spelled) * dimensions, max_size=len(spelled) * dimensions))
    return Vectors(spelled, np.array(numbers, np.float32).reshape(len(spelled), dimensions))


@pytest.fixture
def vectors() -> Vectors:
    draw = np.random.default_rng(3)
    words = [f"wörd{number}" for number in range(300)]
    return Vectors(words, draw.normal(0, 0.2, (300, 25)).astype(np.float32), np.arange(900, 600, -1))


def same(one: Vectors, other: Vectors) -> bool:
    """Whether words and numbers are equal to the bit."""
    return one.words == other.words and bits(one.array).tobytes() == bits(other.array).tobytes()


def bits(array: NDArray[Any]) -> NDArray[np.uint32]:
    return np.ascontiguousarray(array, np.float32).view(np.uint32)


def keyed() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("gensim.models").KeyedVectors


# gensim


@pytest.mark.parametrize("binary", [False, True])
def test_what_gensim_writes_is_read_equal_to_the_bit_and_the_other_way(
    vectors: Vectors, tmp_path: Path, binary: bool
) -> None:
    theirs, ours, counts = tmp_path / "theirs", tmp_path / "ours", tmp_path / "counts"
    to_gensim(vectors).save_word2vec_format(str(theirs), fvocab=str(counts), binary=binary)
    found = read_vectors(theirs, counts=counts)
    assert same(found, vectors)
    np.testing.assert_array_equal(found.counts, vectors.counts)

    write_vectors(vectors, ours, "word2vec-binary" if binary else "word2vec-text", counts=tmp_path / "our counts")
    back = keyed().load_word2vec_format(str(ours), fvocab=str(tmp_path / "our counts"), binary=binary)
    assert back.index_to_key == list(vectors.words)
    np.testing.assert_array_equal(bits(back.vectors), bits(vectors.array))
    assert [back.get_vecattr(word, "count") for word in vectors.words] == vectors.counts.tolist()
    assert (tmp_path / "our counts").read_bytes() == counts.read_bytes()
    if not binary:
        assert ours.read_bytes() == theirs.read_bytes()


def test_text_without_a_header_is_that_of_gensim(vectors: Vectors, tmp_path: Path) -> None:
    to_gensim(vectors).save_word2vec_format(str(tmp_path / "theirs"), write_header=False)
    write_vectors(vectors, tmp_path / "ours", "glove")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert same(read_vectors(tmp_path / "theirs"), vectors)


@calm
@given(some_vectors())
def test_gensim_reads_every_word_and_number_that_is_written(tmp_path: Path, vectors: Vectors) -> None:
    for kind, binary in (("word2vec-text", False), ("word2vec-binary", True)):
        write_vectors(vectors, tmp_path / kind, kind)  # type: ignore[arg-type]
        back = keyed().load_word2vec_format(str(tmp_path / kind), binary=binary)
        assert back.index_to_key == list(vectors.words)
        np.testing.assert_array_equal(bits(back.vectors), bits(vectors.array))


def test_keyed_vectors_go_through_memory_with_their_counts(vectors: Vectors) -> None:
    made = to_gensim(vectors)
    np.testing.assert_array_equal(made["wörd7"], vectors.vector("wörd7"))
    assert made.get_vecattr("wörd7", "count") == 893
    found = from_gensim(made)
    assert same(found, vectors)
    np.testing.assert_array_equal(found.counts, vectors.counts)
    made.vectors[:] = 0
    assert found.array.any()
    uncounted = from_gensim(to_gensim(Vectors(vectors.words, vectors.array)))
    assert uncounted.counts is None


def test_a_model_and_keys_that_are_numbers_are_refused_by_name() -> None:
    class Word2Vec:
        wv = None

    with pytest.raises(DataError, match=r"a Word2Vec is not .* give its \.wv"):
        from_gensim(Word2Vec())
    numbered = keyed()(2)
    numbered.add_vectors([0, 1], np.ones((2, 2), np.float32))
    with pytest.raises(DataError, match="the key 0 is no word but a int"):
        from_gensim(numbered)
    with pytest.raises(DataError, match="these vectors are float64"):
        from_gensim(keyed()(2, dtype=np.float64))


# there and back


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
@pytest.mark.parametrize("kind", FOREIGN)
def test_a_file_gives_back_what_was_written_packed_or_not(
    vectors: Vectors, tmp_path: Path, kind: Kind, ending: str
) -> None:
    path = tmp_path / f"file{ending}"
    write_vectors(vectors, path, kind)
    assert kind_of(path) == kind
    assert same(read_vectors(path), vectors)
    assert same(read_vectors(path, kind), vectors)
    assert [left.name for left in tmp_path.iterdir()] == [path.name]


@calm
@given(some_vectors(), st.sampled_from(FOREIGN))
def test_every_word_and_number_comes_back_to_the_bit(tmp_path: Path, vectors: Vectors, kind: Kind) -> None:
    write_vectors(vectors, tmp_path / "file", kind)
    assert same(read_vectors(tmp_path / "file", kind), vectors)


def test_a_folder_of_ours_is_read_and_written_as_any_kind(vectors: Vectors, tmp_path: Path) -> None:
    write_vectors(vectors, tmp_path / "folder", "ostinato")
    assert kind_of(tmp_path / "folder") == "ostinato"
    assert same(read_vectors(tmp_path / "folder"), vectors)


def test_float16_is_written_as_the_float32_it_is(vectors: Vectors, tmp_path: Path) -> None:
    halves = Vectors(vectors.words, vectors.array.astype(np.float16))
    for kind in FOREIGN:
        write_vectors(halves, tmp_path / "file", kind)
        np.testing.assert_array_equal(read_vectors(tmp_path / "file").array, halves.array.astype(np.float32))


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000])
@pytest.mark.parametrize("kind", ["word2vec-text", "word2vec-binary"])
def test_a_file_may_be_cut_into_blocks_anywhere(
    vectors: Vectors, tmp_path: Path, kind: Kind, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = Vectors(vectors.words[:40], vectors.array[:40])
    write_vectors(few, tmp_path / "file", kind)
    monkeypatch.setattr(stored, "CHUNK", chunk)
    monkeypatch.setattr(stored, "PEEK", 600)
    monkeypatch.setattr(word2vec_text, "PRINTED_NUMBERS", 60)
    assert same(read_vectors(tmp_path / "file", kind), few)
    assert same(read_vectors(tmp_path / "file", kind, folder=tmp_path), few)
    write_vectors(few, tmp_path / "again", kind)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "file").read_bytes()


def test_frames_and_members_one_after_another_are_one_file(vectors: Vectors, tmp_path: Path) -> None:
    import zstandard

    write_vectors(vectors, tmp_path / "plain", "word2vec-text")
    content = (tmp_path / "plain").read_bytes()
    for name, pack in (("gz", gzip.compress), ("zst", zstandard.compress)):
        (tmp_path / name).write_bytes(pack(content[:999]) + pack(content[999:]))
        assert same(read_vectors(tmp_path / name), vectors)


# the text format, against a slow twin


def slow_line(line: bytes, dimensions: int) -> tuple[bytes, list[float]] | None:
    """The word and numbers of a line, None if it holds none: the word is what stands before the last fields."""
    fields = BLANKS.split(line.rstrip(b" \t\r"))
    numbers = fields[1:][-dimensions:]
    if len(numbers) < dimensions or not all(NUMBER.fullmatch(field) for field in numbers):
        return None
    spelled = re.sub(rb"(?:[ \t\r]+[^ \t\r]+){%d}[ \t\r]*$" % dimensions, b"", line)
    return spelled.strip(b" \t\r"), [float(np.float32(float(number))) for number in numbers]


pieces = st.sampled_from([b"a", b"b.", b"1", b"-2.5", b"3e1", b".", b"1e", b" ", b"  ", b"\t", b" 7", b" 0.5 -1"])


@calm
@given(st.lists(pieces, min_size=1, max_size=9), st.integers(1, 4), st.booleans())
@example([b" ", b"1", b" 7"], 2, False)
@example([b" ", b"a", b" 7"], 1, True)
def test_a_line_is_cut_as_the_slow_twin_cuts_it(parts: list[bytes], dimensions: int, returned: bool) -> None:
    line = b"".join(parts) + b"\r" * returned
    wanted = slow_line(line, dimensions)
    if not line.strip():
        return
    if wanted is None:
        with pytest.raises(DataError, match=r"^x:5: "):
            parse_lines(Path("x"), line + b"\n", 5, dimensions, "strict")
    else:
        found = parse_lines(Path("x"), b"\n" + line + b"\n", 4, dimensions, "strict")
        assert (found.words, found.values.tolist(), found.lines.tolist()) == ([wanted[0].decode()], [wanted[1]], [5])


# larger than memory, counts, what is told


@pytest.mark.parametrize("to", get_args(Kind))
@pytest.mark.parametrize("kind", get_args(Kind))
def test_any_kind_becomes_any_other_and_leaves_nothing_behind(
    vectors: Vectors, tmp_path: Path, kind: Kind, to: Kind
) -> None:
    write_vectors(vectors, tmp_path / "source", kind)
    made = convert_vectors(tmp_path / "source", tmp_path / "target", to)
    assert same(made, vectors)
    assert same(read_vectors(tmp_path / "target", to), vectors)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source", "target"]


def test_rows_can_be_laid_out_on_disk_while_they_are_read(vectors: Vectors, tmp_path: Path) -> None:
    for kind in FOREIGN:
        write_vectors(vectors, tmp_path / "file", kind)
        found = read_vectors(tmp_path / "file", folder=tmp_path)
        assert isinstance(found.array, np.memmap)
        assert not found.array.flags.writeable
        assert same(found, vectors)


def test_a_full_disk_is_said() -> None:
    with pytest.raises(StorageError, match="no space left on the disk"):
        OnDisk(Path("/dev/full"), 3)


def test_counts_are_found_by_word_and_must_be_complete(vectors: Vectors, tmp_path: Path) -> None:
    write_vectors(vectors, tmp_path / "file", "word2vec-text")
    lines = [f"{word} {count}" for word, count in zip(vectors.words, vectors.counts, strict=True)]
    path = tmp_path / "counts"
    path.write_text("\n".join(["seldom 1", *reversed(lines), ""]), "utf8")
    np.testing.assert_array_equal(read_vectors(tmp_path / "file", counts=path).counts, vectors.counts)
    reading = Reading(counts=path)
    made = convert_vectors(tmp_path / "file", tmp_path / "made", "ostinato", reading=reading, counts=tmp_path / "again")
    np.testing.assert_array_equal(made.counts, vectors.counts)
    assert (tmp_path / "again").read_text("utf8").splitlines() == lines
    path.write_text("\n".join(lines[1:]), "utf8")
    with pytest.raises(DataError, match="no count of the word 'wörd0'"):
        read_vectors(tmp_path / "file", counts=path)
    for line, what in (("a b", "a word, a blank and its count"), ("wörd1 2", "has a count already"), ("7", "a word")):
        path.write_text(f"wörd1 2\n\n{line}\n", "utf8")
        with pytest.raises(DataError, match=f"counts:3: .*{what}"):
            read_counts(path)
    with pytest.raises(DataError, match="have no counts"):
        write_counts(read_vectors(tmp_path / "file"), path)


def test_a_watcher_is_told_of_reading_and_writing(vectors: Vectors, tmp_path: Path) -> None:
    told: list[Progress] = []
    for kind in FOREIGN:
        write_vectors(vectors, tmp_path / "file", kind, watch=told.append)
        read_vectors(tmp_path / "file", watch=told.append)
    ends = [progress for progress in told if progress.share == 1.0]
    assert [(end.label, end.tokens) for end in ends] == 3 * [("writing file", 300), ("reading file", 300)]


def test_a_kind_or_a_way_that_is_not_known_is_said(vectors: Vectors, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown kind of vectors 'word2vec'; .*word2vec-text"):
        write_vectors(vectors, tmp_path / "file", "word2vec")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="strict, replace or keep, got 'ignore'"):
        read_vectors(tmp_path / "file", errors="ignore")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="refuse or first, got 'last'"):
        read_vectors(tmp_path / "file", repeated="last")  # type: ignore[arg-type]
