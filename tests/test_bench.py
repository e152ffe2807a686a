"""The benchmark beside KenLM: what it measures, that both sides do the same work, and that nothing is left behind."""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import pytest

import corpus
from ostinato.bench import measure, ngram
from ostinato.bench.measure import Process, Row, Sample, Usage, by_turns, in_time
from ostinato.bench.ngram_sides import Bench, KenLM, check_same
from ostinato.core.errors import ConfigError, DataError, MismatchError


def python(code: str) -> Process:
    """A process that runs some Python."""
    return Process(([sys.executable, "-I", "-S", "-c", code],))


def bench(folder: Path, **more: object) -> Bench:
    """A benchmark of a small text."""
    text = corpus.write(folder / "text", 300)
    return Bench(
        **{"text": text, "heldout": text, "runs": 1, "kenlm": KenLM(), "folder": folder, "note": str, "touched": 0}
        | more
    )  # type: ignore[arg-type]


def test_the_time_and_memory_of_a_process_are_its_own():
    """Sleeping takes no processor; 60 MB are seen; what this process holds is not."""
    ballast = bytearray(os.urandom(1 << 20) * 80)
    sleeping = python("import time; time.sleep(0.3)").timed()
    assert 0.3 <= sleeping.wall < 10
    assert sleeping.cpu < 0.25
    assert sleeping.memory < 40e6 < len(ballast)
    assert 60e6 < python("x = bytearray(b'x') * 60_000_000").timed().memory < 110e6


def test_processes_one_after_another_add_their_times_and_take_the_larger_memory():
    small, large = "import time; time.sleep(0.2)", "import time; time.sleep(0.2); x = bytearray(b'x') * 60_000_000"
    both = Process((*python(small).commands, *python(large).commands, *python(small).commands)).timed()
    assert both.wall >= 0.6
    assert 60e6 < both.memory < 110e6


def test_a_command_that_fails_is_named_with_what_it_said():
    with pytest.raises(DataError, match=r"(?s)raise ValueError.*exit code 1: .*too bad"):
        python("raise ValueError('too bad')").timed()
    with pytest.raises(DataError, match="exit code 137"):
        python("import os; os.kill(os.getpid(), 9)").timed()
    with pytest.raises(DataError, match="exit code 3"):
        python("raise SystemExit(3)").asked()


def test_sides_take_turns_and_the_first_turn_does_not_count():
    calls = []

    def side(name: str):
        return lambda: calls.append(name) or len(calls)

    assert by_turns(2, str, side("ours"), side("theirs"), 0) == ([3, 5], [4, 6])
    assert calls == ["ours", "theirs"] * 3
    assert by_turns(2, str, side("ours"), None, 0) == ([8, 9], [])


def test_a_ratio_above_one_is_better_whether_less_or_more_is():
    fast, slow = Sample((1.0, 9.0, 2.0)), Sample((8.0, 8.0, 8.0))
    assert Row("case", "what", "s", fast, slow).ratio == 8 / 2
    assert Row("case", "what", "tokens/s", fast, slow).ratio == 2 / 8
    assert Row("case", "what", "s", fast).ratio is None
    measured = Sample.of([Usage(1.0, 2.0, 30), Usage(3.0, 1.0, 10), Usage(2.0, 4.0, 20)])
    assert (measured.median, measured.cpu, measured.memory) == (2.0, 2.0, 20)


def test_a_row_says_the_same_under_the_same_keys_whatever_was_measured():
    row = Row("lstm-200", "two layers", "tokens/s", Sample((3.0, 1.0, 2.0)), Sample((4.0,)), "PyTorch", {"threads": 2})
    assert list(row.to_json("train").items())[:7] == [
        ("bench", "train"),
        ("case", "lstm-200"),
        ("ours", 2.0),
        ("peer", 4.0),
        ("peer_name", "PyTorch"),
        ("unit", "tokens/s"),
        ("ratio", 2.0 / 4.0),
    ]
    assert row.to_json("train")["threads"] == 2
    alone = Row("lstm-200", "two layers", "us", Sample((3.0,)), peer="PyTorch").to_json("stream")
    assert (alone["peer"], alone["ratio"], alone["peer_name"]) == (None, None, "PyTorch")
    assert list(alone) == [key for key in row.to_json("train") if key != "threads"]


def test_what_must_be_quick_begins_nothing_when_its_time_is_over(monkeypatch):
    now, said = iter([0.0, 1.0, 30.0, 31.0, 0.0]), []
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    assert list(in_time(("a", "b", "c"), True, said.append)) == ["a"]
    assert [text.split(":")[0] for text in said] == ["b", "c"]
    assert list(in_time(("a", "b"), False, said.append)) == ["a", "b"]


def test_models_that_differ_are_not_compared(tmp_path):
    check_same("score", -1000.0, -1000.05)
    with pytest.raises(MismatchError, match="the models are not the same"):
        check_same("score", -1000.0, -1001.0)
    liar = tmp_path / "lmplz"
    liar.write_text(
        '#!/bin/sh\nwhile [ "$1" != --arpa ]; do shift; done\nprintf "\\\\\\\\data\\\\\\\\\\nngram 1=3\\n" > "$2"\n'
    )
    liar.chmod(0o755)
    with pytest.raises(MismatchError, match="ngram 1=3"):
        list(ngram.arpa(bench(tmp_path, kenlm=KenLM(tmp_path))))


