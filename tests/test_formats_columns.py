"""Sentences in columns and in segmented text: what was read is written again, byte for byte."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, ShapeError
from ostinato.text.columns import CONLLU, read_columns, read_text, with_column
from ostinato.text.numbered import numbered_lines
from ostinato.text.read import LONGEST_LINE
from ostinato.text.segmented import characters_of, read_segmented, words_of

CONLL2003 = """-DOCSTART- -X- -X- O

EU NNP I-NP B-ORG
rejects VBZ I-VP O
. . O O

Peter NNP I-NP B-PER
Blackburn NNP I-NP I-PER

-DOCSTART- -X- -X- O

BRUSSELS NNP I-NP B-LOC
"""

UD = """# newdoc id = one
# text = I don't sleep
1\tI\tI\tPRON\tPRP\tCase=Nom\t4\tnsubj\t4:nsubj\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t4:aux\t_
3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t4:advmod\t_
4\tsleep\tsleep\tVERB\tVB\t_\t0\troot\t0:root\tGloss=a b|X= y
4.1\tslept\tsleep\tVERB\tVB\t_\t_\t_\t0:root\t_

# text = No
1\tNo\tno\tINTJ\tUH\t_\t0\troot\t0:root\t_

"""


def written(text: str, **options) -> str:
    return "".join(sentence.text for sentence in read_text(text, rest=True, **options))


def test_conll_2003_has_documents_and_four_columns_parted_by_blanks():
    sentences = list(read_text(CONLL2003))
    assert [sentence.words for sentence in sentences] == [
        ("EU", "rejects", "."),
        ("Peter", "Blackburn"),
        ("BRUSSELS",),
    ]
    assert [sentence.new_document for sentence in sentences] == [True, False, True]
    assert sentences[1].column(-1) == ("B-PER", "I-PER")
    assert [sentence.number for sentence in sentences] == [3, 7, 12]
    assert str(sentences[0].layout) == "4 columns parted by blanks"
    assert written(CONLL2003) == CONLL2003


def test_a_document_mark_ends_a_sentence_even_without_a_blank_line():
    first, second = read_text("a O\n-DOCSTART-\nb O\n")
    assert (first.words, second.words) == (("a",), ("b",))
    assert not first.new_document
    assert second.new_document


def test_conllu_keeps_comments_ranges_and_empty_nodes_and_counts_words_alone():
    first, second = read_text(UD)
    assert first.words == ("I", "do", "n't", "sleep")
    assert first.column("upos") == first.column(3) == ("PRON", "AUX", "PART", "VERB")
    assert first.column("MISC")[-1] == "Gloss=a b|X= y"
    assert first.comments == ("# newdoc id = one", "# text = I don't sleep")
    assert (first.new_document, second.new_document) == (True, False)
    assert written(UD) == UD


def test_one_column_is_replaced_and_nothing_else():
    first = next(read_text(UD))
    assert with_column(first, "upos", ["A", "B", "C", "D"]) == (
        UD.partition("# text = No")[0]
        .replace("\tPRON\t", "\tA\t")
        .replace("\tAUX\t", "\tB\t")
        .replace("\tPART\t", "\tC\t")
        .replace("4\tsleep\tsleep\tVERB\t", "4\tsleep\tsleep\tD\t")
    )
    spaced = next(read_text("The   DT  B-NP \nend NN   I-NP\n"))
    assert with_column(spaced, 1, ["X", "Y"]) == "The   X  B-NP \nend Y   I-NP\n"


def test_words_alone_are_given_a_column():
    assert with_column(next(read_text("The\nend\n")), 1, ["DT", "NN"]) == "The\tDT\nend\tNN\n"
    assert with_column(next(read_text("The DT\r\nend NN\r\n")), 2, ["O", "O"]) == "The DT O\r\nend NN O\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "a\tO\nb\tO\n",
        "a\tO\nb\tO",  # no final line end
        "a O\r\n\r\nb O\r\n",
        "\n\n\na O\n\n \n\t\nb O\n\n\n",  # runs of blank lines, before, between, behind
        "a\tO\n\t\nb\tO\n",  # WNUT-17: a blank line with a tab in it
        "a b\tO\nc\tO\n",  # a blank in a word
        "\tO\nb\tO\n",  # an empty word, as MASC has
        "a\u00a0b O\nc\u2028d O\n",
        "# O\nb O\n",  # a number sign is a word too
        "-DOCSTART-\n\n",
        "",
        "\n",
        UD + "# last words\n",
        UD.replace("\n", "\r\n"),
    ],
)
def test_what_was_read_is_written_again(tmp_path: Path, text: str):
    path = tmp_path / "a.conll"
    path.write_bytes(text.encode())
    assert "".join(sentence.text for sentence in read_columns(path, rest=True)) == text
    assert written(text) == text
    words = [sentence.words for sentence in read_columns(path)]
    assert all(words)
    assert words == [sentence.words for sentence in read_text(text)]


fields = st.text(st.characters(exclude_characters="\t\n\r \0", exclude_categories=["Cs"]), min_size=1, max_size=4)


@given(
    st.lists(st.lists(st.tuples(fields, fields, fields), min_size=1, max_size=4), min_size=1, max_size=4),
    st.sampled_from(["\t", " ", "   "]),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(0, 2),
)
def test_any_columns_come_back_and_can_be_replaced(sentences, separator, end, blank):
    text = "".join("".join(separator.join(row) + end for row in rows) + end * (blank + 1) for rows in sentences)
    found = list(read_text(text, "conll", rest=True))
    read = [sentence for sentence in found if sentence.words]
    assert [list(zip(*sentence.columns, strict=True)) for sentence in read] == sentences
    assert "".join(sentence.text for sentence in found) == text
    assert "".join(with_column(sentence, 1, sentence.column(1)) for sentence in found) == text


def test_a_tab_inside_a_word_is_known_by_the_whole_first_sentence():
    first, second = read_text("a\tb NN\nc NN\n\nd VB\n")
    assert (first.words, second.words) == (("a\tb", "c"), ("d",))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\tO\n\nb\tO\nc O\n", r"text:4: 1 column, but the file has 2 columns parted by tabs"),
        ("a B O\n\nb O\n", r"text:3: 2 columns, but the file has 3 columns parted by blanks"),
        (UD + "1\ta\tb\n", r"text:13: 3 columns parted by tabs, but CoNLL-U has ten"),
        (UD.replace("\n\n#", "\n#"), r"text:10: word number '1' where 5 is due"),
    ],
)
def test_a_line_that_does_not_fit_is_named(text, told):
    with pytest.raises(DataError, match=told):
        list(read_text(text))


def test_a_column_that_is_not_there_is_refused():
    sentence = next(read_text("a O\n"))
    for key, told in ((2, "file has 2 columns"), (-3, "numbered 0 to 1"), ("upos", "have no names")):
        with pytest.raises(ConfigError, match=told):
            sentence.column(key)
    with pytest.raises(ConfigError, match="did you mean 'upos'"):
        next(read_text(UD)).column("upo")
    with pytest.raises(ConfigError, match="ten columns"):
        with_column(next(read_text(UD)), len(CONLLU), ["x"] * 4)


def test_values_that_are_no_fields_are_refused():
    sentence = next(read_text("a O\n"))
    with pytest.raises(ShapeError, match="1 words, but 2 values"):
        with_column(sentence, 1, ["O", "O"])
    for value in ("B PER", "", "B\nPER"):
        with pytest.raises(DataError, match="cannot stand in a column"):
            with_column(sentence, 1, [value])


def test_conllu_agrees_with_the_conllu_package():
    conllu = pytest.importorskip("conllu")
    theirs = conllu.parse(UD)
    for ours, tokens in zip(read_text(UD), theirs, strict=True):
        words = [token for token in tokens if isinstance(token["id"], int)]
        assert ours.words == tuple(token["form"] for token in words)
        assert ours.column("upos") == tuple(token["upos"] for token in words)


def test_real_treebanks_are_counted_and_written_again(shared: Path):
    path = shared / "ud-en-ewt" / "en_ewt-ud-dev.conllu.gz"
    sentences = list(read_columns(path, rest=True))
    assert (len(sentences), sum(map(len, sentences))) == (2001, 25147)  # SOURCES.md
    assert "".join(sentence.text for sentence in sentences).encode() == gzip.decompress(path.read_bytes())
    entities = list(read_columns(shared / "ner-wnut17" / "dev.conll"))
    assert (len(entities), sum(map(len, entities))) == (1009, 15733)


def test_packed_files_byte_order_marks_and_line_numbers(tmp_path: Path):
    for name, pack in (("a.txt", bytes), ("a.txt.gz", gzip.compress)):
        path = tmp_path / name
        path.write_bytes(pack("\ufeffa O\r\n\r\nb O".encode()))
        lines = list(numbered_lines(path))
        assert lines == [(1, "a O", "\r\n"), (2, "", "\r\n"), (3, "b O", "")]
        assert [sentence.words for sentence in read_columns(path)] == [("a",), ("b",)]


def test_a_line_too_long_to_be_one_is_refused_by_number(tmp_path: Path):
    path = tmp_path / "long.txt"
    path.write_bytes(b"a O\n" + b"x" * (3 * LONGEST_LINE) + b" O\nb O\n")
    with pytest.raises(DataError, match=r"long\.txt:2: a line of more than 1,048,576 bytes"):
        list(numbered_lines(path))


def test_what_is_not_text_is_named_by_line(tmp_path: Path):
    path = tmp_path / "latin.txt"
    path.write_bytes(b"a O\nb\xe9 O\n")
    with pytest.raises(DataError, match=r"latin\.txt:2: byte 2 \(0xe9\) is not UTF-8"):
        list(read_columns(path))


# by hand: a word of three is B M E, of two B E, of one S
def test_characters_are_labelled_by_where_they_stand_in_their_word():
    assert characters_of(["我", "喜歡", "圖書館"]) == ("我喜歡圖書館", ["S", "B", "E", "B", "M", "E"])
    assert characters_of(["喜歡", "我"], ["V", "N"])[1] == ["B-V", "E-V", "S-N"]
    assert words_of("abcd", ["M", "M", "S", "E"]) == ["ab", "c", "d"]  # ill-formed, yet every character is in a word


@given(st.lists(st.text("ab你好", min_size=1, max_size=5), max_size=6))
def test_words_become_labels_and_back(words):
    assert words_of(*characters_of(words)) == words


@given(st.lists(st.sampled_from("BMESO"), max_size=9))
def test_no_character_is_lost_whatever_the_labels(labels):
    text = "abcdefghi"[: len(labels)]
    assert "".join(words_of(text, labels)) == text


def test_segmented_lines_are_parted_by_any_white_space(tmp_path: Path):
    path = tmp_path / "s.txt"
    path.write_text("我　喜歡  圖書館\n\n你 好\n", "utf8")
    assert list(read_segmented(path)) == [("我", "喜歡", "圖書館"), ("你", "好")]
    assert list(read_segmented(path, empty_lines=True))[1] == ()
    with pytest.raises(ShapeError, match="2 words, but 1 labels"):
        characters_of(["a", "b"], ["X"])
    with pytest.raises(ShapeError, match="2 characters, but 1 labels"):
        words_of("ab", ["S"])
