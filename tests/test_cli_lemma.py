"""The commands `ostinato lemma ...` from end to end: formats kept, JSON, exit codes, one line for what goes wrong."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ostinato.cli.app import run as cli
from ostinato.text.lemma import Lemmatiser

TRAIN = [
    ("Cars", "NOUN", "car"), ("doors", "NOUN", "door"), ("cities", "NOUN", "city"), ("stories", "NOUN", "story"),
    ("was", "AUX", "be"), ("Paris", "PROPN", "Paris"), ("teh", "DET", "_"),
]  # fmt: skip
ODD = (
    "# newdoc\r\n"
    "# text = Don't\tsay, it was stars\n"
    "1-2\tDon't\tkeep\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "1\tdo\t_\tAUX\t_\t_\t_\t_\t_\t_\n"
    "2\tn't\told\tPART\t_\t_\t_\t_\t_\t_\r\n"
    "2.1\tempty\tkept\t_\t_\t_\t_\t_\t_\t_\n"
    "3\tstars\t_\tNOUN\tNNS\t_\t0\troot\t_\tx\n"
    "\n \n"
    "1\twas\t_\t_\t_\t_\t_\t_\t_\t_"
)


def conllu(words: list[tuple[str, str, str]]) -> str:
    rows = (f"{n}\t{form}\t{lemma}\t{upos}" + 6 * "\t_" for n, (form, upos, lemma) in enumerate(words, 1))
    return "\n".join(rows) + "\n\n"


@pytest.fixture
def lemma(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs `ostinato lemma ...` in this process, with some standard input."""

    def call(*words: object, stdin: str = "") -> SimpleNamespace:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin.encode()))))
        code = cli(["lemma", *map(str, words)])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "train.conllu.gz").write_bytes(gzip.compress(conllu(TRAIN).encode()))
    Lemmatiser.fit(TRAIN).save(tmp_path / "small.lemma")
    return tmp_path


def test_train_writes_a_file_and_never_over_one(lemma: Any, home: Path) -> None:
    answer = lemma("train", home / "train.conllu.gz", "--out", home / "new.lemma", "--json")
    made = Lemmatiser.load(home / "new.lemma")
    assert (answer.code, made) == (0, Lemmatiser.load(home / "small.lemma"))
    assert json.loads(answer.out) == {
        "file": str(home / "new.lemma"),
        "fingerprint": made.fingerprint,
        "forms": 6,
        "parts_of_speech": ["AUX", "NOUN", "PROPN"],
        "endings": sum(len(made.words[tag].edits) + len(made.capitals[tag].edits) for tag in made.tags),
    }
    assert "6 forms, 3 tags" in answer.err
    again = lemma("train", home / "train.conllu.gz", "--out", home / "new.lemma")
    assert (again.code, again.out) == (1, "")
    assert "already exists; choose another name, or --force to replace it" in again.err
    assert lemma("train", "-", "--out", home / "new.lemma", "--force", stdin=conllu(TRAIN[:2])).code == 0
    assert Lemmatiser.load(home / "new.lemma") != made


def test_train_says_what_is_wrong_with_a_treebank(lemma: Any, home: Path) -> None:
    (home / "none.conllu").write_text(conllu([("a", "DET", "_")]))
    cases = [
        (("train", "--out", home / "x"), 2, "TREEBANKS requires an argument"),
        (("train", home / "nowhere", "--out", home / "x"), 1, "nowhere: no such file"),
        (("train", home / "none.conllu", "--out", home / "x"), 1, "none of 1 words has a lemma"),
        (("train", home / "small.lemma", "--out", home / "x"), 1, "CoNLL-U has ten"),
    ]
    for words, code, message in cases:
        answer = lemma(*words)
        assert (answer.code, answer.out) == (code, "")
        assert message in answer.err
        assert answer.err.count("\n") == 1
    assert not (home / "x").exists()


