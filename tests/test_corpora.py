"""Corpora: what is held out, what the vocabulary may see, the embedded corpus, and bad input."""

from __future__ import annotations

import gzip
import io
import sysconfig
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ostinato.core.config import build
from ostinato.core.errors import ConfigError, DataError, FormatError, StorageError
from ostinato.text import embedded
from ostinato.text.corpora import Corpus, DataOptions, prepare
from ostinato.text.embedded import PythonDocs, paragraphs, python_docs

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def poem(tmp_path) -> str:
    """A hundred lines; line n holds its number, so that each knows where it ends up."""
    path = tmp_path / "poem.txt"
    path.write_text("".join(f"床前 n{number} the\n" for number in range(100)), "utf8")
    return str(path)


def options(**given) -> DataOptions:
    return build(DataOptions, {"min_count": 1, "normalise": (), "tokeniser": "blank", **given}, "here")


def lines_of(corpus: Corpus, part: str) -> list[str]:
    stream = getattr(corpus, part)
    return corpus.pipeline.text(corpus.vocabulary.pieces_of(stream.ids)).splitlines()


def test_the_last_lines_are_held_out_and_the_vocabulary_does_not_see_them(tmp_path, poem):
    corpus = prepare(options(text=[poem], holdout=0.1), tmp_path / "data")
    assert lines_of(corpus, "train") == [f"床前 n{number} the" for number in range(80)]
    assert lines_of(corpus, "valid") == ["床前 <unk> the"] * 10
    assert lines_of(corpus, "test") == ["床前 <unk> the"] * 10
    assert corpus.vocabulary.outputs == 2 + 2 + 80
    assert corpus.valid.unknown == 10
    assert corpus.valid.data.startswith("poem.txt/valid#")
    assert corpus.valid.data.split("#")[1] != corpus.test.data.split("#")[1]


def test_texts_of_their_own_are_used_whole_and_each_file_is_a_document(tmp_path, poem):
    (tmp_path / "v.txt").write_text("the\n")
    (tmp_path / "w.txt").write_text("床前 the\nthe\n", "utf8")
    given = [str(tmp_path / "v.txt"), str(tmp_path / "w.txt")]
    corpus = prepare(options(text=[poem, poem], valid=given), tmp_path / "data")
    assert corpus.test is None
    assert (corpus.train.lines, corpus.train.starts.tolist()) == (200, [0, 400])
    assert (corpus.valid.lines, corpus.valid.starts.tolist()) == (3, [0, 2])
    assert corpus.valid.data.startswith("v.txt+1#")


def test_a_corpus_is_opened_as_it_was_prepared(tmp_path, poem):
    made = prepare(options(text=[poem], normalise=["nfc", "lower"], tokeniser="word"), tmp_path / "data")
    opened = Corpus.open(tmp_path / "data")
    assert (opened.options, opened.pipeline, opened.vocabulary) == (made.options, made.pipeline, made.vocabulary)
    for part in ("train", "valid", "test"):
        assert getattr(opened, part).data == getattr(made, part).data
        np.testing.assert_array_equal(getattr(opened, part).ids, getattr(made, part).ids)
    (tmp_path / "data" / "corpus.json").write_text('{"format": 1}')
    with pytest.raises(FormatError, match=r"corpus\.json: not a corpus"):
        Corpus.open(tmp_path / "data")


@pytest.mark.parametrize("tokeniser", ["word", "bpe"])
def test_standard_input_is_read_once(tmp_path, poem, monkeypatch, tokeniser):
    given = options(text=["-"], tokeniser=tokeniser, bpe_pieces=260)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(Path(poem).read_bytes())))
    corpus = prepare(given, tmp_path / "a")
    same = prepare(options(text=[poem], tokeniser=tokeniser, bpe_pieces=260), tmp_path / "b")
    assert corpus.train.ids.tolist() == same.train.ids.tolist()
    assert corpus.train.data.startswith("stdin#")
    assert not (tmp_path / "a" / "stdin.txt").exists()
    with pytest.raises(DataError, match="only once"):
        prepare(options(text=["-"], valid=["-"]), tmp_path / "c")


