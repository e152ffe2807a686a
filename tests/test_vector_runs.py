"""Runs of word vectors from end to end: trained, stopped, killed, gone on with, trained on, and refused in one line."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ostinato.cli import talk
from ostinato.cli.app import run as cli
from ostinato.core.config import read_toml
from ostinato.core.errors import ConfigError, DivergedError, Interrupted, MismatchError, StorageError
from ostinato.core.progress import Progress
from ostinato.embed import objectives
from ostinato.embed import trainer as trainers
from ostinato.embed.files import read_vectors
from ostinato.embed.options import TextOptions, VectorOptions
from ostinato.embed.vectors import Vectors
from ostinato.runs import VECTORS, RunDir
from ostinato.tasks import vectors as task
from ostinato.tasks.vectors import CheckOptions, Config, Watching
from ostinato.text.embedded import python_docs

SMALL = ("--dimensions", "12", "--threads", "1", "--epochs", "2")


class Answer:
    """What a command said and returned."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def ostinato(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that runs a command in this process, with some standard input."""

    def call(*words: object, stdin: bytes = b"") -> Answer:
        capsys.readouterr()
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin))))
        code = cli([str(word) for word in words])
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two texts, one of them packed too, a benchmark, a finished run and a language model."""
    home = tmp_path_factory.mktemp("home")
    lines = [line.lower() for document in python_docs().train[:120] for line in document]
    half = len(lines) // 2
    (home / "text.txt").write_text("\n".join(lines[:half]) + "\n", "utf8")
    (home / "more.txt").write_text("\n".join(lines[half:]) + "\n", "utf8")
    (home / "text.txt.gz").write_bytes(gzip.compress((home / "text.txt").read_bytes()))
    (home / "pairs.tsv").write_text("the\ta\t8\nis\tare\t9\nfile\tlist\t3\nthe\tunheardof\t1\n")
    (home / "questions.txt").write_text(": grammar\nis are the a\nthe a is are\n")
    (home / "empty.txt").write_text("")
    (home / "binary.txt").write_bytes(b"a b\n\0\1\2\n")
    (home / "latin.txt").write_bytes(b"a b\n caf\xe9\n")
    (home / "rare.txt").write_text("once upon a time\n")
    (home / "column.txt").write_text("one\ntwo\n" * 50)
    assert (
        cli(["vectors", "train", "--text", str(home / "text.txt"), *SMALL, "--run-dir", str(home / "run"), "-q"]) == 0
    )
    language = ("train", "--text", home / "text.txt", "--model.kind", "ngram", "--model.order", "2", "-q")
    assert cli([*map(str, language), "--run-dir", str(home / "language")]) == 0
    return home


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many chunks in a short text."""
    monkeypatch.setattr(trainers, "CHUNK", 2000)


def content(run: Path) -> dict[str, bytes]:
    """The vectors of a run as bytes, by file."""
    return {path.name: path.read_bytes() for path in sorted((run / "vectors").iterdir())}


def config(home: Path, **options: Any) -> Config:
    chosen = {"dimensions": 12, "threads": 1, "epochs": 2, **options}
    return Config(TextOptions((str(home / "text.txt"),)), VectorOptions(**chosen))


def interrupting(after: int) -> Callable[[Progress], None]:
    """A watch that presses Ctrl-C at report number `after` of training."""
    seen = 0

    def watch(progress: Progress) -> None:
        nonlocal seen
        seen += progress.label == "train"
        if seen == after and progress.label == "train":
            os.kill(os.getpid(), signal.SIGINT)

    return watch


def test_a_run_holds_what_it_was_told_what_happened_and_the_vectors(home: Path) -> None:
    run = RunDir.open(home / "run", VECTORS)
    assert sorted(path.name for path in run.path.iterdir() if not path.name.startswith(".")) == [
        "checkpoints", "config.toml", "environment.json", "log.jsonl", "vectors",
    ]  # fmt: skip
    assert task.load_config(run) == config(home)
    assert len(run.checkpoints()) == 1
    events = run.events()
    assert [event["event"] for event in events] == ["start", "report", "report", "stop"]
    assert [event["words"] for event in events[1:3]] == [events[0]["text"]] * 2
    assert task.last_loss(run) == events[2]["loss"] < events[1]["loss"]
    vectors = Vectors.load(run.path / "vectors")
    assert len(vectors) == events[0]["words"]
    assert vectors.counts is not None
    assert (np.diff(vectors.counts) <= 0).all()
    assert vectors.counts.min() >= 5
    assert Vectors.load(run.path / "vectors", "output").array.any()


