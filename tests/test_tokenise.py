"""Tokenisers: reversible, the same wherever bytes are cut, text only when it is certain."""

from __future__ import annotations

import doctest
import json

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError
from ostinato.core.score import UNITS
from ostinato.core.vocabulary import STOP
from ostinato.text import bpe, tokenise
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import JOINER, make_tokeniser, tokeniser_from_json, tokenisers

LINES = [
    "the cat sat on the mat",
    "the dog saw the cat",
    "床前明月光 疑是地上霜",
    "床前明月光",
    "it's <unk> here",
    "x    y    z",
] * 3
BPE = make_tokeniser("bpe", LINES, 280)
ALL = [BPE if name == "bpe" else make_tokeniser(name) for name in tokenisers]
each = pytest.mark.parametrize("tokeniser", ALL, ids=lambda tokeniser: tokeniser.name)
texts = st.one_of(
    st.text(st.characters(codec="utf8")),
    st.text("ab'.,1-_ \n\t\u3000床月é\u0301\u093f" + JOINER + "🙂\u200d<>"),
    st.lists(st.sampled_from(["<unk>", "the", "cat's", "3.14", "床前", "\n", JOINER, " ", "  "])).map(" ".join),
)


def folded(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


@each
@settings(deadline=None)
@given(texts)
def test_pieces_give_the_text_back(tokeniser, text):
    assume(STOP not in text.split())
    wanted = folded(text) if tokeniser.unit == "word" else text
    assert tokeniser.text(tokeniser.pieces(text)) == wanted


@each
@settings(deadline=None)
@given(st.data(), texts)
def test_bytes_may_be_cut_anywhere(tokeniser, data, text):
    packed = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(packed)), max_size=8)))
    reader = tokeniser.reader()
    pieces = [
        piece
        for first, last in zip([0, *cuts], [*cuts, len(packed)], strict=True)
        for piece in reader.feed(packed[first:last])
    ]
    assert pieces + reader.end() == tokeniser.pieces(text)


@settings(deadline=None)
@given(st.sampled_from(ALL), st.sampled_from([(), ("nfc", "lower"), ("nfkc", "stem:english")]), texts)
def test_a_pipeline_reads_bytes_as_it_reads_the_text(tokeniser, names, text):
    assume("\u2028" not in text)
    pipeline = Pipeline(Normaliser(names), tokeniser)
    reader = pipeline.reader()
    pieces = [piece for byte in text.encode() for piece in reader.feed(bytes([byte]))]
    assert pieces + reader.end() == pipeline.pieces(text)


@each
@settings(deadline=None)
@given(texts)
def test_text_is_written_as_soon_as_it_is_certain(tokeniser, text):
    writer, pieces = tokeniser.writer(), tokeniser.pieces(text)
    written = ""
    for count, piece in enumerate(pieces, 1):
        written += writer.feed(piece)
        assert "\ufffd" in text or "\ufffd" not in written
        assert tokeniser.text(pieces[:count]).startswith(written)
    assert written + writer.end() == tokeniser.text(pieces)


@each
def test_a_line_end_is_a_piece_and_comes_at_once(tokeniser):
    reader = tokeniser.reader()
    assert reader.feed(b"ab\n") == [*tokeniser.pieces("ab"), STOP]
    assert tokeniser.pieces("ab\n月") == [*tokeniser.pieces("ab"), STOP, *tokeniser.pieces("月")]


@each
def test_specials_are_spelled_out_and_the_stop_is_a_line_end(tokeniser):
    pieces = [*tokeniser.pieces("ab"), STOP, "<unk>", STOP]
    assert tokeniser.text(pieces) == "ab\n<unk>\n"


@each
def test_json_gives_the_same_tokeniser(tokeniser):
    again = tokeniser_from_json(json.loads(json.dumps(tokeniser.to_json())))
    assert again == tokeniser
    assert again.pieces("the cat 床前 é") == tokeniser.pieces("the cat 床前 é")
    assert tokeniser.unit in UNITS


def test_the_examples_are_true():
    assert doctest.testmod(tokenise).failed == 0


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Hello, world!", ["Hello", "￭,", "world", "￭!"]),
        ("well-known e.g. 3.14", ["well", "￭-", "￭known", "e", "￭.", "￭g", "￭.", "3.14"]),
        ("l’été cafe\u0301s", ["l’été", "cafe\u0301s"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("Привет,мир", ["Привет", "￭,", "￭мир"]),
        ("東京タワー2号", ["東", "￭京", "￭タワー2", "￭号"]),
        ("an <unk> (<unk>)", ["an", "<unk>", "(", "￭<", "￭unk", "￭>", "￭)"]),
        (f"a{JOINER} {JOINER}b", ["a", JOINER * 2, JOINER, f"{JOINER}b"]),
    ],
)
def test_words_and_punctuation_stand_apart(text, pieces):
    assert make_tokeniser("word").pieces(text) == pieces


