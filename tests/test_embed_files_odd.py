"""Files of word vectors as they are found: odd words, damage, other kinds. Each has one behaviour, or one message."""

from __future__ import annotations

import gzip
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ostinato.core.errors import ConfigError, DataError
from ostinato.embed.files import Errors, Kind, kind_of, read_vectors, write_vectors
from ostinato.embed.vectors import Vectors

Put = Callable[[bytes], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Write a file and tell where it is."""

    def write(content: bytes) -> Path:
        path = tmp_path / "file"
        path.write_bytes(content)
        return path

    return write


def record(word: bytes, numbers: list[float], after: bytes = b"\n") -> bytes:
    return word + b" " + struct.pack(f"<{len(numbers)}f", *numbers) + after


def holds(vectors: Vectors) -> dict[str, list[float]]:
    return dict(zip(vectors.words, vectors.array.tolist(), strict=True))


# text


@pytest.mark.parametrize(
    ("content", "kind", "wanted"),
    [
        (b"2 2\na 1 2\nb 3 4\n", "word2vec-text", {"a": [1, 2], "b": [3, 4]}),
        (b"2 2\na 1 2\nb 3 4", "word2vec-text", {"a": [1, 2], "b": [3, 4]}),
        (b"2 2 \r\na 1 2 \r\nb 3 4\t\r\n\r\n", "word2vec-text", {"a": [1, 2], "b": [3, 4]}),
        (b"\xef\xbb\xbf2 2\na\t1\t2\nb  3   4\n", "word2vec-text", {"a": [1, 2], "b": [3, 4]}),
        (b"\xef\xbb\xbfa 1 2\n\n  b 3 4\n", "glove", {"a": [1, 2], "b": [3, 4]}),
        (b"a 1 2\n. . . 3 4\nat 5 5 6\nb 7 8\n", "glove", {"a": [1, 2], ". . .": [3, 4], "at 5": [5, 6], "b": [7, 8]}),
        (b". . 3 4\na 1 2\n", "glove", {". .": [3, 4], "a": [1, 2]}),
        (b"1 1 2\n2 3 4\n", "glove", {"1": [1, 2], "2": [3, 4]}),
        (b"2 1\n2 1\n1 2\n", "word2vec-text", {"2": [1], "1": [2]}),
        (b"2 2\n 1 2\na 3 4\n", "word2vec-text", {"": [1, 2], "a": [3, 4]}),
        (b"1 1\n\xc2\xa0\xe2\x80\xa8\x0b 1\n", "word2vec-text", {"\u00a0\u2028\v": [1]}),
        (b"1 2\nx " + b"9" * 20 + b" 1 2\n", "word2vec-text", {"x " + "9" * 20: [1, 2]}),
        (b"1 2\na\tb 1 2\n", "word2vec-text", {"a\tb": [1, 2]}),
    ],
)
def test_texts_as_they_are_found_are_read(put: Put, content: bytes, kind: Kind, wanted: dict[str, list[float]]) -> None:
    path = put(content)
    assert kind_of(path) == kind
    assert holds(read_vectors(path)) == wanted


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"2 2\na 1 2\n\nb 3\n", ":4: ", "a word and 2 numbers should be here, not 1 after 'b'; .* cut short"),
        (b"2 2\na 1 2\nb 3 x\n", ":3: ", "'x' is no number; the word 'b' needs 2"),
        (b"2 2\na 1 2\n3 4\n", ":3: ", "a word and 2 numbers should be here, not 1 after '3'"),
        (b"2 2\na 1 NaN\nb 3 4\n", ":2: ", "number 2 of 'a' is 'NaN', not finite"),
        (b"2 2\na 1 2\nb -inf 4\n", ":3: ", "number 1 of 'b' is '-inf', not finite"),
        (b"2 2\na 1 2\nb 3 1e39\n", ":3: ", "too large for float32"),
        (b"2 2\na 1 2\nb 3 1" + b"0" * 50 + b"\n", ":3: ", "'1000.*' is too large for float32"),
        (b"2 2\na 1 2\nb 3 4\nc 5 6\n", ":4: ", "'c' is one more than the 2 words that the header states"),
        (b"3 2\na 1 2\nb 3 4\n", ": ", "the header states 3 words, but there are 2; the file is cut short"),
        (b"9 2\na 1 2\nb 3 4\n", ":1: ", "16 bytes cannot hold the 9 words of 2 numbers"),
        (b"2 2\na 1 2\na 3 4\n", ":3: ", "'a' has a vector already, at .*file:2; .*keep the first"),
        (b"2 2\na 1 2\nb\xff 3 4\n", ":3: ", r"the word 'b\\\\xff' is not UTF-8"),
        (b"2 0\na\nb\n", ":1: ", "2 words of 0 numbers: no vectors"),
        (b"0 2\n", ":1: ", "0 words of 2 numbers: no vectors"),
        (b"2 2\na 1 2\nb \x00 4\n", ":3: ", "a NUL byte"),
        (b"2 2\n\n\n", ":1: ", "cannot hold|cut short"),
        (b"a 1 2\nb 3 4\nc 5\nd 6 7\n", ":3: ", "a word and 2 numbers should be here, not 1"),
    ],
)
def test_a_faulty_text_is_refused_with_file_and_line(put: Put, content: bytes, where: str, what: str) -> None:
    path = put(content)
    with pytest.raises(DataError, match=re.escape(f"{path}{where}") + f".*{what}"):
        read_vectors(path)


def test_a_kind_that_does_not_fit_says_which_would(put: Put) -> None:
    with pytest.raises(DataError, match=r":1: .* not 'a 1 2'; a file without them is read as kind glove"):
        read_vectors(put(b"a 1 2\nb 3 4\n"), "word2vec-text")
    with pytest.raises(DataError, match=r"a NUL byte.* is it kind word2vec-binary"):
        read_vectors(put(b"2 1\n" + record(b"a", [1.0]) + record(b"b", [2.0])), "word2vec-text")
    with pytest.raises(DataError, match=r"not a file of word vectors; .*not 'Call me Ishmael.'"):
        read_vectors(put(b"Call me Ishmael.\nSome years ago\n"))


def test_a_fault_in_a_late_block_has_its_line(put: Put) -> None:
    lines = [b"w%d 0.5 0.25" % number for number in range(200_000)]
    lines[150_000] += b" x"
    with pytest.raises(DataError, match=r"file:150002: 'x' is no number"):
        read_vectors(put(b"200000 2\n" + b"\n".join(lines)))
    lines[150_000] = lines[3]
    with pytest.raises(DataError, match=r"file:150002: 'w3' has a vector already, at .*file:5;"):
        read_vectors(put(b"200000 2\n" + b"\n".join(lines)))


# binary


@pytest.mark.parametrize("after", [b"\n", b""])
def test_binaries_of_word2vec_and_of_gensim_are_read(put: Put, after: bytes) -> None:
    content = b"3 2\n" + b"".join(record(word, [1.5, -2], after) for word in (b"</s>", "wörd".encode(), b"x"))
    path = put(content)
    assert kind_of(path) == "word2vec-binary"
    assert holds(read_vectors(path)) == {"</s>": [1.5, -2], "wörd": [1.5, -2], "x": [1.5, -2]}


def test_odd_words_of_word2vec_are_read_as_they_are(put: Put) -> None:
    """Blanks inside can be told by the line feed after each vector, even where numbers hold these bytes."""
    tricky = list(struct.unpack("<3f", b"\n           "))
    words = [b"</s>", b"New York", b"a b  c", b"line\nfeed", b"tab\tbed", b"", b"last one"]
    path = put(b"7 3\n" + b"".join(record(word, tricky) for word in words))
    assert list(read_vectors(path, "word2vec-binary").words) == [word.decode() for word in words]


@pytest.mark.parametrize("words", [[b"New York", b"a", b"ok"], [b"a  b c"], [b"x y", b"", b"z z", b"w", b"v u"]])
@pytest.mark.parametrize("numbers", [[1.0, 2.0], [-0.37, 0.91], list(struct.unpack("<2f", b"       \n"))])
def test_the_first_word_may_hold_blanks(put: Put, words: list[bytes], numbers: list[float]) -> None:
    content = b"%d 2\n" % len(words) + b"".join(record(word, numbers) for word in words)
    assert list(read_vectors(put(content), "word2vec-binary").words) == [word.decode() for word in words]
    unfed = [word.replace(b" ", b"_") for word in words]
    content = b"%d 2\n" % len(words) + b"".join(record(word, numbers, b"") for word in unfed)
    assert list(read_vectors(put(content), "word2vec-binary").words) == [word.decode() for word in unfed]


def test_line_feeds_before_a_word_go_away_as_in_gensim(put: Put) -> None:
    path = put(b"2 1\r\n\n\n" + record(b"a", [1.0], b"") + b"\n\n" + record(b"b", [2.0], b"\n\n"))
    assert holds(read_vectors(path, "word2vec-binary")) == {"a": [1], "b": [2]}


ONE, TWO = record(b"a", [1.0, 2.0]), record(b"b", [3.0, 4.0])


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"2 2\n" + ONE + TWO[:-3], r": word 2 \(byte 14\): the file ends before the last of the 2 words"),
        (b"3 2\n" + ONE + TWO + b"longer word", r": word 3 \(byte 25\): the file ends before"),
        (b"9 2\n" + ONE + TWO, ": 26 bytes cannot hold the 9 words"),
        (b"2 2\n" + ONE + TWO + TWO, ": something follows the last of the 2 words that the header states, at byte 25"),
        (b"2 2\n" + ONE + record(b"b", [3.0, np.inf]), r": word 2 \(byte 15\): 'b' has a number that is not finite"),
        (b"2 2\n" + ONE + ONE, r"word 2 \(byte 15\): 'a' has a vector already, at .*word 1 \(byte 4\); "),
        (b"2 2\n" + ONE + record(b"\xffb", [3.0, 4.0]), r"word 2 \(byte 15\): '\\\\xffb' is not UTF-8; .*'keep'"),
        (b"2 2\n" + ONE + TWO[:-1] + b"x", r"word 2 \(byte 14\): the vector of 'b' is not followed by a line feed"),
        (b"2 2\n" + ONE + b"b" * 70_000, r"word 2 \(byte 14\): no blank ends this word"),
    ],
)
def test_a_faulty_binary_is_refused_with_word_and_byte(put: Put, content: bytes, what: str) -> None:
    path = put(content)
    with pytest.raises(DataError, match=re.escape(str(path)) + f".*{what}"):
        read_vectors(path, "word2vec-binary")


def test_a_number_that_is_not_finite_deep_inside_is_found(put: Put) -> None:
    records = [record(b"w%d" % number, [0.5] * 50) for number in range(20_000)]
    records[15_000] = record(b"bad", [0.5] * 49 + [np.nan])
    begin = len(b"20000 50\n") + sum(map(len, records[:15_000]))
    with pytest.raises(DataError, match=rf"word 15,001 \(byte {begin:,}\): 'bad' has a number that is not finite"):
        read_vectors(put(b"20000 50\n" + b"".join(records)))


# words that are not UTF-8, that repeat, that a format cannot hold


@pytest.mark.parametrize("kind", ["word2vec-text", "word2vec-binary", "glove"])
def test_words_that_are_not_utf8_are_refused_replaced_or_kept(put: Put, tmp_path: Path, kind: Kind) -> None:
    odd = [b"caf\xe9", b"\xf0\x9f", "café".encode()]
    lines = b"".join(word + b" 1.0 2.0\n" for word in odd)
    binary = b"3 2\n" + b"".join(record(word, [1, 2]) for word in odd)
    path = put({"glove": lines, "word2vec-text": b"3 2\n" + lines}.get(kind, binary))
    with pytest.raises(DataError, match="is not UTF-8"):
        read_vectors(path)
    assert read_vectors(path, errors="replace").words == ("caf\ufffd", "\ufffd", "café")
    kept = read_vectors(path, errors="keep")
    assert kept.words[0] == "caf\udce9"
    write_vectors(kept, tmp_path / "again", kind)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    kept.save(tmp_path / "folder")
    write_vectors(Vectors.load(tmp_path / "folder"), tmp_path / "again", kind)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("errors", ["strict", "replace"])
def test_of_repeated_words_the_first_may_be_kept(put: Put, tmp_path: Path, errors: Errors) -> None:
    again = b"a" if errors == "strict" else b"\xff"
    first = b"a" if errors == "strict" else b"\xfe"
    content = first + b" 1 2\nb 3 4\n" + again + b" 5 6\nc 7 8\n" + again + b" 9 9\n"
    name = first.decode("utf8", "replace")
    for text in (content, b"5 2\n" + content):
        with pytest.raises(DataError, match="has a vector already"):
            read_vectors(put(text), errors=errors)
        for folder in (None, tmp_path):
            found = read_vectors(put(text), errors=errors, repeated="first", folder=folder)
            assert holds(found) == {name: [1, 2], "b": [3, 4], "c": [7, 8]}


@pytest.mark.parametrize("word", ["New York", "a\nb", "\t", "a\r", "", "\v"])
@pytest.mark.parametrize("kind", ["word2vec-text", "word2vec-binary", "glove"])
def test_words_that_a_format_cannot_hold_are_refused_or_mended(tmp_path: Path, word: str, kind: Kind) -> None:
    vectors = Vectors(["fine", word], np.array([[1, 2], [3, 4]], np.float32))
    path = tmp_path / "file"
    with pytest.raises(DataError, match=re.escape(f"word 2, {word!r}, ") + ".*--replace-blanks"):
        write_vectors(vectors, path, kind)
    assert not path.exists()
    write_vectors(vectors, path, kind, replace_blanks="_")
    mended = re.sub(r"\s", "_", word) or "_"
    assert holds(read_vectors(path)) == {"fine": [1, 2], mended: [3, 4]}


def test_words_that_cannot_be_written_apart_are_refused(tmp_path: Path) -> None:
    array = np.ones((2, 2), np.float32)
    with pytest.raises(DataError, match="'a_b' and 'a b' would both be written as 'a_b'"):
        write_vectors(Vectors(["a_b", "a b"], array), tmp_path / "file", "glove", replace_blanks="_")
    with pytest.raises(ConfigError, match="something without white space, got ' '"):
        write_vectors(Vectors(["a", "b"], array), tmp_path / "file", "glove", replace_blanks=" ")
    with pytest.raises(DataError, match=r"'\\ud800' holds a lone surrogate"):
        write_vectors(Vectors(["a", "\ud800"], array), tmp_path / "file", "glove")
    with pytest.raises(DataError, match="begins with a byte order mark"):
        write_vectors(Vectors(["\ufeffa", "b"], array), tmp_path / "file", "glove")
    for kind in ("word2vec-text", "word2vec-binary"):
        write_vectors(Vectors(["\ufeffa", "b"], array), tmp_path / "file", kind)  # type: ignore[arg-type]
        assert read_vectors(tmp_path / "file").words == ("\ufeffa", "b")


def test_a_number_that_is_not_finite_is_not_written(tmp_path: Path) -> None:
    vectors = Vectors(["a", "b"], np.array([[1, 2], [3, np.nan]], np.float32))
    for kind in ("word2vec-text", "word2vec-binary"):
        with pytest.raises(DataError, match="the vector of 'b' has a number that is not finite"):
            write_vectors(vectors, tmp_path / "file", kind)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# other kinds of file


def test_a_pickle_of_gensim_is_refused_with_what_to_do(tmp_path: Path) -> None:
    models = pytest.importorskip("gensim.models")
    keyed = models.KeyedVectors(2)
    keyed.add_vectors(["a"], np.ones((1, 2), np.float32))
    keyed.save(str(tmp_path / "v.kv"))
    with pytest.raises(DataError, match=r"v\.kv: a Python pickle.*save_word2vec_format\(PATH, binary=True\)"):
        read_vectors(tmp_path / "v.kv")


def test_tensors_and_arrays_are_refused_with_what_to_do(tmp_path: Path) -> None:
    import torch

    torch.save({"a": torch.ones(2)}, tmp_path / "new.pt")
    torch.save({"a": torch.ones(2)}, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    for name in ("new.pt", "old.pt"):
        with pytest.raises(DataError, match=f"{name}: tensors of torch"):
            read_vectors(tmp_path / name)
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    with pytest.raises(DataError, match="a NumPy array, which has no words"):
        read_vectors(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (struct.pack("<ii", 793712314, 12), "a fastText model .*print-word-vectors"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        ("a 1 2\n".encode("utf-16"), "UTF-16 text.*iconv"),
        (b"", "empty"),
        (b"PK\x03\x04 broken", "a damaged zip archive"),
    ],
)
def test_files_of_other_kinds_are_known_by_how_they_begin(put: Put, begin: bytes, what: str) -> None:
    with pytest.raises(DataError, match=what):
        read_vectors(put(begin))
    with pytest.raises(DataError, match=what):
        read_vectors(put(begin), "word2vec-binary")


def test_a_zip_archive_names_its_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "glove.zip", "w") as archive:
        archive.writestr("glove.6B.50d.txt", "a 1 2\n")
    with pytest.raises(DataError, match=r"a zip archive \(of glove.6B.50d.txt\); unpack it"):
        read_vectors(tmp_path / "glove.zip")


def test_what_is_not_there_or_cut_short_is_said(tmp_path: Path) -> None:
    import zstandard

    with pytest.raises(DataError, match="no such file"):
        read_vectors(tmp_path / "none")
    with pytest.raises(DataError, match="a directory without vectors of ours"):
        read_vectors(tmp_path)
    checked = zstandard.ZstdCompressor(write_checksum=True).compress
    content = b"".join(b"w%d 0.%d\n" % (number, number) for number in range(9_000))
    for name, pack in (("v.gz", gzip.compress), ("v.zst", checked)):
        packed = pack(content)
        (tmp_path / name).write_bytes(packed[: len(packed) // 2])
        with pytest.raises(DataError, match=f"{name}: damaged or cut short"):
            read_vectors(tmp_path / name)
        (tmp_path / name).write_bytes(packed[:90] + b"damaged" + packed[97:])
        with pytest.raises(DataError, match=name):
            read_vectors(tmp_path / name)