def test_train_prints_what_came_out(ostinato: Any, home: Path, tmp_path: Path) -> None:
    words = ("vectors", "train", "--text", home / "text.txt", *SMALL)
    answer = ostinato(*words, "--run-dir", tmp_path / "a")
    assert answer.code == 0
    assert re.fullmatch(
        r"[\d,]+ words, 12 dimensions, \d+\.\d s, \d\.\d{4} nats a pair in the last epoch\n", answer.out
    )
    assert f"ostinato vectors neighbors {tmp_path / 'a'}" in answer.err
    answer = ostinato(*words, "--run-dir", tmp_path / "b", "--json", "-q")
    assert answer.err == ""
    found = json.loads(answer.out)
    assert found.keys() == {"run", "words", "dimensions", "loss", "seconds", "fingerprint"}
    assert found["fingerprint"] == Vectors.load(home / "run" / "vectors").fingerprint
    assert content(tmp_path / "a") == content(tmp_path / "b") == content(home / "run")
    near = ostinato("vectors", "neighbors", tmp_path / "a", "the", "-k", "3", "--json")
    assert len(json.loads(near.out)["queries"][0]["neighbors"]) == 3


def test_a_run_is_read_as_the_vectors_in_it(home: Path) -> None:
    found, expected = read_vectors(home / "run"), Vectors.load(home / "run" / "vectors")
    assert found.words == expected.words
    np.testing.assert_array_equal(found.array, expected.array)


def test_packed_texts_and_standard_input_give_the_same_vectors(ostinato: Any, home: Path, tmp_path: Path) -> None:
    assert ostinato("vectors", "train", "--text", home / "text.txt.gz", *SMALL, "--run-dir", tmp_path / "gz").code == 0
    piped = (home / "text.txt").read_bytes()
    answer = ostinato("vectors", "train", "--text", "-", *SMALL, "--run-dir", tmp_path / "piped", stdin=piped)
    assert answer.code == 0
    assert content(tmp_path / "gz") == content(tmp_path / "piped") == content(home / "run")


def test_progress_is_plain_lines_where_no_terminal_is(
    ostinato: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_chunks: None
) -> None:
    monkeypatch.setattr(talk, "PLAIN_SECONDS", 1e-9)
    words = ("vectors", "train", "--text", home / "text.txt", *SMALL, "--run-dir")
    said = ostinato(*words, tmp_path / "a").err.splitlines()
    train = [line for line in said if line.startswith("train: ")]
    assert re.fullmatch(
        r"train: 100%, [\d,]+ tokens, [\d,]+ tokens/s, loss \d\.\d{4} nats/pair  rate 0\.00010", train[-1]
    )
    assert ostinato(*words, tmp_path / "b", "-q").err == ""


