"""ARPA files: what others wrote is read, what is written others read, and nothing is lost on the way."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

import corpus
from ostinato.core.errors import DataError, StorageError
from ostinato.core.progress import Progress
from ostinato.core.vocabulary import Vocabulary
from ostinato.kernels import arpa as printing
from ostinato.kernels import arpa_parse as parsing
from ostinato.ngram import arpa_read, arpa_source, arpa_words, arpa_write
from ostinato.ngram.arpa import Read, is_arpa, read_arpa, write_arpa
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.table import BackoffTable
from references.arpa import SlowArpa

TOY = """\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-0.9\t<unk>\t0
-99\t<s>\t-0.25
-0.5\t</s>\t0
-0.4\ta\t-0.3
-0.8\tb\t-0.125

\\2-grams:
-0.2\t<s> a\t-0.0625
-0.7\ta b\t0
-0.3\tb a\t-0.5
-0.6\tb </s>\t0

\\3-grams:
-0.1\t<s> a b
-0.35\tb a b

\\end\\
"""


def read(tmp_path: Path, text: str | bytes) -> Read:
    """What read_arpa makes of a file with that text."""
    path = tmp_path / "model.arpa"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_arpa(path)


def scores(found: Read, words: list[str]) -> list[float]:
    """log10 of each word of a line and of its end, by our model."""
    vocabulary, model = found.vocabulary, NGramModel(found.table, found.vocabulary)
    targets = np.append(vocabulary.ids(words), vocabulary.stop)[None]
    inputs = np.append(vocabulary.start, targets[0, :-1])[None]
    return (model.score(model.init_state(1), inputs, targets)[0][0] / np.log(10)).tolist()


def same_numbers(one: BackoffTable, other: BackoffTable) -> bool:
    """Whether two tables have the same n-grams and, to the last bit, the same numbers."""
    (first, *logs), (second, *others) = one.contents(), other.contents()
    same_trie = all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("word", "first_child", "suffix")
    )
    return same_trie and all(np.array_equal(mine, theirs) for mine, theirs in zip(logs, others, strict=True))


# -- what others wrote


def expected(shared: Path) -> list[tuple[str, list[str], list[float]]]:
    """File, words and log10 of each word and line end, as KenLM's query gave them."""
    found = []
    for line in (shared / "arpa-fixtures" / "expected_scores.tsv").read_text("utf8").splitlines():
        name, *rest = line.split("\t")
        if len(rest) == 4 and (shared / "arpa-fixtures" / name).exists():
            scored = [float(part.rsplit(":", 2)[1]) for part in rest[3].split()]
            found.append((name, rest[0].split(), scored))
    return found


def test_every_word_of_the_fixtures_scores_what_kenlm_says(shared):
    lines = expected(shared)
    assert len(lines) >= 20
    for name, words, wanted in lines:
        found = read_arpa(shared / "arpa-fixtures" / name)
        found.table.check()
        np.testing.assert_allclose(scores(found, words), wanted, rtol=0, atol=1e-5, err_msg=name)


def test_fixtures_that_are_no_distributions_say_so(shared):
    tables = {name: read_arpa(shared / "arpa-fixtures" / name).table for name in ("kenlm_test.arpa", "kenlm_toy0.arpa")}
    assert not tables["kenlm_test.arpa"].normalised
    assert "do not sum to one" in " ".join(tables["kenlm_test.arpa"].notes)
    assert tables["kenlm_toy0.arpa"].normalised
    assert not tables["kenlm_toy0.arpa"].notes


def test_a_file_of_words_alone_is_read(shared):
    found = read_arpa(shared / "arpa-fixtures" / "sphinx_turtle.ug.lm")
    assert found.table.order == 1
    assert scores(found, ["GO"])[0] == pytest.approx(-1.7)


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("sphinx_too-many-ngrams.arpa", r"arpa:12: the file ends without \\end\\"),
        ("sphinx_not-enough-ngrams.arpa", r"arpa:4: \\1-grams: without lines `ngram 1"),
        ("sphinx_LICENSE", "not an ARPA file"),
    ],
)
def test_damaged_fixtures_are_refused_with_the_line(shared, name, fault):
    with pytest.raises(DataError, match=fault):
        read_arpa(shared / "arpa-fixtures" / name)


