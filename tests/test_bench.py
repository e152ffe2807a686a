"""The benchmark beside KenLM: what it measures, that both sides do the same work, and that nothing is left behind."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

import corpus
from ostinato.bench import ngram
from ostinato.bench.measure import Process, Row, Sample, Usage, by_turns
from ostinato.bench.ngram_sides import Bench, KenLM, check_same
from ostinato.core.errors import ConfigError, DataError, MismatchError


def python(code: str) -> Process:
    """A process that runs some Python."""
    return Process(([sys.executable, "-I", "-S", "-c", code],))


def bench(folder: Path, **more: object) -> Bench:
    """A benchmark of a small text."""
    text = corpus.write(folder / "text", 300)
    return Bench(**{"text": text, "heldout": text, "runs": 1, "kenlm": None, "folder": folder, "note": str} | more)  # type: ignore[arg-type]


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

    assert by_turns(2, str, side("ours"), side("theirs")) == ([3, 5], [4, 6])
    assert calls == ["ours", "theirs"] * 3
    assert by_turns(2, str, side("ours"), None) == ([8, 9], [])


def test_a_ratio_above_one_is_better_whether_less_or_more_is():
    fast, slow = Sample((1.0, 9.0, 2.0)), Sample((8.0, 8.0, 8.0))
    assert Row("case", "what", "s", fast, slow).ratio == 8 / 2
    assert Row("case", "what", "tokens/s", fast, slow).ratio == 2 / 8
    assert Row("case", "what", "s", fast).ratio is None
    measured = Sample.of([Usage(1.0, 2.0, 30), Usage(3.0, 1.0, 10), Usage(2.0, 4.0, 20)])
    assert (measured.median, measured.cpu, measured.memory) == (2.0, 2.0, 20)


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
    kenlm = None if given is None else KenLM(tmp_path, **given)
    with pytest.raises(ConfigError, match=message):
        next(ngram.run(text, tmp_path / "none" if given is None else text, kenlm=kenlm))


def test_an_interpreter_without_kenlm_is_refused(tmp_path):
    for name in ("lmplz", "build_binary"):
        (tmp_path / name).touch(0o755)
    with pytest.raises(ConfigError, match="cannot import kenlm"):
        KenLM(tmp_path, tmp_path / "nothing").check()


def test_ours_alone_is_measured_and_nothing_is_left_behind(tmp_path):
    text = corpus.write(tmp_path / "text", 300)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    rows = list(ngram.run(text, text, ("step", "size"), runs=1, scratch=scratch))
    assert [row.case for row in rows] == ["step", "step", "step", "size", "size", "size"]
    assert all(row.theirs is None and row.ours.median > 0 for row in rows)
    json.dumps([row.to_json() for row in rows])
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