def test_a_full_softmax_reports_after_few_words_and_threads_say_that_they_share(home: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    reports: list[Progress] = []
    chosen = config(home, loss="softmax", threads=2, epochs=1)
    run = task.train(chosen, tmp_path / "run", Watching(reports.append, notes.append))
    assert any("Hogwild" in note for note in notes)
    first = next(report for report in reports if report.label == "train")
    assert first.tokens < 0.2 * run.events()[0]["text"]


KINDS: list[dict[str, Any]] = [
    {},
    {"model": "cbow-mean", "loss": "hierarchical-softmax"},
    {"model": "cbow-sum", "subwords": True, "buckets": 500},
]


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_ctrl_c_saves_and_resume_gives_the_bits_of_an_uninterrupted_run(
    home: Path, tmp_path: Path, short_chunks: None, options: dict[str, Any]
) -> None:
    whole = task.train(config(home, **options), tmp_path / "whole", Watching())
    with pytest.raises(Interrupted, match=r"stopped at \d+% and saved; `ostinato resume"):
        task.train(config(home, **options), tmp_path / "run", Watching(interrupting(1)))
    with pytest.raises(Interrupted):
        task.resume(tmp_path / "run", Watching(interrupting(1)))
    run = RunDir.open(tmp_path / "run", VECTORS)
    assert run.ending()[0] == "interrupted"
    assert not (run.path / "vectors").exists()
    assert 0 < run.ending()[1] < whole.ending()[1]
    done = task.resume(tmp_path / "run", Watching())
    assert content(done.path) == content(whole.path)
    assert len(done.checkpoints()) == 1
    assert not (done.path / "data").exists()
    reports = [event for event in done.events() if event["event"] == "report"]
    assert sum(report["words"] for report in reports) == 2 * done.events()[0]["text"]
    assert task.last_loss(done) == pytest.approx(task.last_loss(whole), rel=1e-9)
    stops = [event["seconds"] for event in done.events() if event["event"] == "stop"]
    assert stops == sorted(stops)
    assert len(stops) == 3
    before = content(done.path)
    task.resume(tmp_path / "run", Watching())
    assert content(done.path) == before


def started(home: Path, run: Path, more: str = "pass") -> subprocess.Popen[str]:
    """A training of some seconds in a process of its own, begun."""
    words = ["vectors", "train", "--text", home / "text.txt", "--dimensions", "64", "--threads", "1", "--epochs", "100"]
    code = f"import sys; {more}; from ostinato.cli.app import main; main({[*map(str, words), '--run-dir', str(run)]})"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(there: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(1200):
        if there():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError("it did not come")


def test_a_process_that_is_stopped_or_killed_is_gone_on_with_to_the_same_bits(
    ostinato: Any, home: Path, tmp_path: Path
) -> None:
    stopped, killed, whole = (tmp_path / name for name in ("stopped", "killed", "whole"))
    process = started(home, stopped)
    wait_for(
        lambda: "start" in (stopped / "log.jsonl").read_text() if (stopped / "log.jsonl").is_file() else False, process
    )
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert out == ""
    assert f"`ostinato resume {stopped}` goes on" in err
    assert "Traceback" not in err
    process = started(home, killed, "import ostinato.tasks.vectors as t; t.CHECKPOINT = 0.1")
    wait_for(lambda: any(int(path.name) for path in killed.glob("checkpoints/[0-9]*")), process)
    process.kill()
    process.communicate(timeout=60)
    assert not (killed / "vectors").exists()
    assert RunDir.open(killed, VECTORS).ending()[0] == ""
    for run in (stopped, killed):
        answer = ostinato("resume", run, "--json")
        assert answer.code == 0, answer.err
        assert json.loads(answer.out)["dimensions"] == 64
    process = started(home, whole)
    process.communicate(timeout=120)
    assert content(stopped) == content(killed) == content(whole)
    answer = ostinato("resume", whole)
    assert answer.code == 0
    assert "is finished: nothing was left to do" in answer.err


def test_a_run_killed_before_its_first_checkpoint_begins_anew(home: Path, tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        task.train(config(home, epochs=3), tmp_path / "run", Watching(interrupting(1)))
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    done = task.resume(tmp_path / "run", Watching())
    whole = task.train(config(home, epochs=3), tmp_path / "whole", Watching())
    assert content(done.path) == content(whole.path)


def test_resume_refuses_what_was_changed_but_the_number_of_threads(
    ostinato: Any, home: Path, tmp_path: Path, short_chunks: None
) -> None:
    with pytest.raises(Interrupted):
        task.train(config(home), tmp_path / "run", Watching(interrupting(1)))
    written = (tmp_path / "run" / "config.toml").read_text()
    (tmp_path / "run" / "config.toml").write_text(written.replace("window = 5", "window = 4"))
    answer = ostinato("resume", tmp_path / "run")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "vectors.window changed since the last checkpoint" in answer.err
    (tmp_path / "run" / "config.toml").write_text(written.replace("threads = 1", "threads = 2"))
    assert ostinato("resume", tmp_path / "run").code == 0


def test_a_run_is_never_trained_by_two_or_made_twice(
    ostinato: Any, home: Path, tmp_path: Path, short_chunks: None
) -> None:
    before = content(home / "run")
    answer = ostinato("vectors", "train", "--text", home / "text.txt", "--run-dir", home / "run")
    assert answer.code == 1
    assert "already exists; choose another --run-dir, or go on with it: `ostinato resume" in answer.err
    assert content(home / "run") == before
    with pytest.raises(Interrupted):
        task.train(config(home), tmp_path / "run", Watching(interrupting(1)))
    with RunDir.open(tmp_path / "run", VECTORS).lock(), pytest.raises(StorageError, match="another process"):
        task.resume(tmp_path / "run", Watching())


def test_training_that_diverges_says_so_and_is_not_gone_on_with(
    ostinato: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = objectives.Objective.for_thread

    def broken(self: Any, thread: int) -> Any:
        train = made(self, thread)

        def call(ids: Any, seed: int, alpha: float, totals: Any) -> None:
            train(ids, seed, alpha, totals)
            totals[0] = np.nan

        return call

    monkeypatch.setattr(objectives.Objective, "for_thread", broken)
    answer = ostinato("vectors", "train", "--text", home / "text.txt", *SMALL, "--run-dir", tmp_path / "run")
    assert (answer.code, answer.err.count("\n")) == (1, 1)
    assert "take a smaller learning rate" in answer.err
    assert RunDir.open(tmp_path / "run", VECTORS).ending()[0] == "diverged"
    with pytest.raises(DivergedError, match="train a new run"):
        task.resume(tmp_path / "run", Watching())


def test_a_run_that_is_trained_on_keeps_its_words_and_gets_new_ones(ostinato: Any, home: Path, tmp_path: Path) -> None:
    words = ("vectors", "train", "--text", home / "more.txt", "--before", home / "run", *SMALL)
    still = ("--learning-rate", "1e-12", "--floor", "1e-12")
    assert ostinato(*words, *still, "--run-dir", tmp_path / "still").code == 0
    old, still_there = (Vectors.load(run / "vectors") for run in (home / "run", tmp_path / "still"))
    assert still_there.words[: len(old)] == old.words
    assert len(still_there) > len(old) + 50
    np.testing.assert_allclose(still_there.array[: len(old)], old.array, atol=1e-6)
    assert np.abs(still_there.array[len(old) :]).max() <= 0.5 / 12 + 1e-6
    assert still_there.array[len(old) :].any(axis=1).all()
    first, second = (Vectors.load(run / "vectors", "output") for run in (home / "run", tmp_path / "still"))
    np.testing.assert_allclose(second.array[: len(old)], first.array, atol=1e-6)
    assert old.counts is not None
    assert still_there.counts is not None
    text = (home / "more.txt").read_text("utf8").split()
    assert still_there.counts[0] == old.counts[0] + text.count(old.words[0])
    assert ostinato(*words, "--run-dir", tmp_path / "moved").code == 0
    assert not np.allclose(Vectors.load(tmp_path / "moved" / "vectors").array[: len(old)], old.array, atol=1e-2)


def test_only_a_finished_run_of_the_same_shape_is_trained_on(
    ostinato: Any, home: Path, tmp_path: Path, short_chunks: None
) -> None:
    def refused(before: Path, *options: str) -> str:
        words = ("vectors", "train", "--text", home / "more.txt", "--before", before, "--run-dir", tmp_path / "new")
        answer = ostinato(*words, "--threads", "1", *options)
        assert (answer.code, answer.err.count("\n")) == (1, 1), answer.err
        assert not (tmp_path / "new").exists()
        return str(answer.err)

    assert "was trained with dimensions 12, not 100; give it the same" in refused(home / "run")
    assert "subwords False, not True" in refused(home / "run", "--dimensions", "12", "--subwords")
    assert "a run of a language model, not of word vectors" in refused(home / "language")
    assert "no such run" in refused(home / "nothing")
    with pytest.raises(Interrupted):
        task.train(config(home), tmp_path / "half", Watching(interrupting(1)))
    assert "is not finished; `ostinato resume" in refused(tmp_path / "half", "--dimensions", "12")
    task.train(config(home, loss="hierarchical-softmax"), tmp_path / "tree", Watching())
    tree = ("--dimensions", "12", "--loss", "hierarchical-softmax")
    assert "a tree is made for fixed counts" in refused(tmp_path / "tree", *tree)


def test_vectors_of_n_grams_are_trained_on_too(home: Path, tmp_path: Path) -> None:
    options = {"subwords": True, "buckets": 400}
    task.train(config(home, **options), tmp_path / "a", Watching())
    made = config(home, **options, learning_rate=1e-12, floor=1e-12)
    task.train(Config(TextOptions((str(home / "more.txt"),)), made.vectors), tmp_path / "b", Watching(), tmp_path / "a")
    first, second = (Vectors.load(tmp_path / name / "vectors") for name in "ab")
    assert first.subword_array is not None
    assert second.subword_array is not None
    np.testing.assert_allclose(second.subword_array, first.subword_array, atol=1e-6)
    np.testing.assert_allclose(second.array[: len(first)], first.array, atol=1e-6)


def test_vectors_are_scored_while_they_are_trained_and_after_a_stop(
    ostinato: Any, home: Path, tmp_path: Path, short_chunks: None
) -> None:
    checks = ("--check", home / "pairs.tsv", home / "questions.txt", "--every", "0")
    answer = ostinato("vectors", "train", "--text", home / "text.txt", *SMALL, *checks, "--run-dir", tmp_path / "run")
    assert answer.code == 0
    assert re.search(r"pairs\.tsv: Spearman -?[\d.]+ on 3 of 4 pairs", answer.err)
    assert re.search(r"questions\.txt: [\d.]+% right of 2 of 2 analogies", answer.err)
    scores = [event for event in RunDir.open(tmp_path / "run", VECTORS).events() if event["event"] == "score"]
    assert len(scores) >= 4
    assert {score["kind"] for score in scores} == {"similarity", "analogies"}
    last = json.loads(ostinato("vectors", "evaluate", tmp_path / "run", home / "pairs.tsv", "--json").out)
    assert scores[-2]["spearman"] == last["scores"][0]["spearman"]
    checked = Config(config(home).text, config(home).vectors, CheckOptions((str(home / "pairs.tsv"), "gone.tsv"), 0.0))
    with pytest.raises(Exception, match=r"gone\.tsv"):
        task.train(checked, tmp_path / "other", Watching())
    assert not (tmp_path / "other").exists()
    shutil.copy(home / "pairs.tsv", tmp_path / "gone.tsv")
    both = CheckOptions((str(home / "pairs.tsv"), str(tmp_path / "gone.tsv")), 1e9)
    with pytest.raises(Interrupted):
        task.train(Config(checked.text, checked.vectors, both), tmp_path / "other", Watching(interrupting(1)))
    (tmp_path / "gone.tsv").unlink()
    notes: list[str] = []
    task.resume(tmp_path / "other", Watching(note=notes.append))
    assert re.match(r"no scores on this file: .*gone\.tsv", notes[0])
    assert re.match(r"pairs\.tsv: Spearman", notes[1])


def test_words_of_n_grams_are_scored_by_what_their_n_grams_make(home: Path, tmp_path: Path) -> None:
    notes: list[str] = []
    made = config(home, subwords=True, buckets=400)
    checks = CheckOptions((str(home / "pairs.tsv"),))
    task.train(Config(made.text, made.vectors, checks), tmp_path / "run", Watching(note=notes.append))
    assert re.search("on 4 of 4 pairs", notes[-1])


def test_a_configuration_file_says_the_same_as_options(ostinato: Any, home: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    tables = (
        f'[text]\ntext = ["{home / "text.txt"}"]\nmin_count = 7\n[vectors]\nmodel = "cbow-mean"\ndimensions = 9\n'
        f'learning_rate = 0.07\nthreads = 1\nepochs = 3\n[checks]\ncheck = ["{home / "pairs.tsv"}"]\nevery = 5.5\n'
    )
    file.write_text(tables)
    answer = ostinato(
        "vectors", "train", "--config", file, "--epochs", "1", "--window", "2", "--run-dir", tmp_path / "a"
    )
    assert answer.code == 0, answer.err
    made = task.load_config(RunDir.open(tmp_path / "a", VECTORS))
    assert made == Config(
        TextOptions((str(home / "text.txt"),), min_count=7),
        VectorOptions(model="cbow-mean", dimensions=9, learning_rate=0.07, threads=1, epochs=1, window=2),
        CheckOptions((str(home / "pairs.tsv"),), 5.5),
    )
    again = ostinato("vectors", "train", "--config", tmp_path / "a" / "config.toml", "--run-dir", tmp_path / "b")
    assert again.code == 0, again.err
    assert content(tmp_path / "a") == content(tmp_path / "b")
    assert read_toml(tmp_path / "a" / "config.toml") == read_toml(tmp_path / "b" / "config.toml")


WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no text": ((), 2, "no text was named; give --text FILE"),
    "missing text": (("--text", "HOME/nothing.txt"), 1, r"nothing\.txt: no such file"),
    "empty text": (("--text", "HOME/empty.txt"), 1, "no words in it"),
    "binary text": (("--text", "HOME/binary.txt"), 1, r"binary\.txt:2: binary data"),
    "not UTF-8": (("--text", "HOME/latin.txt"), 1, r"latin\.txt:2: byte 5 \(0xe9\) is not UTF-8"),
    "folder": (("--text", "HOME"), 1, "a directory, not a text"),
    "rare words": (("--text", "HOME/rare.txt"), 1, "no word was seen 5 times or more"),
    "a word a line": (("--text", "HOME/column.txt"), 1, "no line of the text has two words"),
    "window": (("--text", "HOME/text.txt", "--window", "0"), 2, "window: .* greater than or equal to 1, got '?0"),
    "no number": (("--text", "HOME/text.txt", "--epochs", "x"), 2, "epochs: .* got 'x'"),
    "choice": (("--text", "HOME/text.txt", "--loss", "nce"), 2, "loss: .*negative-sampling.* got 'nce'"),
    "does not apply": (("--text", "HOME/text.txt", "--least", "2"), 2, "least, most and buckets are for subwords"),
    "below the floor": (("--text", "HOME/text.txt", "--learning-rate", "1e-9"), 2, "must not be below floor"),
    "unknown option": (("--text", "HOME/text.txt", "--dimension", "3"), 2, "Did you mean --dimensions"),
    "too large": (("--text", "HOME/text.txt", "--dimensions", "999999999999"), 2, "GB of memory; choose fewer dim"),
    "every": (("--text", "HOME/text.txt", "--every", "-1"), 2, "every: .* greater than or equal to 0"),
    "missing check": (("--text", "HOME/text.txt", "--check", "HOME/nothing.tsv"), 1, r"nothing\.tsv: no such file"),
    "missing file": (("--config", "HOME/nothing.toml"), 2, r"nothing\.toml: no such configuration file"),
    "unknown table": (("--config", "HOME/table.toml"), 2, r"table\.toml: unknown key 'data'"),
    "unknown key": (("--config", "HOME/key.toml"), 2, r"'vectors\.dimension'; did you mean 'vectors\.dimensions'"),
    "bad value": (("--config", "HOME/value.toml"), 2, r"value\.toml: vectors\.window: .* got 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_in_one_line_and_leaves_nothing(
    ostinato: Any, home: Path, tmp_path: Path, case: str
) -> None:
    (home / "table.toml").write_text("[data]\ntext = []\n")
    (home / "key.toml").write_text("[vectors]\ndimension = 5\n")
    (home / "value.toml").write_text("[vectors]\nwindow = 0\n")
    words, code, message = WRONG[case]
    answer = ostinato(
        "vectors", "train", "--run-dir", tmp_path / "run", *(word.replace("HOME", str(home)) for word in words)
    )
    assert answer.code == code, answer.err
    assert answer.err.count("\n") == 1, answer.err
    assert re.search(message, answer.err), answer.err
    assert list(tmp_path.iterdir()) == []


def test_a_softmax_over_many_words_is_refused_before_a_run_is_made(home: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objectives, "LARGEST_SOFTMAX", 10)
        with pytest.raises(ConfigError, match="takes too long"):
            task.train(config(home, loss="softmax"), tmp_path / "run", Watching())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("show", "RUN"),
        ("doctor", "RUN"),
        ("plot", "RUN"),
        ("evaluate", "RUN", "TEXT"),
        ("score", "RUN", "TEXT"),
        ("generate", "RUN"),
        ("compare", "RUN", "RUN"),
        ("mix", "RUN", "RUN", "--run-dir", "NEW"),
        ("export", "RUN", "NEW"),
        ("ngram", "check", "RUN"),
    ],
    ids=" ".join,
)
def test_commands_for_language_models_say_what_a_run_of_vectors_is(
    ostinato: Any, home: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    places = {"RUN": home / "run", "TEXT": home / "text.txt", "NEW": tmp_path / "new"}
    answer = ostinato(*(places.get(word, word) for word in words))
    assert (answer.code, answer.out) == (1, "")
    said = f"{home / 'run'} is a run of word vectors, not of a language model; ask it with `ostinato vectors neighbors"
    assert answer.err.count("\n") == 1
    assert said in answer.err


def test_a_run_without_vectors_is_not_asked_for_any(
    ostinato: Any, home: Path, tmp_path: Path, short_chunks: None
) -> None:
    with pytest.raises(Interrupted):
        task.train(config(home), tmp_path / "half", Watching(interrupting(1)))
    for run in (tmp_path / "half", home / "language"):
        answer = ostinato("vectors", "neighbors", run, "the")
        assert (answer.code, answer.out, answer.err.count("\n")) == (1, "", 1)
        assert "a run without word vectors; if it is to have some, `ostinato resume" in answer.err


def test_resume_refuses_what_is_for_language_models(ostinato: Any, home: Path) -> None:
    answer = ostinato("resume", home / "run", "--tensorboard")
    assert answer.code == 2
    assert "--tensorboard is for language models" in answer.err


def test_python_is_refused_like_the_command_line(home: Path) -> None:
    with pytest.raises(MismatchError, match="a run of a language model, not of word vectors"):
        task.resume(home / "language", Watching())
