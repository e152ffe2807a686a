"""Text read by kernels: the same as line by line in Python, whatever the bytes, the blocks and the threads."""

from __future__ import annotations

import gzip
import io
import itertools
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ostinato.core.errors import DataError, FormatError
from ostinato.core.vocabulary import Vocabulary
from ostinato.kernels import scan as kernels
from ostinato.text import read, scan, spool
from ostinato.text.corpora import DataOptions, prepare
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.scan import Encoder, Scanner
from ostinato.text.sources import Source
from ostinato.text.spool import Meter, Spool
from ostinato.text.stream import encode_files
from ostinato.text.tokenise import make_tokeniser

PLAIN = Pipeline(Normaliser(), make_tokeniser("blank"))
SPACES = [chr(code) for code in range(0x110000) if chr(code).isspace() and chr(code) != "\n"]
WORDS = ["a", "b", "</s>", "<s>", "<unk>", "12345678", "123456789", "12345678x", "月", "d’accord", "\u2029", "\u200b"]
WORDS += ["\x01", "\x1b", "\ufeff", "é", "\u0400\u1681\u2081\u3001", "𝄞", "ein-sehr-langes-Wort-mit-vielen-Zeichen"]

words = st.one_of(st.sampled_from(WORDS), st.text(st.characters(exclude_characters="\n\0", codec="utf8"), max_size=9))
blanks = st.sampled_from([" ", " ", " ", "\t", "\r", "  ", "", *SPACES])
line = st.lists(st.tuples(words, blanks), max_size=12).map(lambda pairs: "".join(word + end for word, end in pairs))
feeds = st.sampled_from(["\n", "\n", "\r\n", "\r\r\n", "\n\n"])
texts = st.builds(
    lambda mark, lines, last: (mark + "".join(text + end for text, end in lines) + last).encode(),
    st.sampled_from(["", "", "\ufeff", "\ufeff\ufeff"]),
    st.lists(st.tuples(line, feeds), max_size=20),
    line,
)
faults = [b"\0", b"\xff", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xf0\x80\x80\x80", b"\xf4\x90\x80\x80"]
faults += [b"\x80", b"\xc3", b"\xe2\x80", b"\xf0\x9d\x84", b"\xf5\x80\x80\x80", b"\xe0\x9f\xbf", b"\xf0\x8f\xbf\xbf"]
faults += [b"\xc1\xbf", b"\xc3\xa9\x80", b"\xed\xbf\xbf", b"\xf7\xbf\xbf\xbf"]
few = settings(deadline=None, max_examples=150)


@contextmanager
def tiny(block: int, share: int = 16, longest: int = 1 << 20) -> Iterator[None]:
    """Blocks of so many bytes, kernels from the first byte on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scan, "BLOCK", block)
        patch.setattr(scan, "LINES", block)
        patch.setattr(scan, "SCRATCH", 130)
        patch.setattr(scan, "SMALL", 0)
        patch.setattr(scan, "SHARE", share)
        patch.setattr(read, "LONGEST_LINE", longest)
        yield


def spooled(folder: Path, sources: list[Source], threads: int = 1) -> Spool:
    """The sources numbered in a folder of their own."""
    folder.mkdir(exist_ok=True)
    made = Spool(folder, PLAIN, Meter("reading", lambda _: None), threads)
    made.read(sources)
    return made


def content(made: Spool) -> tuple[object, ...]:
    """Everything a spool knows."""
    ids = [int(number) for chunk in made.ids(0, made.tokens) for number in chunk]
    facts = made.facts(0, made.lines).tolist()
    return list(made.numbering.items()), ids, facts, made.documents, made.ends, made.lines, made.tokens


def written(folder: Path, texts: list[bytes]) -> list[Path]:
    paths = [folder / f"{number}.txt" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_bytes(text)
    return paths


def slow(folder: Path, paths: list[Path], empty_lines: read.EmptyLines = "skip") -> tuple[object, ...] | str:
    """What Python alone makes of the files, or the error."""
    try:
        return content(spooled(folder, [Source.of_files([path], empty_lines) for path in paths]))
    except DataError as fault:
        return str(fault)


def fast(folder: Path, paths: list[Path], empty_lines: read.EmptyLines = "skip", threads: int = 1) -> object:
    """What the kernels make of them, or the error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "CHUNK", 5)
        return slow_or_fast(folder, paths, empty_lines, threads)


def slow_or_fast(folder: Path, paths: list[Path], empty_lines: read.EmptyLines, threads: int) -> object:
    try:
        return content(spooled(folder, [Source.of_files([path], empty_lines) for path in paths], threads))
    except DataError as fault:
        return str(fault)


