"""Labelled sentences and parallel texts: every form is told from the others, read, and written again."""

from __future__ import annotations

import gzip
import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError
from ostinato.text.labelled import Form, LabelledReader, found_form, found_input
from ostinato.text.parallel import Pair, ParallelReader, by_source

TEXTS = {
    "tsv": "pos\ta fine film\nneg\tno , thanks\n",
    "jsonl": '{"text": "a fine film", "label": "pos", "id": 7}\n{"text": "no , thanks", "label": "neg", "id": 8}\n',
    "fasttext": "__label__pos a fine film\n__label__neg no , thanks\n",
    "first": "pos a fine film\nneg no , thanks\n",
}


def file_of(folder: Path, text: str, name: str = "a.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("kind", TEXTS)
def test_a_form_is_found_read_and_written_again(tmp_path: Path, kind: str):
    path = file_of(tmp_path, TEXTS[kind])
    form = found_form(path)
    examples = list(LabelledReader(path, form))
    assert form.kind == kind
    assert [(example.label, example.text) for example in examples] == [("pos", "a fine film"), ("neg", "no , thanks")]
    assert "".join(example.with_label(str(example.label)) + "\n" for example in examples) == TEXTS[kind]
    changed = TEXTS[kind].replace("pos", "mid", 1)
    assert examples[0].with_label("mid") == changed.splitlines()[0]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_line_ends_blank_lines_and_byte_order_marks_change_nothing(tmp_path: Path, end: str, final: bool):
    text = "\ufeff" + f"{end}{end}".join(["pos\ta fine film", "neg\tno , thanks"]) + end * final
    path = file_of(tmp_path, text)
    examples = list(LabelledReader(path, found_form(path)))
    assert [(example.label, example.text) for example in examples] == [("pos", "a fine film"), ("neg", "no , thanks")]
    assert [example.number for example in examples] == [1, 3]


words = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=5)


@given(words, st.lists(words, min_size=1, max_size=4), words)
def test_any_sentence_keeps_its_words_under_another_label(label, sentence, other):
    text = " ".join(sentence)
    lines = {
        "tsv": f"{text}\t{label}",
        "jsonl": json.dumps({"text": text, "label": label}),
        "first": f"{label} {text}",
    }
    for kind, line in lines.items():
        form = Form(kind, "label", "text") if kind == "jsonl" else Form(kind, -1, 0)
        example = form.example(form.example(line).with_label(other))
        assert (example.label, example.text) == (other, text)


@pytest.mark.parametrize(
    ("text", "label", "column"),
    [
        ("a b\tx\nc d\ty\n", -1, 1),  # the label has no blanks
        ("a\tx\nb\tx\n", 1, 1),  # neither has: the one with fewer values
        ("x\ta\nx\tb\n", 0, 0),
    ],
)
def test_the_label_of_two_columns_is_found(tmp_path: Path, text, label, column):
    assert found_form(file_of(tmp_path, text)).label == column


def test_a_damaged_line_does_not_change_the_form_and_is_named(tmp_path: Path):
    path = tmp_path / "t.tsv"
    path.write_text("".join(f"a text of words\t{'AB'[n % 2]}\n" for n in range(9)) + "no tab here\n")
    form = found_form(path)
    assert form.kind == "tsv"
    with pytest.raises(DataError, match=":10: no label"):
        list(LabelledReader(path, form))


def test_columns_that_cannot_be_told_apart_are_asked_for(tmp_path: Path):
    for text in ("a\tb\nc\td\n", "1\ta b\tx\n2\tc d\ty\n"):
        path = file_of(tmp_path, text)
        with pytest.raises(ConfigError, match=r"which of its [23] columns is the label is not clear"):
            found_form(path)
    form = found_form(path, "tsv", label=2, text=1)
    assert [(example.label, example.text) for example in LabelledReader(path, form)] == [("x", "a b"), ("y", "c d")]
    with pytest.raises(ConfigError, match="named for label and text"):
        found_form(path, "tsv", label=2, text=-1)