def test_predict_fills_one_column_and_keeps_every_other_byte(lemma: Any, home: Path) -> None:
    answer = lemma("predict", home / "small.lemma", "-", stdin=ODD)
    expected = (
        ODD.replace("\tdo\t_\t", "\tdo\tdo\t").replace("n't\told", "n't\tn't")
        .replace("\tstars\t_\t", "\tstars\tstar\t").replace("\twas\t_\t", "\twas\tbe\t")
    )  # fmt: skip
    assert answer.out == expected
    assert "were not in the treebank, so the words were treated as if they had none: PART (1)" in answer.err


def test_predict_takes_a_form_and_its_part_of_speech_on_each_line(lemma: Any, home: Path) -> None:
    answer = lemma(
        "predict", home / "small.lemma", stdin="# is a word\tX\nStars\tNOUN\n\nwas\nParis\tPROPN\r\n#s\tNOUN"
    )
    assert answer.out == (
        "# is a word\tX\t# is a word\nStars\tNOUN\tstar\n\nwas\tbe\nParis\tPROPN\tParis\r\n#s\tNOUN\t#"
    )
    assert lemma("predict", home / "small.lemma", stdin="was\tAUX\tVBD\n").err == (
        "ostinato: standard input:1: 3 columns parted by tabs; give CoNLL-U, or a form and its part of speech on each "
        "line\n"
    )
    assert "standard input:2: the form is empty" in lemma("predict", home / "small.lemma", stdin="a\n\tX\n").err
    cut = lemma("predict", home / "small.lemma", stdin=conllu(TRAIN[:2]).rstrip() + "\nx\n")
    assert (cut.code, cut.out.count("\n")) == (1, 2)
    assert "standard input:3: 1 columns parted by tabs, but CoNLL-U has ten" in cut.err
    assert lemma("predict", home / "nowhere", stdin="a\n").code == 1


def test_each_line_is_answered_before_the_next_comes(home: Path) -> None:
    command = [sys.executable, "-m", "ostinato", "lemma", "predict", str(home / "small.lemma")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word, answer in (("stars\tNOUN", "star"), ("was", "be")):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"{word}\t{answer}\n"
        process.stdin.close()
        assert process.wait(60) == 0


def test_evaluate_prints_a_table_with_its_counts(lemma: Any, home: Path) -> None:
    answer = lemma("evaluate", home / "small.lemma", home / "train.conllu.gz", "--simplemma", "en")
    assert answer.code == 0
    rows = [line.split() for line in answer.out.splitlines() if line.strip()]
    assert ["lemmatiser", "6", "100.00%", "100.00%"] in rows
    assert ["not", "seen", "0", "-", "-"] in rows
    assert ["identity", "6", f"{1 / 6:.2%}", f"{1 / 6:.2%}"] in rows
    assert any(row[:2] == ["simplemma", "en"] for row in rows)
    assert "6 words, 1 without a lemma left out; the treebank's parts of speech; Lemmatiser(6 forms" in answer.out


def test_evaluate_in_json_and_with_thresholds(lemma: Any, home: Path) -> None:
    gold = conllu(
        [("Stars", "NOUN", "star"), ("PARIS", "PROPN", "PARIS"), ("mice", "NOUN", "mouse"), ("teh", "X", "_")]
    )
    words = ("evaluate", home / "small.lemma", "-", "--json")
    answer = lemma(*words, "--min-caseless", 0.6, "--min-exact", 0.7, "--mistakes", 1, stdin=gold)
    content = json.loads(answer.out)
    ours = content["scores"][0]
    assert (answer.code, content["upos"], content["without_lemma"]) == (3, True, 1)
    assert (ours["name"], ours["words"], ours["caseless"], ours["exact"]) == ("lemmatiser", 3, 2 / 3, 1 / 3)
    assert ours["groups"]["recased"]["words"] == 1
    assert len(ours["mistakes"]) == 1
    assert answer.err == "0.3333 of the lemmas are right (exact), below --min-exact 0.7\n"
    assert lemma(*words, "--min-caseless", 0.6, stdin=gold).code == 0
    assert json.loads(lemma(*words, "--without-upos", stdin=gold).out)["upos"] is False
    assert lemma(*words, "--mistakes", -1, stdin=gold).code == 2
    assert lemma("evaluate", home / "small.lemma").code == 2
    assert "unknown language of simplemma" in lemma(*words, "--simplemma", "eng", stdin=gold).err