@few
@given(
    st.lists(texts, min_size=1, max_size=3), st.sampled_from(["skip", "keep"]), st.integers(1, 400), st.integers(1, 3)
)
def test_kernels_number_a_text_as_python_does(tmp_path_factory, given_texts, empty_lines, block, threads):
    folder = tmp_path_factory.mktemp("scan")
    paths = written(folder, given_texts)
    wanted = slow(folder / "slow", paths, empty_lines)
    with tiny(block):
        assert fast(folder / "fast", paths, empty_lines, threads) == wanted


@few
@given(texts, st.sampled_from(faults), st.integers(0, 300), st.integers(1, 3))
def test_what_is_no_text_is_the_same_error(tmp_path_factory, text, fault, place, threads):
    folder = tmp_path_factory.mktemp("scan")
    place = min(place, len(text))
    paths = written(folder, [text[:place] + fault + text[place:]])
    wanted = slow(folder / "slow", paths)
    with tiny(1 << 20):
        assert fast(folder / "fast", paths, threads=threads) == wanted


edges = [0x7F, 0x80, 0x7FF, 0x800, 0xFFF, 0x1000, 0xCFFF, 0xD000, 0xD7FF, 0xE000, 0xFFFF, 0x10000, 0x3FFFF, 0x40000]
edges += [0xFFFFF, 0x100000, 0x10FFFF]


def sound(text: bytes, longest: int = 1 << 20) -> bool:
    data = np.frombuffer(b"\n\n\n" + text + b"\n" * 65, np.uint8)
    return bool(kernels.sound(data, 3, 3 + len(text) + 1, longest))


@few
@given(st.lists(st.sampled_from([*faults, *(bytes([byte]) for byte in range(0x7F, 0x100))]), max_size=4), st.text())
def test_a_text_is_sound_exactly_if_it_can_be_decoded(parts, around):
    text = around.encode() + b"".join(parts)
    try:
        wanted = bool(text.decode() or True)
    except UnicodeDecodeError:
        wanted = False
    assert sound(text) == (wanted and b"\0" not in text)


@pytest.mark.parametrize("before", [0, 1, 60, 61, 62, 63, 64])
def test_every_fault_is_seen_and_every_character_is_sound(before):
    for fault in faults:
        assert not sound(b"x" * before + fault)
        assert not sound(b"x" * before + fault + b" y")
    for letter in map(chr, edges):
        assert sound(("x" * before + letter * 30).encode())
    assert sound(b"x" * before + b"\n" + b"y" * before, before)
    assert not sound(b"x" * before + b"\n" + b"y" * (before + 1) + b"\nz", before)


@few
@given(texts, st.integers(4, 12), st.integers(1, 60), st.sampled_from(["skip", "keep"]))
def test_long_lines_are_cut_the_same_way(tmp_path_factory, text, longest, block, empty_lines):
    folder = tmp_path_factory.mktemp("scan")
    paths = written(folder, [text, b"last one"])
    with tiny(block, longest=longest):
        found = fast(folder / "fast", paths, empty_lines, 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scan, "SMALL", 1 << 30)
            assert found == slow(folder / "slow", paths, empty_lines)


def test_every_white_space_of_unicode_is_found_at_every_place():
    for blank in SPACES:
        text = "".join("x" * size + blank for size in range(130)).encode() + b"\n"
        with tiny(1 << 20):
            ids, ends = Encoder(Vocabulary(["x" * size for size in range(1, 130)])).ids(text)
        assert ids.tolist() == [*range(2, 131), 1], hex(ord(blank))
        assert ends.tolist() == [130]


def test_no_other_character_is_white_space():
    others = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    line = "".join(letter for letter in others if not letter.isspace())
    assert Encoder(Vocabulary([line, "x"])).ids(line.encode())[0].tolist() == [2, 1]


@pytest.mark.parametrize("size", [1, 7, 8, 9, 15, 16, 17, 40])
def test_words_that_differ_in_one_byte_are_different(size):
    near = ["a" * place + "b" + "a" * (size - place - 1) for place in range(size)] + ["a" * size, "a" * (size + 1)]
    ids, _ = Encoder(Vocabulary(near)).ids(" ".join(near).encode())
    assert ids.tolist() == [*range(2, len(near) + 2), 1]


def test_a_piece_that_no_text_can_hold_is_never_found():
    for odd in ("c\0", "\0", "c\nc", "", "\ud800"):
        assert Encoder(Vocabulary([odd, "c"])).ids(b"c c\n\n")[0].tolist() == [3, 3, 1, 1]
        assert Encoder(Vocabulary(["c", odd])).ids(b"c c\n\n")[0].tolist() == [2, 2, 1, 1]