def test_a_header_is_known_and_no_sentence(tmp_path: Path):
    path = file_of(tmp_path, "sentence\tid\tlabel\na fine film\t1\tpos\n")
    form = found_form(path)
    reader = LabelledReader(path, form)
    (example,) = reader
    assert (example.label, example.text) == ("pos", "a fine film")
    assert reader.header == "sentence\tid\tlabel"
    assert example.with_label("neg") == "a fine film\t1\tneg"
    named = found_form(path, label="id", text="sentence")
    assert next(iter(LabelledReader(path, named))).label == "1"
    with pytest.raises(ConfigError, match="no column 'rating'"):
        found_form(path, label="rating", text="sentence")


def test_keys_of_json_lines_are_settable_and_numbers_stay_numbers(tmp_path: Path):
    path = file_of(tmp_path, '{"review": "fine", "stars": 4}\n{"review": "so so", "stars": null}\n')
    form = found_form(path, label="stars")
    first, second = LabelledReader(path, form, labelled=False)
    assert (first.label, second.label) == ("4", None)
    assert first.with_label("2") == '{"review": "fine", "stars": 2}'
    assert first.with_label("bad") == '{"review": "fine", "stars": "bad"}'
    with pytest.raises(DataError, match=r"a\.txt:2: no label; expected an object with the keys 'review' and 'stars'"):
        list(LabelledReader(path, form))
    with pytest.raises(ConfigError, match="which key is the label is not clear; name one of review, stars"):
        found_form(path)


@pytest.mark.parametrize(
    ("form", "line", "told"),
    [
        (
            Form("fasttext"),
            "__label__a __label__b x",
            r"t:3: 2 labels \(__label__a __label__b\), but",
        ),
        (Form("fasttext"), "x y", "t:3: no label; expected __label__LABEL TEXT"),
        (Form("tsv", 0, 2), "a\tb", "t:3: 2 columns, but expected columns parted by tabs, the label in column 0"),
        (Form("tsv", 0, 1), "alone", "t:3: no label"),
        (Form("jsonl", "label", "text"), "{", "t:3: not JSON"),
        (Form("jsonl", "label", "text"), "[1]", "t:3: a JSON list, not an object"),
        (Form("jsonl", "label", "text"), '{"label": "a"}', "t:3: no text under the key 'text'; the object has label"),
        (Form("jsonl", "label", "text"), '{"text": "a", "label": ["b", "c"]}', "but a sentence has one"),
    ],
)
def test_a_line_in_another_form_is_named(form, line, told):
    with pytest.raises(DataError, match=told):
        form.example(line, 3, "t")


def test_a_label_that_cannot_be_written_is_refused():
    for form in (Form("first"), Form("fasttext"), Form("plain")):
        with pytest.raises(DataError, match="cannot be written as"):
            form.example("x y", labelled=False).with_label("two\nlines" if form.kind == "plain" else "two words")


def test_the_part_of_a_label_before_the_colon_is_the_coarse_one(shared: Path):
    path = shared / "cls-trec" / "train.txt"
    coarse = found_form(path, coarse=True)
    assert coarse.kind == "first"
    assert {example.label for example in LabelledReader(path, coarse)} == {"ABBR", "DESC", "ENTY", "HUM", "LOC", "NUM"}
    assert len({example.label for example in LabelledReader(path, found_form(path))}) == 50


def test_real_sets_have_as_many_sentences_as_is_written_of_them(shared: Path):
    path = shared / "cls-sst" / "stsa.binary.dev"
    examples = list(LabelledReader(path, found_form(path)))
    assert (len(examples), {example.label for example in examples}) == (872, {"0", "1"})
    rated = found_form(shared / "cls-vader" / "amazon.tsv", label=1, text=2)
    assert sum(1 for _ in LabelledReader(shared / "cls-vader" / "amazon.tsv", rated)) == 3708