# -- the numbers of a small file, worked out by hand


def test_the_toy_scores_what_its_lines_say(tmp_path):
    found = read(tmp_path, TOY)
    assert found.vocabulary.pieces == ("<unk>", "</s>", "a", "b", "<s>", "<pad>")
    assert found.table.ngrams == (5, 4, 2)
    wanted = [
        -0.2,  # <s> a
        -0.1,  # <s> a b
        -0.3,  # backing off from a b, which weighs 0: b a
        -0.35,  # b a b
        -0.6,  # a b weighs 0: b </s>
    ]
    assert scores(found, ["a", "b", "a", "b"]) == pytest.approx(wanted, abs=1e-6)
    assert scores(found, ["b", "c"]) == pytest.approx([-0.25 - 0.8, -0.125 - 0.9, -0.5], abs=1e-6)


SPELLINGS = {
    "text before, even a header": "Some model\n\\data\\\nngram 1=7\nBeginning of data mark: \\data\\\n\n" + TOY,
    "a byte order mark": "\ufeff" + TOY,
    "blanks for tabs": TOY.replace("\t", " "),
    "tabs for blanks": TOY.replace(" a", "\ta").replace(" b", "\tb"),
    "carriage returns": TOY.replace("\n", "\r\n"),
    "empty lines": TOY.replace("\n-", "\n \n\t\n-"),
    "blanks around": "\n".join(f"  {line} \t" for line in TOY.split("\n")),
    "text after": TOY + "that was all\n",
    "no line end at the end": TOY.rstrip("\n"),
    "spaces in the header": TOY.replace("ngram 1=5", "ngram  1 = 5"),
    "sections in another order": "\n".join(
        [*TOY.split("\n")[:14], *sorted(TOY.split("\n")[14:17]), *TOY.split("\n")[17:]]
    ),
    "other ways to write numbers": TOY.replace("-0.5\t</s>", "-5.0E-01\t</s>").replace("-0.7\ta", "-.7\ta"),
    "minus infinity": TOY.replace("-99", "-inf"),
    "zero for the start symbol": TOY.replace("-99", "0"),
    "a back-off of 0 in the highest order": TOY.replace("<s> a b", "<s> a b\t0"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_that_are_found_give_the_same_table(tmp_path, spelling):
    wanted, found = read(tmp_path, TOY), read(tmp_path, SPELLINGS[spelling])
    assert same_numbers(found.table, wanted.table)
    assert found.vocabulary == wanted.vocabulary
    assert found.notes == wanted.notes
    assert is_arpa(tmp_path / "model.arpa")


PACKERS = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstandard.ZstdCompressor().compress}


@pytest.mark.parametrize("kind", PACKERS)
def test_packed_files_are_known_by_their_content(tmp_path, kind):
    path = tmp_path / "model"
    path.write_bytes(PACKERS[kind](TOY.encode()))
    assert same_numbers(read_arpa(path).table, read(tmp_path, TOY).table)
    assert is_arpa(path)


@pytest.mark.parametrize("kind", PACKERS)
def test_a_packed_file_that_is_cut_or_damaged_is_refused(tmp_path, kind):
    path = tmp_path / "model"
    packed = PACKERS[kind](TOY.encode() + random.Random(0).randbytes(5000).hex().encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=str(path)):
        read_arpa(path)
    path.write_bytes(packed[:12] + bytes(40) + packed[52:])
    with pytest.raises(DataError, match=str(path)):
        read_arpa(path)
    assert not is_arpa(tmp_path)


def test_two_packed_parts_are_one_file(tmp_path):
    path = tmp_path / "model.gz"
    path.write_bytes(gzip.compress(TOY[:100].encode()) + gzip.compress(TOY[100:].encode()))
    assert same_numbers(read_arpa(path).table, read(tmp_path, TOY).table)


# -- what is forgiven, with a note


def test_numbers_in_the_header_that_are_wrong_are_noted(tmp_path):
    found = read(tmp_path, TOY.replace("ngram 2=4", "ngram 2=400000000000").replace("ngram 3=2\n", ""))
    assert same_numbers(found.table, read(tmp_path, TOY).table)
    assert "the header states 400,000,000,000 2-grams, there are 4" in found.notes
    assert "the header states no 3-grams, there are 2" in found.notes


def test_unknown_in_capitals_is_the_unknown_word_unless_both_are_there(tmp_path):
    found = read(tmp_path, TOY.replace("<unk>", "<UNK>"))
    assert same_numbers(found.table, read(tmp_path, TOY).table)
    both = read(tmp_path, TOY.replace("-0.8\tb", "-0.85\t<UNK>\t0\n-0.8\tb"))
    assert "<UNK>" in both.vocabulary


def test_missing_specials_are_added_and_noted(tmp_path):
    text = "\\data\\\nngram 1=2\nngram 2=1\n\\1-grams:\n-0.3 a -0.5\n-0.3 b\n\\2-grams:\n-0.1 a b\n\\end\\\n"
    found = read(tmp_path, text)
    found.table.check()
    assert [note.split(";")[0] for note in found.notes[:3]] == [
        "there is no <unk>",
        "there is no </s>",
        "there is no <s>",
    ]
    wanted = [-0.3, -0.1, -100, -100]
    assert scores(found, ["a", "b", "c"]) == pytest.approx(wanted, abs=1e-5)


def test_a_probability_above_one_is_noted(tmp_path):
    found = read(tmp_path, TOY.replace("-0.7\ta b", "0.7\ta b"))
    assert not found.table.normalised
    assert "1 probabilities are above one" in found.notes[0]
    found.table.check()


def test_ngrams_that_lack_their_context_are_found_all_the_same(tmp_path):
    """`b </s> a b` has neither `b </s> a` nor `</s> a`, whose log-probs are what backing off gives."""
    text = TOY.replace("\\end\\", "\\4-grams:\n-0.15 b a a b\n-0.45 b b a a\n\\end\\").replace(
        "=2\n", "=2\nngram 4=2\n"
    )
    found = read(tmp_path, text)
    found.table.check()
    slow = SlowArpa(text)
    for words in (["b", "a", "a", "b"], ["b", "b", "a", "a"], ["a", "a", "b", "b", "a", "a", "b"]):
        assert scores(found, words) == pytest.approx(slow.line(words), abs=1e-5)
    assert "the contexts of 2 4-grams were missing and were added" in found.notes
    trie, log_prob, _ = found.table.contents()
    node = trie.find(found.vocabulary.ids(["b", "a", "a"]).tolist())
    # b a weighs -0.5, then a has no a, which weighs -0.3, then a alone
    assert log_prob[node] / np.log(10) == pytest.approx(-0.5 - 0.3 - 0.4, abs=1e-6)


def test_ngrams_with_the_start_symbol_inside_are_left_out(tmp_path):
    text = TOY.replace("-0.7\ta b\t0", "-0.7\ta b\t0\n-0.01\tb <s>\t-7").replace("-0.35", "-0.02\tb <s> a\n-0.35")
    found = read(tmp_path, text.replace("ngram 2=4", "ngram 2=5").replace("ngram 3=2", "ngram 3=3"))
    assert same_numbers(found.table, read(tmp_path, TOY).table)
    assert found.notes == (
        "1 2-grams with <s> after their first word were left out",
        "1 3-grams with <s> after their first word were left out",
        *read(tmp_path, TOY).notes,
    )


def test_back_offs_of_the_highest_order_are_noted(tmp_path):
    found = read(tmp_path, TOY.replace("b a b", "b a b -0.7"))
    assert found.notes[0] == "the back-offs of the 3-grams were ignored: nothing is longer"
    assert same_numbers(found.table, read(tmp_path, TOY).table)


# -- what is refused, with file and line


FAULTS = {
    "a word that no 1-gram lists": (("a b\t0", "a c\t0"), r":15: the word 'c' is not among the 1-grams"),
    "bytes that are not UTF-8 in an n-gram": (("a b\t0", "a \udcff\t0"), r":15: the word '\\\\xff' is not among"),
    "bytes that are not UTF-8 in a word": (("\tb\t", "\t\udcff\t"), r":11: the word b'\\xff' is not UTF-8"),
    "the word that stands for padding": (("\tb\t", "\t<pad>\t"), r":11: the word <pad>"),
    "a repeated word": (("\tb\t", "\ta\t"), r":11: the word 'a' stands on line 10 too"),
    "a repeated n-gram": (("b </s>", "a b"), r":17: the 2-gram 'a b' stands on line 15 too"),
    "a log-prob that is not a number": (("-0.7\t", "nan\t"), r":15: .* not a number: 'nan\\ta b\\t0'"),
    "a log-prob that is infinite": (("-0.7\t", "inf\t"), ":15: .* not a number"),
    "a log-prob that no float32 holds": (("-0.7\t", "1e300\t"), ":15: .* not a number"),
    "a log-prob with letters": (("-0.7\t", "-0.7x\t"), ":15: .* not a number"),
    "an empty exponent": (("-0.7\t", "-0.7e\t"), ":15: .* not a number"),
    "a minus alone": (("-0.5\t</s>", "-\t</s>"), ":9: .* not a number"),
    "a back-off that is not a number": (("a b\t0", "a b\tzero"), ":15: .* not a number"),
    "a back-off that is infinite": (("\tb\t-0.125", "\tb\tinf"), ":11: .* not a number"),
    "a word too few": (("a b\t0", "a"), ":15: a 2-gram is a number, 2 words and perhaps a back-off, not"),
    "a word too many": (("a b\t0", "a b\t0\tb"), ":15: a 2-gram is"),
    "a number without a word": (("-0.4\ta\t-0.3", "-0.4"), ":10: a 1-gram is a number, a word and"),
    "three fields after a word": (("\ta\t-0.3", "\ta\t-0.3 -0.3"), ":10: a 1-gram is"),
    "an order left out": (("\\2-grams:", "\\3-grams:"), r":13: \\2-grams: or \\end\\ should be here"),
    "a section of words": (("\\2-grams:", "\\1-grams:"), r":13: \\2-grams: or \\end\\ should be here"),
    "a section of nothing": (("\\3-grams:", "\\n-grams:"), r":19: \\3-grams: or \\end\\ should be here"),
    "no end": (("\\end\\\n", ""), r":22: the file ends without \\end\\"),
    "an order that the header states": (("\n\\3-grams:\n-0.1\t<s> a b\n-0.35\tb a b", ""), ":20: the 3-grams that"),
    "a header that is none": (("ngram 2=4", "bigrams: 4"), ":3: not a line of a header: 'bigrams: 4'"),
    "a header cut short": ((TOY[TOY.index("ngram 2") :], ""), r"ends before \\1-grams:"),
    "no header": (("\\data\\", "data"), r"not an ARPA file: no line is \\data\\"),
    "nothing": ((TOY, ""), r":0: not an ARPA file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_malformed_file_is_refused_with_its_line(tmp_path, fault):
    (old, new), message = FAULTS[fault]
    assert old in TOY
    with pytest.raises(DataError, match=rf"model\.arpa.*{message}"):
        read(tmp_path, TOY.replace(old, new, 1).encode("utf8", "surrogateescape"))


def test_a_file_that_is_missing_a_folder_or_of_one_endless_line_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_arpa(tmp_path / "none.arpa")
    with pytest.raises(DataError, match="a directory"):
        read_arpa(tmp_path)
    with pytest.raises(DataError, match=":1: a line of more than"):
        read(tmp_path, bytes(9_000_000))
    assert not is_arpa(tmp_path / "model.arpa")
    assert not is_arpa(tmp_path / "none.arpa")


# -- against the slow twin


@st.composite
def files(draw):
    """A file of random n-grams, contexts and suffixes missing, in any order, and lines to score."""
    chance = random.Random(draw(st.integers(0, 10**6)))
    words = [f"w{number}" for number in range(draw(st.integers(1, 6)))]
    order = draw(st.integers(1, 5))
    grams: list[list[tuple[str, ...]]] = [[(word,) for word in ["<unk>", "<s>", "</s>", *words]]]
    for length in range(2, order + 1):
        middle = [tuple(chance.choice(words) for _ in range(length)) for _ in range(chance.randrange(30))]
        begin = [("<s>", *gram[1:]) for gram in middle if chance.random() < 0.4]
        end = [(*gram[:-1], "</s>") for gram in middle if chance.random() < 0.4]
        grams.append(sorted({*middle, *begin, *end}, key=lambda _: chance.random()))
    lines = ["\\data\\", *(f"ngram {length}={len(level)}" for length, level in enumerate(grams, 1))]
    for length, level in enumerate(grams, 1):
        lines.append(f"\\{length}-grams:")
        for gram in level:
            weight = f" {chance.uniform(-2, 1):.{chance.randrange(8)}f}" if chance.random() < 0.6 else ""
            lines.append(f"{chance.uniform(-5, 0):.{chance.randrange(9)}f} {' '.join(gram)}{weight * (length < order)}")
    spoken = [[chance.choice([*words, "other"]) for _ in range(chance.randrange(9))] for _ in range(8)]
    return "\n".join([*lines, "\\end\\", ""]), spoken


@given(files())
@settings(deadline=None, max_examples=150)
def test_random_files_score_as_the_slow_twin_says(tmp_path_factory, file):
    text, spoken = file
    found, slow = read(tmp_path_factory.mktemp("random"), text), SlowArpa(text)
    found.table.check()
    for words in spoken:
        assert scores(found, words) == pytest.approx(slow.line(words), abs=1e-4)


@given(files())
@settings(deadline=None, max_examples=40)
def test_files_read_in_small_pieces_give_the_same(tmp_path_factory, file):
    """Rooms grow, blocks end inside lines, batches inside sections."""
    folder = tmp_path_factory.mktemp("pieces")
    wanted = read(folder, file[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arpa_source, "CHUNK", 7)
        patch.setattr(arpa_words, "FIRST_ROOM", 1)
        patch.setattr(arpa_read, "FIRST_ROOM", 64)
        found = read(folder, file[0])
    assert same_numbers(found.table, wanted.table)
    assert found.vocabulary == wanted.vocabulary


def test_more_ngrams_than_there_was_room_for_at_first(tmp_path):
    lines = [f"-1 w{number}" for number in range(70_000)]
    pairs = [f"-2 w{number} w{number * 7 % 70_000}" for number in range(70_000)]
    text = "\n".join(["\\data\\", "ngram 1=1", "ngram 2=1", "\\1-grams:", *lines, "\\2-grams:", *pairs, "\\end\\"])
    found = read(tmp_path, text)
    assert found.table.ngrams == (70_003, 70_000)
    assert scores(found, ["w12345", f"w{12345 * 7 % 70_000}"])[1] == pytest.approx(-2)


def test_words_whose_hashes_are_alike_are_told_apart():
    """`ab`, `abc` and `abd` are all given the hash 5: each stands in the next slot, and is known by its letters."""
    text, starts = np.frombuffer(b"ababcabd" + bytes(16), np.uint8), np.array([0, 2, 5, 8])
    slots, block = np.zeros(8, np.int64), np.frombuffer(b"abc abe ab ", np.uint8)
    for number in range(3):
        slots[5 + number] = number + 1
    wanted = {(0, 3): 6, (0, 2): 5, (8, 10): 5, (4, 7): 0}  # slot 0 is the free one after 7
    for (begin, end), slot in wanted.items():
        assert parsing.find_word(slots, text, starts, np.uint64(5), block, begin, end) == slot


# -- numbers


@given(st.floats(width=32, allow_nan=False))
@settings(deadline=None, max_examples=1000)
def test_nine_digits_give_the_same_float_back(value):
    out = np.zeros(64, np.uint8)
    end = printing.put_log(out, 0, np.float32(value))
    text = bytes(out[:end]).decode()
    digits = text.split("e")[0].replace(".", "").lstrip("-0")
    assert len(digits) <= 9
    wanted = np.float32(value)
    if np.isfinite(value):
        assert np.float32(float(text) * np.log(10)) == wanted
        assert float(text) == pytest.approx(float(wanted) / np.log(10), rel=1e-8)
    assert parsing.parse_log(np.frombuffer(text.encode() + b"\n", np.uint8), 0) == (
        -np.inf
        if value == -np.inf
        else pytest.approx(float(wanted), rel=1e-8, abs=0)
        if np.isfinite(value)
        else 99 * np.log(10),
        len(text),
    )


@pytest.mark.parametrize(
    ("log10", "text"),
    [(0, "0"), (-0.5, "-0.5"), (-0.0625, "-0.0625"), (-1024, "-1024"), (2, "2"), (-(2.0**-20), "-9.53674316e-07")],
)
def test_numbers_are_printed_as_people_write_them(log10, text):
    """The float32 nearest to log10 times ln 10 may print more digits; eight of them are those of log10."""
    out = np.zeros(64, np.uint8)
    end = printing.put_log(out, 0, np.float32(log10 * np.log(10)))
    assert float(bytes(out[:end])) == pytest.approx(float(text), rel=3e-8)
    assert ("e" in bytes(out[:end]).decode()) == ("e" in text)


@given(st.from_regex(r"[-+]?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})([eE][-+]?[0-9]{1,3})?", fullmatch=True))
@settings(deadline=None, max_examples=1000)
def test_any_way_to_write_a_number_is_read_as_python_reads_it(text):
    text = text.translate({ord(digit): str(int(digit)) for digit in text if digit.isdigit()})
    value, end = parsing.parse_number(np.frombuffer(text.encode() + b"\n", np.uint8), 0)
    assert end == len(text)
    if abs(float(text)) < 1e300:
        assert value == pytest.approx(float(text), rel=1e-15, abs=1e-300)


# -- writing


def random_table(order: int, seed: int, zeros: bool = False) -> NGramModel:
    """A model of a made-up text whose numbers are random float32."""
    lines = corpus.lines(60, seed)
    vocabulary = Vocabulary(dict.fromkeys(word for line in lines for word in line.split()))
    stream = np.concatenate([np.append(vocabulary.ids(line.split()), vocabulary.stop) for line in lines])
    trie, numbers = count(stream, vocabulary, order).trie, np.random.default_rng(seed)
    log_prob = (-numbers.exponential(3, trie.nodes)).astype(np.float32)
    log_backoff = numbers.normal(-1, 1, trie.inner).astype(np.float32)
    log_backoff[np.diff(trie.first_child) == 0] = 0
    if zeros:
        log_prob[numbers.random(trie.nodes) < 0.3] = -np.inf
        log_backoff[numbers.random(trie.inner) < 0.1] = -np.inf
    log_prob[0] = log_backoff[0] = 0
    log_prob[trie.sentence_start] = -np.inf
    return NGramModel(BackoffTable.build(trie, log_prob, log_backoff, "arpa", normalised=False), vocabulary)


@given(st.integers(1, 5), st.integers(0, 1000), st.booleans())
@settings(deadline=None, max_examples=40)
def test_what_is_written_is_read_back_to_the_last_bit(tmp_path_factory, order, seed, zeros):
    model, path = random_table(order, seed, zeros), tmp_path_factory.mktemp("back") / "model.arpa"
    write_arpa(model, path)
    found = read_arpa(path)
    assert found.vocabulary == model.vocabulary
    assert same_numbers(found.table, model.table)
    found.table.check()


def test_the_toy_is_written_as_it_was(tmp_path):
    """Same lines in the same order; numbers as near as float32 comes."""
    found = read(tmp_path, TOY)
    write_arpa(NGramModel(found.table, found.vocabulary), tmp_path / "again.arpa")
    again = (tmp_path / "again.arpa").read_text("utf8")
    assert len(again.split("\n")) == len(TOY.split("\n"))
    for mine, theirs in zip(sorted(again.split("\n")), sorted(TOY.split("\n")), strict=True):
        for field, other in zip(mine.split("\t"), theirs.split("\t"), strict=True):
            assert field == other or float(field) == pytest.approx(float(other), rel=1e-7)
    assert [line.split("\t")[1] for line in again.split("\n")[6:11]] == ["<unk>", "<s>", "</s>", "a", "b"]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_blocks_and_threads_do_not_change_the_file(tmp_path, monkeypatch, threads):
    model = random_table(4, 3)
    whole, pieces = io.BytesIO(), io.BytesIO()
    write_arpa(model, whole)
    monkeypatch.setattr(arpa_write, "BLOCK", 7)
    monkeypatch.setattr(arpa_write, "BUFFER", 1)
    reports: list[Progress] = []
    write_arpa(model, pieces, reports.append, threads)
    assert pieces.getvalue() == whole.getvalue()
    assert reports[-1].share == 1
    assert reports[-1].tokens == sum(model.table.ngrams)


def test_a_block_that_does_not_fit_its_buffer_is_written_in_parts(monkeypatch):
    model = random_table(4, 3)
    whole, parts = io.BytesIO(), io.BytesIO()
    write_arpa(model, whole)
    monkeypatch.setattr(arpa_write, "BUFFER", 1)
    write_arpa(model, parts)
    assert parts.getvalue() == whole.getvalue()


@pytest.mark.parametrize(("end", "unpack"), [(".gz", gzip.decompress), (".zst", zstandard.decompress)])
def test_the_end_of_the_name_says_how_to_pack(tmp_path, end, unpack):
    model, plain = random_table(3, 1), io.BytesIO()
    write_arpa(model, plain)
    write_arpa(model, tmp_path / f"model.arpa{end}")
    packed = (tmp_path / f"model.arpa{end}").read_bytes()
    unpacked = zstandard.ZstdDecompressor().decompressobj().decompress(packed) if end == ".zst" else unpack(packed)
    assert unpacked == plain.getvalue()
    assert same_numbers(read_arpa(tmp_path / f"model.arpa{end}").table, model.table)


@pytest.mark.parametrize("piece", ["a b", "a\tb", "\n", "", "\udcff", "a\rb"])
def test_a_piece_that_no_file_can_hold_is_refused_before_anything_is_written(tmp_path, piece):
    vocabulary = Vocabulary(["a", piece])
    trie = count(np.array([2, 3, 1]), vocabulary, 2).trie
    zeros = np.zeros(trie.nodes, np.float32)
    model = NGramModel(BackoffTable.build(trie, zeros, zeros[: trie.inner], "arpa", normalised=False), vocabulary)
    with pytest.raises(DataError, match="cannot be written"):
        write_arpa(model, tmp_path / "model.arpa")
    assert not list(tmp_path.iterdir())


def test_words_of_any_length_and_script_come_back(tmp_path):
    words = ["x" * length for length in (1, 15, 16, 17, 31, 32, 33, 500)] + [
        "天地",
        "\u00a0",
        "\v",
        "-1",
        "\\end\\",
        "é",
    ]
    vocabulary = Vocabulary(words)
    stream = np.array([*range(2, vocabulary.outputs), 1, *range(2, vocabulary.outputs), 1])
    trie = count(stream, vocabulary, 3).trie
    logs = np.linspace(-9, -1, trie.nodes).astype(np.float32)
    logs[trie.sentence_start] = -np.inf
    model = NGramModel(BackoffTable.build(trie, logs, np.zeros(trie.inner, np.float32), "arpa"), vocabulary)
    write_arpa(model, tmp_path / "model.arpa")
    found = read_arpa(tmp_path / "model.arpa")
    assert found.vocabulary == vocabulary
    assert same_numbers(found.table, model.table)


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.arpa"
    path.write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(arpa_write, "write_to", full)
    with pytest.raises(StorageError, match="no space left"):
        write_arpa(random_table(2, 0), path)
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_kenlm_reads_what_is_written(tmp_path):
    """Its `query`, in the folder that KENLM_BIN names, gives every word the score that our model gives it."""
    query = Path(os.environ.get("KENLM_BIN", "")) / "query"
    if not os.environ.get("KENLM_BIN") or not query.exists():
        pytest.skip("KENLM_BIN names no folder with KenLM's query")
    model = random_table(4, 5)
    write_arpa(model, tmp_path / "model.arpa")
    lines = corpus.lines(40, 6)
    said = subprocess.run(
        [query, "-v", "word", tmp_path / "model.arpa"],
        input="\n".join([*lines, ""]),
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = [float(part.split()[-1]) for line in said.stdout.splitlines() for part in line.split("\t") if "=" in part]
    found = Read(model.table, model.vocabulary, ())
    assert [score for line in lines for score in scores(found, line.split())] == pytest.approx(wanted, abs=1e-4)