def test_bpe_learns_from_the_training_part_only(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("the cat sat on the mat\n" * 90 + ("zq " * 50 + "\n") * 10)
    corpus = prepare(options(text=[str(path)], tokeniser="bpe", bpe_pieces=262), tmp_path / "data")
    assert corpus.vocabulary.outputs == 262 + 2
    assert corpus.pipeline.pieces("zq") == ["z", "q"]
    assert corpus.train.unknown == corpus.valid.unknown == 0
    assert lines_of(corpus, "valid") == ["zq " * 50] * 5


def test_a_given_vocabulary_is_used_as_it_is(tmp_path, poem):
    (tmp_path / "words.txt").write_text("the\n床前\nnever\n", "utf8")
    corpus = prepare(options(text=[poem], vocabulary=str(tmp_path / "words.txt")), tmp_path / "data")
    assert corpus.vocabulary.pieces[2:-2] == ("the", "床前", "never")
    (tmp_path / "words.txt").write_text("other\nwords\n")
    with pytest.raises(DataError, match="none of its pieces occurs"):
        prepare(options(text=[poem], vocabulary=str(tmp_path / "words.txt")), tmp_path / "again")
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("content", "given", "fault", "message"),
    [
        (b"", {}, DataError, "empty"),
        (b"\n  \n", {}, DataError, "empty"),
        (b"a\nb\n", {}, DataError, "2 lines are too few to hold some out for valid and test"),
        (b"a b\n" * 30 + b"\xff\n", {}, DataError, r"t\.txt:31: byte 1 "),
        (b"a\0b\n", {}, DataError, "binary"),
        (b"the the\n" * 30, {}, DataError, "only one piece"),
        (b"a b\n" * 30, {"limit": 3}, ConfigError, "only 2 distinct pieces"),
        (b"a b\n" * 30, {"limit": 9, "tokeniser": "byte"}, ConfigError, "has no use"),
        (b"a b\n" * 30, {"tokeniser": "bpe", "bpe_pieces": 999}, ConfigError, "yields only"),
        (b"a b\n" * 30, {"normalise": ["loewr"]}, ConfigError, "did you mean 'lower'"),
        (b"a b\n" * 30, {"vocabulary": "gone.txt"}, DataError, "no such file"),
        (b"a b\n" * 30, {"valid": ["gone.txt"]}, DataError, "no such file"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(tmp_path, content, given, fault, message):
    path = tmp_path / "t.txt"
    path.write_bytes(content)
    with pytest.raises(fault, match=message) as raised:
        prepare(options(text=[str(path)], **given), tmp_path / "data")
    assert "\n" not in str(raised.value)
    assert [found.name for found in tmp_path.iterdir()] == ["t.txt"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"tokenizer": "word"}, "did you mean 'tokeniser'"),
        ({"tokeniser": "wrod"}, "tokeniser"),
        ({"holdout": 0.6}, "holdout"),
        ({"min_count": 0}, "min_count"),
        ({"bpe_pieces": 3}, "bpe_pieces"),
    ],
)
def test_bad_options_are_refused_with_their_key(given, message):
    with pytest.raises(ConfigError, match=message):
        options(**given)


def test_a_corpus_is_never_overwritten(tmp_path, poem):
    (tmp_path / "data").mkdir()
    with pytest.raises(StorageError, match="never overwritten"):
        prepare(options(text=[poem]), tmp_path / "data")


def test_the_protocol_of_the_state_of_the_union_set_is_met(tmp_path):
    """SOURCES.md: 13,664 words seen three times and <unk>; 188,752 and 199,473 tokens with </s>."""
    folder = DATA / "lm-sotu"
    if not folder.exists():
        pytest.skip("lm-sotu is not on this machine")
    parts = {part: [str(folder / f"{part}.txt")] for part in ("valid", "test")}
    corpus = prepare(options(text=[str(folder / "train.txt.gz")], min_count=3, **parts), tmp_path / "data")
    assert corpus.vocabulary.outputs == 13_664 + 2
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == (1_605_777 + 51_918, 188_752, 199_473)