def test_sentences_without_labels_can_be_answered_in_every_form(tmp_path: Path):
    assert Form("tsv", 0, 1).example("a film", labelled=False).with_label("pos") == "pos\ta film"
    assert Form("tsv", -1, 0).example("a film", labelled=False).with_label("pos") == "a film\tpos"
    assert Form("fasttext").example("a film", labelled=False).with_label("pos") == "__label__pos a film"
    plain = file_of(tmp_path, "a film\n\nno\n")
    examples = list(LabelledReader(plain, Form("plain")))
    assert [example.text for example in examples] == ["a film", "", "no"]  # an answer for each line
    assert examples[0].with_label("pos") == "pos"
    assert found_input(plain, Form("first"), {"pos", "neg"}) == Form("plain")
    assert found_input("-", Form("first"), {"pos", "neg"}) == Form("plain")
    assert found_input(file_of(tmp_path, TEXTS["first"]), Form("first"), {"pos", "neg"}) == Form("first")
    assert found_input(plain, Form("fasttext"), {"pos"}) == Form("fasttext")


def test_standard_input_and_empty_files_have_no_form_to_be_found(tmp_path: Path):
    with pytest.raises(ConfigError, match="standard input cannot be found out"):
        found_form("-")
    with pytest.raises(DataError, match="no lines"):
        found_form(file_of(tmp_path, "\n \n"))
    with pytest.raises(ConfigError, match="columns were named, but lines are LABEL TEXT"):
        found_form(file_of(tmp_path, TEXTS["first"]), label=0)


def test_two_files_are_read_side_by_side(tmp_path: Path):
    left = tmp_path / "a.en.gz"
    left.write_bytes(gzip.compress(b"one\n\n three \n"))
    reader = ParallelReader(left, file_of(tmp_path, "eins\r\nzwei\r\ndrei", "a.de"))
    assert list(reader) == [Pair("one", "eins", 1), Pair("three", "drei", 3)]
    assert (reader.count, reader.empty, reader.empty_lines) == (3, 1, (2,))
    assert reader.report().endswith("a.en.gz: 1 of 3 pairs have an empty side and were left out (lines 2)")


@pytest.mark.parametrize(("left", "right", "ended", "longer"), [(2, 3, "left", "right"), (3, 2, "right", "left")])
def test_a_file_that_ends_first_is_named_with_its_last_line(tmp_path: Path, left, right, ended, longer):
    paths = [file_of(tmp_path, "x\n" * left, "left"), file_of(tmp_path, "x\n" * right, "right")]
    with pytest.raises(DataError, match=rf"{ended} ends after line 2, but .*{longer} goes on"):
        list(ParallelReader(*paths))


def test_columns_of_one_file_are_pairs(tmp_path: Path):
    path = file_of(tmp_path, "read\tR EH D\t9\n\nread\tR IY D\t1\nx\t \t2\n")
    reader = ParallelReader(path, keep_empty=True)
    pairs = list(reader)
    assert pairs == [("read", "R EH D", 1), ("", "", 2), ("read", "R IY D", 3), ("x", "", 4)]
    assert "2 of 4 pairs have an empty side (lines 2, 4)" in reader.report()
    assert by_source(pairs)["read"] == ["R EH D", "R IY D"]
    assert next(iter(ParallelReader(path, columns=(-1, 0)))) == ("9", "read", 1)
    with pytest.raises(DataError, match=r"a\.txt:1: 3 columns parted by tabs, but columns 0 and 3 are wanted"):
        list(ParallelReader(path, columns=(0, 3)))


def test_parallel_texts_that_cannot_be_two_are_refused(tmp_path: Path):
    path = file_of(tmp_path, "a\tb\n")
    with pytest.raises(ConfigError, match="as source and as target"):
        ParallelReader(path, path)
    with pytest.raises(ConfigError, match="must be two"):
        ParallelReader(path, columns=(1, 1))


def test_pairs_come_from_standard_input_as_they_arrive(monkeypatch: pytest.MonkeyPatch):
    class Stdin:
        buffer = io.BufferedReader(io.BytesIO(b"a\tb\nc\td"))

    monkeypatch.setattr(sys, "stdin", Stdin)
    assert list(ParallelReader("-")) == [("a", "b", 1), ("c", "d", 2)]


def test_real_parallel_texts_are_counted(shared: Path):
    folder = shared / "mt-multi30k"
    assert sum(1 for _ in ParallelReader(folder / "train.en.gz", folder / "train.de.gz")) == 29000
    spoken = by_source(ParallelReader(shared / "g2p-cmudict" / "test.tsv"))
    assert (len(spoken), sum(map(len, spoken.values()))) == (12565, 13485)
