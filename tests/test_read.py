"""Reading lines: what ends a line, what is not text, and where it says so."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import DataError
from ostinato.text import read
from ostinato.text.read import LineReader, check_readable, read_lines

POEM = "床前明月光\n疑是地上霜\n\n  \nJosé’s café\n"


def written(folder: Path, content: bytes, name: str = "t.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def arriving(data: bytes, size: int) -> SimpleNamespace:
    """A standard input that gives a few bytes at a time."""
    source = io.BytesIO(data)
    return SimpleNamespace(buffer=SimpleNamespace(read1=lambda _: source.read(size)))


def test_blank_lines_are_left_out_or_kept(tmp_path):
    path = written(tmp_path, POEM.encode())
    assert list(read_lines(path)) == ["床前明月光", "疑是地上霜", "José’s café"]
    assert list(read_lines(path, "keep")) == ["床前明月光", "疑是地上霜", "", "  ", "José’s café"]


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("a.txt", bytes),
        ("a.gz", gzip.compress),
        ("a.zst", zstandard.compress),
        ("b.gz", lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:])),
        ("b.zst", lambda data: zstandard.compress(data[:9]) + zstandard.compress(data[9:])),
    ],
)
def test_packed_files_give_the_same_lines(tmp_path, name, pack):
    assert list(read_lines(written(tmp_path, pack(POEM.encode()), name), "keep")) == POEM.split("\n")[:-1]


def test_a_byte_order_mark_and_carriage_returns_are_not_text(tmp_path):
    path = written(tmp_path, b"\xef\xbb\xbfone\r\ntwo\r\n\xef\xbb\xbfthree")
    assert list(read_lines(path)) == ["one", "two", "\ufeffthree"]


def test_only_a_line_feed_ends_a_line(tmp_path):
    line = "a\x0cb\x0bc\u2028d\u0085e\rf"
    assert list(read_lines(written(tmp_path, line.encode()))) == [line]


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0\ufeff", codec="utf8"))), st.integers(1, 7))
def test_lines_do_not_depend_on_how_bytes_arrive(lines, size):
    data = "".join(line + "\n" for line in lines).encode()
    stdin = arriving(data, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        assert list(read_lines("-", "keep")) == lines


@settings(deadline=None)
@given(st.integers(5, 12), st.text("ab é月\t", max_size=60), st.integers(1, 9))
def test_a_long_line_is_cut_the_same_way_however_it_arrives(longest, line, size):
    stdin = arriving(line.encode() + b"\nend", size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", stdin)
        patch.setattr(read, "LONGEST_LINE", longest)
        *parts, end = read_lines("-", "keep")
        whole = list(read._parts(line))
    assert parts == whole
    assert end == "end"
    assert all(len(part.encode()) <= longest for part in parts)
    assert "".join(parts).replace(" ", "").replace("\t", "") == line.replace(" ", "").replace("\t", "")


def test_a_long_line_is_cut_at_a_blank(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "LONGEST_LINE", 8)
    assert list(read_lines(written(tmp_path, "one two three 床前明月".encode()))) == [
        "one two",
        "three",
        "床前",
        "明月",
    ]


def test_a_byte_that_is_not_utf8_is_named_with_file_line_and_column(tmp_path):
    path = written(tmp_path, "一\n二\nab".encode() + b"\xe9c\n")
    lines = read_lines(path)
    with pytest.raises(DataError, match=r"t\.txt:3: byte 3 \(0xe9\) is not UTF-8; convert") as fault:
        list(lines)
    assert "\n" not in str(fault.value)


def test_a_bad_byte_far_into_a_file_has_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr(read, "_BLOCK", 16)
    with pytest.raises(DataError, match=r"t\.txt:101: byte 1 "):
        list(read_lines(written(tmp_path, b"0123456\n" * 100 + b"\xff\n")))


def test_a_character_cut_off_at_the_end_is_an_error(tmp_path):
    with pytest.raises(DataError, match=r":1: byte 4 \(0xe6\)"):
        list(read_lines(written(tmp_path, "月月".encode()[:-1])))


@pytest.mark.parametrize("content", [b"ok\n\x89PNG\0\0", "text".encode("utf-16")])
def test_binary_data_is_refused(tmp_path, content):
    with pytest.raises(DataError, match=r"t\.txt:\d: binary data \(a NUL byte\)"):
        list(read_lines(written(tmp_path, content)))


@pytest.mark.parametrize("name", ["c.gz", "c.zst"])
def test_a_packed_file_cut_short_is_an_error_not_the_end(tmp_path, name):
    content = os.urandom(30_000).hex().encode()
    packed = gzip.compress(content) if name == "c.gz" else zstandard.compress(content)
    for cut in (len(packed) - 5, len(packed) // 2):
        with pytest.raises(DataError, match=name):
            list(read_lines(written(tmp_path, packed[:cut], name)))
    with pytest.raises(DataError, match="not a whole"):
        list(read_lines(written(tmp_path, b"plain text, no header", name)))


def test_a_missing_file_and_a_directory_are_one_line(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.txt: no such file"):
        read_lines(tmp_path / "nowhere.txt")
    with pytest.raises(DataError, match="a directory"):
        list(read_lines(tmp_path))
    with pytest.raises(DataError, match="no such file"):
        check_readable([written(tmp_path, b"x"), tmp_path / "gone"])
    with pytest.raises(DataError, match="only once"):
        check_readable(["-", "-"])


def test_the_share_read_so_far_ends_at_the_whole(tmp_path):
    reader = LineReader(written(tmp_path, gzip.compress(POEM.encode()), "p.gz"))
    assert reader.done == 0
    list(reader)
    assert reader.done == reader.size
