"""Streams: what was written is what is read, and nothing is left behind when something fails."""

from __future__ import annotations

import errno
import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import DataError, FormatError, MismatchError, StorageError
from ostinato.core.vocabulary import Vocabulary
from ostinato.text import spool, stream
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.stream import TokenStream, encode, encode_files
from ostinato.text.tokenise import make_tokeniser

WORDS = Pipeline(Normaliser(), make_tokeniser("blank"))
CHARS = Pipeline(Normaliser(["nfc"]), make_tokeniser("char"))
VOCABULARY = Vocabulary(["a", "b", "月"])
lines = st.lists(st.sampled_from(["a", "b", "月", "x", "<unk>", "</s>"]), max_size=4).map(" ".join)
documents = st.lists(st.lists(lines, max_size=5), min_size=1, max_size=4)


@settings(deadline=None, max_examples=60)
@given(documents)
def test_a_stream_is_the_ids_of_its_lines_each_with_its_end(texts):
    whole = [line for text in texts for line in text]
    if not whole:
        with pytest.raises(DataError, match="empty"):
            encode(texts, WORDS, VOCABULARY)
        return
    found = encode(texts, WORDS, VOCABULARY)
    wanted = [[*VOCABULARY.ids(line.split()), VOCABULARY.stop] for line in whole]
    np.testing.assert_array_equal(found.ids, np.concatenate(wanted))
    sizes = [len(ids) for ids in wanted]
    np.testing.assert_array_equal(found.line_starts, np.cumsum([0, *sizes[:-1]]))
    begins = np.cumsum([0, *(sum(len(line.split()) + 1 for line in text) for text in texts)])
    np.testing.assert_array_equal(found.starts, sorted(set(begins[:-1]) - {begins[-1]}))
    assert found.unknown == np.count_nonzero(np.concatenate(wanted) == VOCABULARY.unknown)
    assert found.lines == len(whole)


def test_size_is_that_of_the_normalised_text():
    found = encode([["e\u0301月", ""]], CHARS, VOCABULARY)
    assert (found.characters, found.bytes) == ((2 + 1) + (0 + 1), (2 + 3 + 1) + (0 + 1))
    assert len(found) == found.characters


def test_the_name_changes_with_the_content_and_with_nothing_else(tmp_path):
    (tmp_path / "t.txt").write_text("a b\nb 月\n", "utf8")
    (tmp_path / "t.gz").write_bytes(gzip.compress("\ufeffa b\r\nb 月".encode()))
    plain = encode_files([tmp_path / "t.txt"], WORDS, VOCABULARY)
    packed = encode_files([tmp_path / "t.gz"], WORDS, VOCABULARY)
    as_characters = encode_files([tmp_path / "t.txt"], CHARS, VOCABULARY)
    other = encode([["a b", "b a"]], WORDS, VOCABULARY)
    split = encode([["a b"], ["b 月"]], WORDS, VOCABULARY)
    digits = [found.data.split("#")[1] for found in (plain, packed, as_characters, other, split)]
    assert plain.data.startswith("t.txt#")
    assert digits[0] == digits[1] == digits[2]
    assert len(set(digits)) == 3


def test_a_stream_on_disk_is_mapped_and_as_small_as_the_vocabulary_allows(tmp_path):
    small = encode([["a 月"], ["b"]], WORDS, VOCABULARY, tmp_path / "small")
    assert isinstance(small.ids, np.memmap)
    assert small.ids.dtype == np.uint16
    large = Vocabulary([*map(str, range(1 << 16)), "a"])
    again = encode([["a 7"]], WORDS, large, tmp_path / "large")
    assert again.ids.dtype == np.uint32
    assert again.ids.tolist() == [(1 << 16) + 2, 7 + 2, large.stop]
    reopened = TokenStream.open(tmp_path / "small")
    assert reopened.ids.tolist() == small.ids.tolist()
    assert sorted(path.name for path in (tmp_path / "small").iterdir()) == ["ids.bin", "stream.json"]


def test_many_chunks_are_as_good_as_one(monkeypatch):
    texts = [["a b 月 x"] * 7, ["b"] * 5]
    whole = encode(texts, WORDS, VOCABULARY)
    monkeypatch.setattr(spool, "CHUNK", 3)
    monkeypatch.setattr(stream, "CHUNK", 3)
    small = encode(texts, WORDS, VOCABULARY)
    assert small.ids.tolist() == whole.ids.tolist()
    assert small.line_starts.tolist() == whole.line_starts.tolist()
    assert small.data == whole.data


def test_progress_counts_tokens_and_ends_at_the_whole(tmp_path):
    (tmp_path / "t.txt").write_text("a b\n" * 3000)
    reports = []
    encode_files([tmp_path / "t.txt"], WORDS, VOCABULARY, watch=reports.append)
    assert (reports[-1].tokens, reports[-1].share) == (9000, 1.0)
    assert reports[-1].note.endswith("tokens/s")


def damage_json(folder, key, value):
    content = json.loads((folder / "stream.json").read_text())
    content.pop(key)
    if value is not None:
        content[key] = value
    (folder / "stream.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "ids.bin").write_bytes(b"\1\0"), "cut short"),
        (lambda folder: (folder / "ids.bin").write_bytes(b"\2\0" * 5), "checksum"),
        (lambda folder: (folder / "ids.bin").unlink(), "cannot be read"),
        (lambda folder: (folder / "stream.json").unlink(), "missing"),
        (lambda folder: (folder / "stream.json").write_text("{"), "damaged JSON"),
        (lambda folder: (folder / "stream.json").write_text("[]"), "not a stream"),
        (lambda folder: damage_json(folder, "starts", None), "not a stream"),
        (lambda folder: damage_json(folder, "dtype", "rubbish"), "not a stream"),
        (lambda folder: damage_json(folder, "format", 99), "newer"),
    ],
)
def test_a_damaged_stream_is_refused(tmp_path, damage, message):
    encode([["a 月", "b"]], WORDS, VOCABULARY, tmp_path / "s")
    damage(tmp_path / "s")
    with pytest.raises(FormatError, match=message):
        TokenStream.open(tmp_path / "s")


def test_a_stream_of_another_vocabulary_is_refused():
    with pytest.raises(MismatchError, match="encode the text again"):
        encode([["a"]], WORDS, VOCABULARY).check(Vocabulary(["a", "b"]))


def test_nothing_is_overwritten(tmp_path):
    encode([["a"]], WORDS, VOCABULARY, tmp_path / "s")
    with pytest.raises(StorageError, match="never overwritten"):
        encode([["b"]], WORDS, VOCABULARY, tmp_path / "s")


def interrupted():
    yield "a b"
    raise KeyboardInterrupt


def test_ctrl_c_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        encode([interrupted()], WORDS, VOCABULARY, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("step", ["write_json", "write_stream", "spooled"])
def test_a_full_disk_leaves_nothing_and_says_so(tmp_path, monkeypatch, step):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(stream, step, full)
    with pytest.raises(StorageError, match="no space left"):
        encode([["a"]], WORDS, VOCABULARY, tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_half_a_surrogate_pair_is_no_text():
    with pytest.raises(DataError, match="line 2 holds"):
        encode([["a", "b \ud800"]], WORDS, VOCABULARY)