def test_a_prepared_corpus_keeps_its_unknowns():
    assert make_tokeniser("blank").pieces("a  <unk> b.") == ["a", "<unk>", "b."]


def test_half_a_character_is_held_back_and_a_wrong_one_shown_as_such():
    byte = make_tokeniser("byte")
    first, second, third = byte.pieces("月")
    writer = byte.writer()
    assert [writer.feed(first), writer.feed(second), writer.feed(third)] == ["", "", "月"]
    assert byte.text([first, "a"]) == "\ufffda"
    assert byte.text([first, STOP]) == "\ufffd\n"


def test_bpe_bytes_are_those_of_the_library():
    from tokenizers import pre_tokenizers

    assert set(bpe._BYTE_OF) == set(pre_tokenizers.ByteLevel.alphabet())
    for text in ("naïve\t月\x00", "".join(map(chr, range(256)))):
        pieces = [piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)]
        assert b"".join(map(bpe._bytes_of, pieces)) == text.encode()


def test_bpe_joins_what_is_frequent_and_is_the_same_every_time():
    assert "Ġthe" in BPE.pieces("on the mat")
    assert len(BPE.pieces("床前明月光")) < len("床前明月光".encode())
    assert make_tokeniser("bpe", LINES, 280) == BPE
    assert len(BPE.inventory) == 280


def test_a_run_of_blanks_is_one_piece_however_it_arrives():
    assert "ĠĠ" in "".join(BPE.pieces("x    y"))
    reader = BPE.reader()
    assert [piece for byte in b"x    y" for piece in reader.feed(bytes([byte]))] + reader.end() == BPE.pieces("x    y")


def test_more_bpe_pieces_than_the_text_yields_are_refused():
    with pytest.raises(ConfigError, match=r"yields only 25\d; lower it"):
        make_tokeniser("bpe", ["a b"], 5000)
    with pytest.raises(ConfigError, match="at least 257"):
        make_tokeniser("bpe", LINES, 100)


@each
def test_bytes_that_are_not_utf8_are_an_error_with_their_place(tokeniser):
    for first, second, place in ((b"ab \xe6", b"xy", 4), (b"ab ", b"c\xff", 5)):
        reader = tokeniser.reader()
        reader.feed(first)
        with pytest.raises(DataError, match=f"byte {place} "):
            reader.feed(second)
    reader = tokeniser.reader()
    reader.feed("月".encode()[:2])
    with pytest.raises(DataError, match="byte 1 "):
        reader.end()


def test_pieces_of_another_tokeniser_are_refused():
    for tokeniser in (make_tokeniser("byte"), BPE):
        with pytest.raises(MismatchError, match="another tokeniser"):
            tokeniser.text(["床"])


@pytest.mark.parametrize("content", [{}, {"name": "wrod"}, {"name": "bpe"}, {"name": "bpe", "model": {"x": 1}}, []])
def test_a_damaged_description_is_refused(content):
    with pytest.raises(FormatError):
        tokeniser_from_json(content)


def test_an_unknown_tokeniser_is_refused_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'word'"):
        make_tokeniser("wrod")


@each
def test_a_pipeline_is_saved_whole(tokeniser, tmp_path):
    pipeline = Pipeline(Normaliser(["nfc", "lower"]), tokeniser)
    pipeline.save(tmp_path / "text.json")
    assert Pipeline.load(tmp_path / "text.json") == pipeline
    assert pipeline.signature == f"{tokeniser.signature}+nfc+lower"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": 1', "damaged JSON"),
        ('{"format": 1, "normalise": []}', "not a text pipeline"),
        ('{"format": 1, "normalise": ["x"], "tokeniser": {"name": "word"}}', "not a text pipeline"),
        ('{"format": 1, "normalise": [], "tokeniser": {"name": "x"}}', "not a tokeniser"),
        ('{"format": 9, "normalise": [], "tokeniser": {"name": "word"}}', "newer"),
        ("[]", "not a text pipeline"),
    ],
)
def test_a_damaged_pipeline_is_refused_with_its_file(tmp_path, content, message):
    (tmp_path / "text.json").write_text(content)
    with pytest.raises(FormatError, match=rf"text\.json: .*{message}"):
        Pipeline.load(tmp_path / "text.json")
