"""The commands `ostinato vectors ...` from end to end: answers, JSON, exit codes, one line for what goes wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ostinato.cli.app import run as cli
from ostinato.embed.vectors import Vectors

ROWS = {
    "man": (1, 0, 0), "king": (1, 0, 1), "woman": (0, 1, 0), "queen": (0, 1, 1), "law": (0, 0, 1), "-dash": (1, 1, 0),
}  # fmt: skip


class Answer:
    """What a command said and returned."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def vectors(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs `ostinato vectors ...` in this process, with some standard input."""

    def call(*words: object, stdin: str = "") -> Answer:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin.encode()))))
        code = cli(["vectors", *map(str, words)])
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with vectors of six words, the same as text, and files to judge them by."""
    home = tmp_path_factory.mktemp("home")
    rows = np.array([*ROWS.values()], np.float32)
    Vectors([*ROWS], rows, np.array([9, 8, 7, 6, 5, 4])).save(home / "v", output=rows[::-1].copy())
    lines = [f"{word} {' '.join(map(str, row))}\n" for word, row in ROWS.items()]
    (home / "v.txt").write_text("6 3\n" + "".join(lines))
    (home / "run").mkdir()
    (home / "run" / "vectors").symlink_to(home / "v")
    (home / "pairs.tsv").write_text("man\tking\t5\nman\tlaw\t1\nwoman\tqueen\t6\nnobody\tman\t9\n")
    (home / "analogies.txt").write_text(": family\nman king woman queen\nman king nobody queen\nman law woman king\n")
    return home


def test_neighbors_are_tables_or_one_object(vectors: Any, home: Path) -> None:
    answer = vectors("neighbors", home / "v", "king", "-k", 2)
    assert answer.code == 0
    assert ["near king", "man", "law"] == [line.rsplit(None, 1)[0].strip() for line in shown(answer.out)]
    found = vectors("neighbors", home / "v", "king", "law", "-k", 2, "--json").json
    assert [query["word"] for query in found["queries"]] == ["king", "law"]
    first = found["queries"][0]["neighbors"]
    assert first == [
        {"word": "man", "cosine": pytest.approx(0.5**0.5)},
        {"word": "law", "cosine": pytest.approx(0.5**0.5)},
    ]


def shown(out: str) -> list[str]:
    """The lines of a table that hold words."""
    return [line for line in out.splitlines() if any(letter.isalpha() for letter in line)]


def test_neighbors_of_standard_input_are_answered_line_by_line(vectors: Any, home: Path) -> None:
    answer = vectors("neighbors", home / "v", "-", "-k", 1, "--json", stdin="king\n\nnobody\nlaw\n")
    assert [line["word"] for line in answer.lines] == ["king", "nobody", "law"]
    assert [line["neighbors"] is None for line in answer.lines] == [False, True, False]
    assert "'nobody' is not among the 6 words" in answer.err
    plain = vectors("neighbors", home / "v", "-", "-k", 2, "-q", stdin="king\nnobody\n")
    assert (plain.out, plain.err) == ("king\tman 0.7071, law 0.7071\nnobody\t-\n", "")


def test_each_line_of_standard_input_is_answered_before_the_next_comes(home: Path) -> None:
    command = [sys.executable, "-m", "ostinato", "vectors", "neighbors", str(home / "v"), "-", "-k", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for word in ("king", "law"):
            process.stdin.write(f"{word}\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith(f"{word}\t")
        process.stdin.close()
        assert process.wait(60) == 0


def test_the_vectors_may_be_a_folder_a_run_or_a_file(vectors: Any, home: Path) -> None:
    answers = [vectors("neighbors", home / name, "king", "--json").json for name in ("v", "run", "v.txt")]
    assert answers[0] == answers[1] == answers[2]


def test_the_output_vectors_can_be_asked(vectors: Any, home: Path) -> None:
    rows = np.array([*ROWS.values()], np.float32)
    expected = Vectors([*ROWS], rows[::-1].copy()).most_similar(["man"], 1)[0][0][0]
    found = vectors("neighbors", home / "v", "man", "-k", 1, "--which", "output", "--json").json
    assert found["queries"][0]["neighbors"][0]["word"] == expected
    refused = vectors("neighbors", home / "v.txt", "man", "--which", "output")
    assert refused.code == 2
    assert "only a folder of ours" in refused.err


def test_a_word_may_begin_with_a_hyphen(vectors: Any, home: Path) -> None:
    assert vectors("neighbors", home / "v", "-dash", "-k", 1, "--json").json["queries"][0]["word"] == "-dash"


def test_an_unknown_word_is_one_line(vectors: Any, home: Path) -> None:
    answer = vectors("neighbors", home / "v", "king", "qeen")
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == "ostinato: 'qeen' is not among the 6 words of these vectors; did you mean 'queen'?\n"
    assert vectors("neighbors", home / "v").code == 2
    assert vectors("neighbors", home / "v", "king", "-k", 0).code == 2
    assert vectors("neighbors", home / "nowhere", "king").code == 1


def test_an_analogy(vectors: Any, home: Path) -> None:
    for method in ("3cosadd", "3cosmul"):
        found = vectors("analogy", home / "v", "man", "king", "woman", "--method", method, "--json").json
        assert (found["method"], found["answers"][0]["word"]) == (method, "queen")
        assert len(found["answers"]) == 3
    answer = vectors("analogy", home / "v", "man", "king", "woman", "-k", 1)
    assert "man : king = woman : ?" in answer.out
    assert "queen" in answer.out


def test_the_similarity_of_two_words_or_of_a_file(vectors: Any, home: Path) -> None:
    assert vectors("similarity", home / "v", "man", "king").out == "man\tking\t0.7071\n"
    answer = vectors("similarity", home / "v", home / "pairs.tsv", "--json")
    assert [line["words"] for line in answer.lines] == [
        ["man", "king"],
        ["man", "law"],
        ["woman", "queen"],
        ["nobody", "man"],
    ]
    assert [line["cosine"] for line in answer.lines] == [pytest.approx(0.5**0.5), 0, pytest.approx(0.5**0.5), None]
    assert "no vector for 'nobody'" in answer.err
    assert vectors("similarity", home / "v", "-", stdin="man king\nx y\n").out == "man\tking\t0.7071\nx\ty\t-\n"
    assert vectors("similarity", home / "v", "man", "king", "law").code == 2


def test_evaluate_finds_out_what_each_file_is(vectors: Any, home: Path) -> None:
    answer = vectors("evaluate", home / "v", home / "pairs.tsv", home / "analogies.txt", "--json")
    alike, solved = answer.json["scores"]
    assert (alike["kind"], alike["pairs"], alike["used"], alike["coverage"]) == ("similarity", 4, 3, 0.75)
    assert alike["spearman"] == pytest.approx(0.75**0.5)  # ranks 2 1 3 against 2.5 1 2.5
    assert (solved["kind"], solved["total"]["questions"], solved["total"]["answered"]) == ("analogies", 3, 2)
    assert solved["total"]["accuracy"] == 0.5
    assert solved["sections"][0]["name"] == "family"


def test_evaluate_shows_coverage_and_with_v_every_section(vectors: Any, home: Path) -> None:
    words = ("evaluate", home / "v", home / "pairs.tsv", home / "analogies.txt")
    plain, full = vectors(*words), vectors(*words, "-v")
    for expected in ("75.0%", "66.7%", "0.8660", "50.0%", "6 of 6 words, 3 dimensions, case ignored"):
        assert expected in plain.out
    assert "\n  family" not in plain.out
    assert "  family" in full.out


def test_missed_thresholds_are_exit_code_3(vectors: Any, home: Path) -> None:
    pairs, questions = home / "pairs.tsv", home / "analogies.txt"
    assert vectors("evaluate", home / "v", pairs, "--min-spearman", 0.8).code == 0
    missed = vectors("evaluate", home / "v", pairs, "--min-spearman", 0.9)
    assert missed.code == 3
    assert "0.8660 is below --min-spearman 0.9" in missed.err
    assert vectors("evaluate", home / "v", questions, "--min-analogies", 0.5).code == 0
    assert vectors("evaluate", home / "v", questions, "--min-analogies", 0.51).code == 3
    assert (
        vectors("evaluate", home / "v", questions, "--restrict", 1, "--min-analogies", 0).code == 3
    )  # nothing answered
    wrong = vectors("evaluate", home / "v", pairs, "--min-analogies", 0.1)
    assert wrong.code == 2
    assert "no file that it is for" in wrong.err


def test_evaluate_names_the_line_that_is_wrong(vectors: Any, home: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("a\tb\t1\nc\td\n")
    answer = vectors("evaluate", home / "v", tmp_path / "bad.tsv")
    assert answer.code == 1
    assert answer.err.startswith(f"ostinato: {tmp_path / 'bad.tsv'}:2: ")
    assert vectors("evaluate", home / "v").code == 2


def test_a_map_is_drawn_and_its_points_are_told(vectors: Any, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "map.svg"
    answer = vectors("map", home / "v", "king", "queen", "law", "--out", out, "--json")
    assert [point["word"] for point in answer.json["points"]] == ["king", "queen", "law"]
    assert answer.json["file"] == str(out)
    assert "queen" in out.read_text()
    (tmp_path / "words.txt").write_text("law nobody\nking\n")
    answer = vectors("map", home / "v", "--words", tmp_path / "words.txt", "--top", 2, "--json")
    assert [point["word"] for point in answer.json["points"]] == ["law", "king", "man"]
    assert "1 of 3 words have no vector" in answer.err
    answer = vectors("map", home / "v", "--words", "-", "--json", stdin="man law")
    assert [point["word"] for point in answer.json["points"]] == ["man", "law"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("king", "queen"), "name the file to draw with --out"),
        (("--out", "map.svg"), "name words"),
        (("king", "queen", "--out", "map.pdf"), "a map is drawn as .svg or .png"),
        (("--top", "0", "--json"), "at least 1"),
    ],
)
def test_a_map_that_cannot_be_drawn_is_a_usage_error(vectors: Any, home: Path, words: Any, fault: str) -> None:
    answer = vectors("map", home / "v", *words)
    assert answer.code == 2
    assert fault in answer.err


def test_converting_there_and_back_gives_the_same_numbers(vectors: Any, home: Path, tmp_path: Path) -> None:
    original = Vectors.load(home / "v")
    before = home / "v"
    for name in ("a.txt", "a.bin.gz", "a.vec.zst", "a"):
        answer = vectors("convert", before, tmp_path / name, "--json")
        assert (answer.code, answer.json["words"], answer.json["dimensions"]) == (0, 6, 3)
        before = tmp_path / name
    again = Vectors.load(tmp_path / "a")
    assert again.words == original.words
    assert again.array.tobytes() == original.array.tobytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_converting_may_keep_the_first_words_and_half_the_digits(vectors: Any, home: Path, tmp_path: Path) -> None:
    for source in (home / "v", home / "v.txt"):
        target = tmp_path / f"from-{source.suffix}"
        answer = vectors("convert", source, target, "--to", "ostinato", "--dtype", "float16", "--top", 2)
        assert answer.code == 0
        assert "2 words, 3 dimensions" in answer.out
        kept = Vectors.load(target)
        assert (kept.words, kept.array.dtype) == (("man", "king"), np.float16)
    glove = vectors("convert", home / "v", tmp_path / "some.glove", "--to", "glove", "--which", "output", "--top", 1)
    assert glove.code == 0
    assert (tmp_path / "some.glove").read_text().split() == ["man", "1.0", "1.0", "0.0"]  # of the rows turned over


def test_counts_are_read_and_written(vectors: Any, home: Path, tmp_path: Path) -> None:
    assert vectors("convert", home / "v", tmp_path / "v.bin", "--save-counts", tmp_path / "counts").code == 0
    assert (tmp_path / "counts").read_text().startswith("man 9\nking 8\n")
    assert vectors("convert", tmp_path / "v.bin", tmp_path / "w", "--counts", tmp_path / "counts").code == 0
    counts = Vectors.load(tmp_path / "w").counts
    assert counts is not None
    assert counts.tolist() == [9, 8, 7, 6, 5, 4]
    assert vectors("convert", home / "v", tmp_path / "x", "--counts", tmp_path / "counts").code == 2


def test_nothing_is_replaced_unless_told(vectors: Any, home: Path, tmp_path: Path) -> None:
    for name in ("v.txt", "w"):
        assert vectors("convert", home / "v", tmp_path / name, "-q").code == 0
        refused = vectors("convert", home / "v", tmp_path / name)
        assert refused.code == 1
        assert "--force" in refused.err
        assert vectors("convert", home / "v", tmp_path / name, "--top", 2, "--force", "-q").code == 0
    assert len(Vectors.load(tmp_path / "w")) == 2
    run = vectors("convert", home / "v", home / "run", "--to", "ostinato", "--force")
    assert run.code == 1
    assert "run directory" in run.err


def test_a_format_that_is_not_clear_is_asked_for(vectors: Any, home: Path, tmp_path: Path) -> None:
    answer = vectors("convert", home / "v", tmp_path / "v.dat")
    assert answer.code == 2
    assert "name one with --to" in answer.err
    answer = vectors("convert", home / "v", tmp_path / "v.bin", "--dtype", "float16")
    assert answer.code == 2
    assert "--dtype is for a folder" in answer.err


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from ostinato.cli.app import run; run(['vectors', '--help']); print(sorted(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("'torch'", "'numba'", "'matplotlib'", "'gensim'", "'ostinato.embed.vectors'"):
        assert heavy not in shown