def test_two_long_words_with_the_same_key_are_told_apart():
    """Their keys are made equal in the table, so that only the bytes differ."""
    one, two = b"the-first-long-word", b"a-second-long-word!"
    data = np.frombuffer(b"\n\n\n" + one + b"\n" * 70, np.uint8)
    key = kernels.key_of(data, 3, 3 + len(one))
    words = scan.Words()
    words.add([two.decode()])
    slot = int(np.flatnonzero(words.slots[:, 0])[0])
    words.slots[slot] = 0
    words.slots[kernels.home(words.slots, key)] = (key, 1)
    places = np.zeros(1, np.int64)
    where = np.array([3]), np.array([3 + len(one)])
    kernels.find(words.slots, words.offsets, words.blob, data, *where, 0, 1, places)
    assert places[0] == -1 - (kernels.home(words.slots, key) + 1)


def test_a_table_grows_with_its_words_and_threads_agree(tmp_path):
    chance = np.random.default_rng(0)
    numbers = chance.zipf(1.2, 60_000) % 30_000
    text = "".join(f"w{number}{' ' if place % 9 else chr(10)}" for place, number in enumerate(numbers))
    paths = written(tmp_path, [text.encode()])
    wanted = slow(tmp_path / "slow", paths)
    with tiny(1 << 14, 1 << 10):
        for threads in (1, 2, 3):
            assert slow_or_fast(tmp_path / f"fast{threads}", paths, "skip", threads) == wanted
    first_seen = list(dict.fromkeys(text.split()))
    assert wanted[0] == [(word, number) for number, word in enumerate(first_seen, 1)]
    assert len(first_seen) > 4000


@few
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_the_checksum_of_a_line_is_that_of_zlib(parts):
    data = np.frombuffer(b"".join(parts) + bytes(16), np.uint8)
    ends = np.cumsum([0, *map(len, parts)])
    found = [kernels.crc32(scan._remainders(), data, *pair) for pair in itertools.pairwise(ends)]
    assert found == [zlib.crc32(part) for part in parts]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
def test_packed_texts_and_standard_input_are_read_by_kernels_too(tmp_path, monkeypatch, pack):
    text = ("\ufeff" + "a b\r\n\n月 c\x85d \n" * 3000 + "end").encode()
    name = {"bytes": "t.txt", "compress": "t.gz"}[pack.__name__] if pack is not zstandard.compress else "t.zst"
    (tmp_path / name).write_bytes(pack(text))
    wanted = slow(tmp_path / "slow", written(tmp_path, [text]))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    with tiny(5000, 100):
        assert slow_or_fast(tmp_path / "fast", [tmp_path / name], "skip", 2) == wanted
        assert slow_or_fast(tmp_path / "stdin", ["-"], "skip", 2) == wanted
    assert isinstance(wanted, tuple)
    assert wanted[0] == [("a", 1), ("b", 2), ("月", 3), ("c", 4), ("d", 5), ("end", 6)]