def test_the_head_of_a_text_is_whole_lines(tmp_path):
    made = bench(tmp_path)
    lines = corpus.lines(300)
    size = len(lines[0].split()) + len(lines[1].split())
    assert made.head(size).read_text("utf8") == "\n".join(lines[:2]) + "\n"
    assert made.head(size + 1).read_text("utf8") == "\n".join(lines[:3]) + "\n"
    assert ngram.tokens_of(made.text) == sum(len(line.split()) for line in lines)


@pytest.mark.parametrize(
    ("given", "message"),
    [({}, "no lmplz and no build_binary"), ({"python": Path(sys.executable)}, "no lmplz"), (None, "no such file")],
)
def test_what_is_missing_is_said_before_anything_runs(tmp_path, given, message):
    text = corpus.write(tmp_path / "text")
    kenlm = KenLM() if given is None else KenLM(tmp_path, **given)
    with pytest.raises(ConfigError, match=message):
        next(ngram.run(text, tmp_path / "none" if given is None else text, kenlm=kenlm))
    with pytest.raises(ConfigError, match="give both, or neither"):
        next(ngram.run(text, kenlm=kenlm))


def test_a_missing_peer_is_named_and_an_installed_one_is_found(tmp_path, monkeypatch):
    said = []
    next(ngram.run(kenlm=KenLM(), cases=("size",), runs=1, quick=True, note=said.append))
    assert [text.split(" was")[0].split(" were")[0] for text in said[:2]] == [
        "KenLM's programs",
        "KenLM's Python module",
    ]
    for name in ("lmplz", "build_binary"):
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert KenLM.found().folder == tmp_path
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert KenLM.found().folder is None
    built = tmp_path / "ostinato" / "kenlm-0.3.0" / "bin"  # where bench/kenlm_build.py puts them
    built.mkdir(parents=True)
    for name in ("lmplz", "build_binary"):
        (built / name).touch(0o755)
    assert KenLM.found().folder == built


def test_an_interpreter_without_kenlm_is_refused(tmp_path):
    for name in ("lmplz", "build_binary"):
        (tmp_path / name).touch(0o755)
    with pytest.raises(ConfigError, match="cannot import kenlm"):
        KenLM(tmp_path, tmp_path / "nothing").check()


def test_ours_alone_is_measured_and_nothing_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "QUICK_SECONDS", math.inf)  # a busy machine would leave cases out
    text = corpus.write(tmp_path / "text", 300)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rows = list(ngram.run(text, text, ("step", "size"), KenLM(), runs=1, scratch=scratch, quick=True))
    assert [row.case for row in rows] == ["step", "step", "step", "size", "size", "size"]
    assert all(row.theirs is None and row.ours.median > 0 and row.peer == "KenLM" for row in rows)
    json.dumps([row.to_json("ngram") for row in rows])
    assert not list(scratch.iterdir())


def test_every_way_to_score_a_text_from_python_gives_it_the_same(tmp_path):
    made = bench(tmp_path)
    said = [
        made.inside("score", made.model, made.heldout, 1).asked(),
        made.inside("step", made.model, made.heldout).asked(),
        made.drop_in("score").asked(),
        made.drop_in("step").asked(),
    ]
    assert [answer["log10"] for answer in said] == pytest.approx([said[0]["log10"]] * 4, rel=1e-5)


def test_every_case_has_its_name():
    assert list(ngram.CASES) == list(ngram.get_args(ngram.CaseName))


def test_the_commands_print_an_object_a_line_or_a_table(capsys, monkeypatch):
    from ostinato.bench import train
    from ostinato.cli import app

    asked = []

    def rows(*given):
        asked.append(given[:-1])
        yield Row("lstm-200", "2 x 200", "tokens/s", Sample((3000.0,), 0.5, 7e6), Sample((1500.0,)), "PyTorch")
        yield Row("alone", "no peer", "us", Sample((3.0,)), peer="onnxruntime int8")

    monkeypatch.setattr(train, "run", rows)
    assert app.run(["bench", "train", "--case", "lstm-200", "--threads", "1", "--runs", "3", "--json"]) == 0
    assert asked == [(("lstm-200",), None, 1, 3, False, False)]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["bench"], line["case"], line["ratio"]) for line in lines] == [
        ("train", "lstm-200", 2.0),
        ("train", "alone", None),
    ]
    assert {"processor", "cores"} <= lines[1]["machine"].keys()
    assert app.run(["bench", "train", "--quick"]) == 0
    table = capsys.readouterr().out
    assert all(word in table for word in ("3,000", "1,500", "PyTorch", "onnxruntime int8", "7.0 MB"))
    for wrong in (["--case", "lstm-9"], ["--runs", "0"], ["--threads", "0"]):
        assert app.run(["bench", "train", *wrong]) == 2