@pytest.fixture(scope="module")
def docs(tmp_path_factory) -> PythonDocs:
    return python_docs(tmp_path_factory.mktemp("cache"))


def test_the_embedded_corpus_is_of_the_stated_size_and_split_by_document(docs):
    words = sum(len(line.split()) for _, lines in docs.documents for line in lines)
    assert 250_000 < words < 450_000
    names = [name for name, _ in docs.documents]
    assert names == [*sorted(n for n in names if n[:6] == "topic "), *sorted(n for n in names if n[:6] != "topic ")]
    assert len(set(names)) == len(names)
    assert len(docs.train) + len(docs.valid) + len(docs.test) == len(names)
    assert docs.valid[0] == docs.documents[18][1]
    assert docs.test[1] == docs.documents[39][1]
    assert not [name for name in names if ".test." in f".{name}." or ".tests." in f".{name}."]


def test_extraction_imports_no_module_and_is_the_same_every_time(tmp_path):
    (tmp_path / "pkg" / "test").mkdir(parents=True)
    (tmp_path / "pkg" / "__init__.py").write_text('"""First\n   line.\n\n   =====\n\n   Second."""\nraise SystemExit')
    (tmp_path / "pkg" / "mod.py").write_text('class A:\n "Of A."\n def f(self):\n  "Of f."\ndef g():\n r"""\\d"""\n')
    (tmp_path / "pkg" / "broken.py").write_text('"""Doc."""\nprint "python 2"')
    (tmp_path / "pkg" / "test" / "t.py").write_text('"""Never read."""')
    (tmp_path / "pydoc_data").mkdir()
    (tmp_path / "pydoc_data" / "topics.py").write_text("topics = {'b': 'B\\n*\\n\\nbee', 'a': 'Eh'}")
    assert list(embedded.extract(tmp_path)) == [
        ("topic a", ("Eh",)),
        ("topic b", ("B", "bee")),
        ("pkg.__init__", ("First line.", "Second.")),
        ("pkg.mod", ("Of A.", "Of f.", "\\d")),
    ]


def test_a_paragraph_is_one_line():
    assert list(paragraphs("One\n  two.\n \n----\n* *\n\nA\x00\tb 月\n")) == ["One two.", "A b 月"]


def test_the_cache_is_used_and_made_again_when_damaged(tmp_path, docs, monkeypatch):
    monkeypatch.setattr(embedded, "extract", lambda _: docs.documents)
    assert python_docs(tmp_path) == docs
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "extract", lambda _: pytest.fail("the cache was not used"))
        assert python_docs(tmp_path) == docs
    file.write_bytes(whole[:-100])
    assert python_docs(tmp_path) == docs
    assert file.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path, docs, monkeypatch):
    monkeypatch.setattr(embedded, "extract", lambda _: docs.documents)
    blocked = tmp_path / "a file, no folder"
    blocked.write_text("")
    assert python_docs(blocked) == docs
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert python_docs() == docs
    assert list(tmp_path.glob("ostinato-*/python-docs-*.json"))


def test_a_python_without_sources_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(DataError, match="--text FILE"):
        python_docs(tmp_path / "cache")


def test_the_embedded_corpus_is_prepared_with_the_version_in_its_name(tmp_path, docs, monkeypatch):
    monkeypatch.setattr("ostinato.text.corpora.python_docs", lambda: docs)
    corpus = prepare(DataOptions(), tmp_path / "data")
    name, digits = corpus.train.data.split("#")
    assert name == docs.name
    assert name.startswith("python-docs-3.")
    assert len(digits) == 8
    assert len(corpus.train.starts) == len(docs.train)
    assert corpus.test is not None
    assert corpus.test.data.startswith(f"{docs.name}/test#")


def test_packed_training_text_is_unpacked(tmp_path, poem):
    packed = tmp_path / "poem.txt.gz"
    packed.write_bytes(gzip.compress(Path(poem).read_bytes()))
    plain, unpacked = (prepare(options(text=[str(path)]), tmp_path / f"{n}") for n, path in enumerate((poem, packed)))
    assert plain.train.data.split("#")[1] == unpacked.train.data.split("#")[1]