def test_python_and_kernels_may_take_turns(tmp_path):
    """Given lines, a file, a file with a line that is too long, given lines, a file: one numbering."""
    paths = written(tmp_path, [b"c a\nb d\n", b"e " * 30 + b"\na f\n", b"g h a\n"])

    def sources() -> list[Source]:
        before, between = Source.of_lines("x", [["a b", "b"]]), Source.of_lines("y", [["h", "b h i"], []])
        return [before, Source.of_files(paths[:2]), between, Source.of_files(paths[2:])]

    with tiny(64, longest=20):
        found = content(spooled(tmp_path / "fast", sources(), 2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read, "LONGEST_LINE", 20)
        assert found == content(spooled(tmp_path / "slow", sources()))
    assert [piece for piece, _ in found[0]] == ["a", "b", "c", "d", "e", "f", "h", "i", "g"]


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_corpus_is_the_same_byte_for_byte(tmp_path):
    text = "".join(f"w{number % 97} w{number % 89} </s> 月\r\n{' ' * (number % 3)}\n" for number in range(4000))
    (tmp_path / "t.txt").write_bytes(text.encode())
    for empty_lines in ("skip", "keep"):
        options = DataOptions(
            text=(str(tmp_path / "t.txt"),), normalise=(), tokeniser="blank", empty_lines=empty_lines, min_count=1
        )
        prepare(options, tmp_path / empty_lines)
        with tiny(10_000, 1000):
            prepare(options, tmp_path / f"{empty_lines}-fast")
        assert files(tmp_path / f"{empty_lines}-fast") == files(tmp_path / empty_lines)


def test_a_stream_of_a_given_vocabulary_is_the_same(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"a b x\n<unk> </s>\nb" * 500)
    vocabulary = Vocabulary(["a", "b"])
    wanted = encode_files([tmp_path / "t.txt"], PLAIN, vocabulary)
    reports = []
    with tiny(100, 30):
        found = encode_files([tmp_path / "t.txt"], PLAIN, vocabulary, watch=reports.append)
    assert found.ids.tolist() == wanted.ids.tolist()
    assert (found.data, found.unknown, found.characters) == (wanted.data, wanted.unknown, wanted.characters)
    assert (reports[-1].tokens, reports[-1].share) == (len(wanted), 1.0)


def test_a_small_text_loads_no_compiler(tmp_path):
    (tmp_path / "t.txt").write_text("a b\nb c\n" * 1000)
    program = (
        "import sys; from pathlib import Path; from ostinato.text.corpora import prepare, DataOptions;"
        f"prepare(DataOptions(text=({str(tmp_path / 't.txt')!r},), normalise=(), tokeniser='blank'),"
        f"Path({str(tmp_path / 'corpus')!r})); print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


VOCABULARY = Vocabulary(["b", "月", "123456789", "a\nb", "c\0", "\ud800", "", "</S>", "d’accord", "12345678"])


def encoded(text: bytes) -> tuple[list[int], list[int]]:
    """The ids and line ends of a text, from `str.split` and the vocabulary's own dictionary."""
    lines = text.decode().split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    ids = [[*VOCABULARY.ids(line.split()).tolist(), VOCABULARY.stop] for line in lines]
    return [number for line in ids for number in line], np.cumsum([len(line) for line in ids]).astype(int).tolist()


@few
@given(texts, st.integers(1, 200), st.integers(1, 3))
def test_an_encoder_gives_the_ids_of_the_vocabulary(text, block, threads):
    with tiny(block):
        ids, line_ends = Encoder(VOCABULARY).ids(text, threads)
    assert (ids.tolist(), line_ends.tolist()) == encoded(text)
    assert (ids.dtype, line_ends.dtype) == (np.int32, np.int64)


def test_an_encoder_is_as_good_from_its_arrays(tmp_path):
    first = Encoder(VOCABULARY)
    for name, array in first.arrays().items():
        np.save(tmp_path / f"{name}.npy", array)
    mapped = {name: np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in first.arrays()}
    text = "b 月 12345678 x </s> </S> d’accord\n123456789".encode()
    assert Encoder.from_arrays(mapped).ids(text)[0].tolist() == encoded(text)[0]


@pytest.mark.parametrize("name", ["slots", "offsets", "blob", "specials"])
def test_arrays_that_do_not_fit_are_refused(name):
    arrays = Encoder(VOCABULARY).arrays()
    damaged = [arrays[name][:-9], arrays[name].astype(np.float32), arrays[name][None]]
    if name == "slots":
        full, far = arrays[name].copy(), arrays[name].copy()
        full[:, 0], far[0, 1] = 1, 99
        damaged += [full, far]
    if name == "offsets":
        damaged += [arrays[name][::-1].copy(), arrays[name] + 1]
    for array in damaged:
        with pytest.raises(FormatError, match="damaged"):
            Encoder.from_arrays({**arrays, name: array})
    with pytest.raises(FormatError, match=f"'{name}' is missing"):
        Encoder.from_arrays({other: array for other, array in arrays.items() if other != name})


def test_an_encoder_names_the_line_that_is_no_text():
    with tiny(8), pytest.raises(DataError, match=r"the text:3: byte 2 \(0xff\) is not UTF-8"):
        Encoder(VOCABULARY).ids(b"a b c d\ne f g\nh\xff\n")
    with pytest.raises(DataError, match=r"the text:1: binary data \(a NUL byte\)"):
        Encoder(VOCABULARY).ids(b"c\0\n")


def test_no_text_has_no_ids():
    ids, line_ends = Encoder(VOCABULARY).ids(b"")
    assert (ids.tolist(), line_ends.tolist()) == ([], [])
    assert Scanner(1).scan([b""], keep=True)[0].ids.tolist() == [0]


@few
@given(texts, st.sampled_from([("nfc",), ("nfkc", "lower"), ("casefold",)]), st.integers(1, 200))
def test_lines_that_a_normaliser_leaves_alone_are_read_by_kernels_too(tmp_path_factory, text, names, block):
    """Blocks that it changes are read line by line, and both give what Python alone gives."""
    folder = tmp_path_factory.mktemp("scan")
    paths = written(folder, [text, "plain words\nΣΊΣΥΦΟΣ ſ ﬁ ｆｕｌｌ e\u0301\n".encode()])

    def numbered(name: str) -> tuple[object, ...]:
        (folder / name).mkdir()
        pipeline = Pipeline(Normaliser(names), make_tokeniser("blank"))
        made = Spool(folder / name, pipeline, Meter("reading", lambda _: None), 1)
        made.read([Source.of_files(paths)])
        return content(made)

    wanted = numbered("slow")
    with tiny(block):
        assert numbered("fast") == wanted
