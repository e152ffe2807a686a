"""`export` and `stream` as a user meets them."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus import lines, write
from ostinato.cli.app import run as cli
from ostinato.cli.streaming import Stopping
from ostinato.core.errors import ConfigError, DivergedError, MismatchError, StorageError
from ostinato.stream import StreamModel
from ostinato.tasks.language.export import array_of, export
from ostinato.tasks.language.follow import Answer as Told
from ostinato.tasks.language.follow import Follower, ids_of
from ostinato.tasks.language.load import load

SMALL = ("--model.hidden", "8", "--train.epochs", "1", "--train.rows", "8", "--train.threads", "1", "-q")


class Answer(NamedTuple):
    """What a command said and returned."""

    returncode: int
    stdout: str
    stderr: str


def ostinato(*words: Any, text: str | bytes = "") -> Answer:
    """A command in this process, with that text on standard input."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        file.write(text if isinstance(text, bytes) else text.encode())
        file.seek(0)
        patch.setattr(sys, "stdin", file)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = cli([str(word) for word in words])
    return Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of several kinds, and exports of the LSTM in all precisions."""
    home = tmp_path_factory.mktemp("home")
    text = write(home / "text.txt")
    write(home / "other.txt", 60, seed=5)
    (home / "letters.txt").write_text("".join(line.replace(" ", "") + "\n" for line in lines(80)), "utf8")
    words = ("--text", text, "--data.tokeniser", "blank", "--data.min-count", "1")
    chars = ("--text", home / "letters.txt", "--data.tokeniser", "char", "--data.regime", "stream", "--train.bptt", "9")
    for name, options in {
        "kn": (*words, "--model.kind", "ngram", "--model.order", "3", "-q"),
        "lstm": (*words, "--model.kind", "lstm", "--train.learning-rate", "0.03", *SMALL),
        "chars": (*chars, "--model.kind", "gru", *SMALL),
    }.items():
        assert cli(["train", "--run-dir", str(home / name), *map(str, options)]) == 0
    for precision in ("fp32", "bf16", "int8"):
        export(home / "lstm", home / precision, precision)  # type: ignore[arg-type]
    export(home / "chars", home / "chars.model", measured=False)
    return home


def answers(done: Answer) -> list[dict[str, Any]]:
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_an_export_says_what_it_lost_and_keeps_it(home: Path, precision: str, tmp_path: Path) -> None:
    done = ostinato("export", home / "lstm", tmp_path / "m", "--precision", precision, "--json")
    told = json.loads(done.stdout)
    loaded = load(tmp_path / "m")
    assert isinstance(loaded.model, StreamModel)
    original, after = told["original"]["perplexity"], told["export"]["perplexity"]
    assert after == pytest.approx(original, rel={"fp32": 1e-5, "bf16": 1e-2, "int8": 1e-2}[precision])
    assert told["original"]["signature"] == told["export"]["signature"]
    kept = loaded.about["measured"]
    assert (kept["original_perplexity"], kept["export_perplexity"]) == (original, after)
    assert told["bytes"] == (tmp_path / "m").stat().st_size
    assert loaded.model.precision == precision


def test_the_file_works_wherever_a_model_does(home: Path, tmp_path: Path) -> None:
    of_run = json.loads(ostinato("evaluate", home / "lstm", home / "other.txt", "--json").stdout)
    of_file = json.loads(ostinato("evaluate", home / "fp32", home / "other.txt", "--json").stdout)
    assert of_file["perplexity"] == pytest.approx(of_run["perplexity"], rel=1e-5)
    assert of_file["signature"] == of_run["signature"]
    scored = ostinato("score", home / "fp32", home / "other.txt").stdout
    assert sum(float(line.split("\t")[0]) for line in scored.splitlines()) == pytest.approx(of_run["nats"], rel=1e-5)
    words = ("--seed", "4", "--max-tokens", "20", "--prompt", "the")
    assert ostinato("generate", home / "fp32", *words).stdout == ostinato("generate", home / "lstm", *words).stdout
    rows = json.loads(ostinato("compare", home / "int8", home / "kn", "--text", home / "other.txt", "--json").stdout)
    assert {row["kind"] for row in rows["rows"]} == {"lstm int8", "ngram"}
    mixed = ostinato("mix", home / "kn", home / "int8", "--run-dir", tmp_path / "mix", "-q")
    assert mixed.returncode == 0, mixed.stderr
    assert ostinato("evaluate", tmp_path / "mix", home / "other.txt").returncode == 0


def test_what_cannot_be_exported_is_refused_with_the_reason(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "m"
    for source, told in (("kn", "n-gram model steps without torch"), ("int8", "is an export already")):
        with pytest.raises(ConfigError, match=told):
            export(home / source, out)
    with pytest.raises(StorageError, match="already exists"):
        export(home / "lstm", home / "fp32")
    with pytest.raises(ConfigError, match="float32"):
        export(home / "lstm", tmp_path / "m.onnx", "int8")
    with pytest.raises(DivergedError, match="not all finite"):
        array_of("w", np.array([np.nan]))
    assert "no n-grams to work on" in ostinato("ngram", "next", home / "int8", "the").stderr
    done = ostinato("export", home / "lstm", out, "--unmeasured", "--measure", home / "other.txt")
    assert done.returncode == 2
    assert not out.exists()


def test_an_onnx_file_is_written_by_its_ending(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    done = ostinato("export", home / "chars", tmp_path / "m.onnx", "--json", "--measure", home / "letters.txt")
    told = json.loads(done.stdout)
    assert told["onnxruntime_difference"] < 1e-5
    assert told["export"]["perplexity"] == pytest.approx(told["original"]["perplexity"], rel=1e-5)


@pytest.mark.parametrize("name", ["int8", "lstm", "kn", "chars.model"])
def test_the_stream_tells_what_scoring_tells(home: Path, name: str) -> None:
    """Each token's log-prob; the sum over a text is that of `evaluate`."""
    text = (home / ("letters.txt" if name.startswith("chars") else "other.txt")).read_text("utf8")
    told = answers(ostinato("stream", home / name, "--json", "--top-k", 2, text=text))
    path = home / ("letters.txt" if name.startswith("chars") else "other.txt")
    whole = json.loads(ostinato("evaluate", home / name, path, "--json").stdout)
    assert len(told) == whole["count"]
    assert -sum(one["log_prob"] for one in told) == pytest.approx(whole["nats"], rel=1e-4)
    for one, after in itertools.pairwise(told):
        assert one["surprise"] == pytest.approx(-one["log_prob"] / math.log(2))
        (_, best), (_, second) = one["next"]
        assert best >= second
        for token, log_prob in one["next"]:
            if token == after["token"]:
                assert after["log_prob"] == pytest.approx(log_prob, abs=1e-5)


def test_tokens_may_be_given_as_they_are(home: Path) -> None:
    raw = ostinato("stream", home / "fp32", text="the cat sees\na zebra\n").stdout
    given = ostinato("stream", home / "fp32", "--tokens", text="the cat\nsees </s> a  zebra </s>").stdout
    assert raw == given
    rows = [line.split("\t") for line in raw.splitlines()]
    assert [row[0] for row in rows] == ["the", "cat", "sees", "</s>", "a", "<unk>", "</s>"]
    assert all(len(row) == 4 and len(row[3].split("  ")) == 5 for row in rows)


@pytest.mark.parametrize("model", ["int8", "kn", "lstm"])
def test_a_session_goes_on_where_it_was(home: Path, model: str, tmp_path: Path) -> None:
    """Cut in the middle of a word, a line and a text: the same answers as in one go."""
    text = "the cat sees a dog .\nthe bird likes the fish .\n"
    whole = ostinato("stream", home / model, "--json", text=text).stdout
    pieces, state = [], ("--session", tmp_path / "s")
    for part in ("the cat sees", " a do", "g", " .\n", "", "the bird likes the fish .\n"):
        pieces.append(ostinato("stream", home / model, "--json", *state, text=part).stdout)
    assert "".join(pieces) == whole
    assert (tmp_path / "s").stat().st_size < 1000


CUT = {"int8": "the cat \t天地 sees é\n\na dog.\n", "chars.model": "天地 é\n玄黄 \n"}


@pytest.mark.parametrize("model", CUT)
def test_a_text_cut_at_any_byte_gives_the_same_answers_in_a_session(home: Path, model: str, tmp_path: Path) -> None:
    """Nothing is lost and nothing told twice, also inside a word or a character; once byte by byte."""
    text = CUT[model].encode()
    whole = ostinato("stream", home / model, "--json", text=text).stdout
    for cut in range(len(text) + 1):
        state = ("--session", tmp_path / str(cut))
        parts = [ostinato("stream", home / model, "--json", *state, text=part) for part in (text[:cut], text[cut:])]
        assert "".join(part.stdout for part in parts) == whole, cut
    state = ("--session", tmp_path / "s")
    singly = [ostinato("stream", home / model, "--json", *state, text=bytes([byte])).stdout for byte in text]
    assert "".join(singly) == whole


@given(
    parts=st.lists(st.lists(st.sampled_from(["the", "cat", "</s>", "zebra"]), max_size=4), max_size=4), data=st.data()
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_answers_that_were_not_fetched_are_given_after_loading(
    home: Path, parts: list[list[str]], data: st.DataObject
) -> None:
    """A stream is saved wherever its reader stopped, and goes on there."""
    loaded = load(home / "fp32")
    whole = Follower(loaded, 1, kept=True)
    wanted = [one for part in parts for one in whole.read({"": ids_of(loaded, part)})]
    found, saved = [], Follower(loaded, 1, kept=True).save("", b"be")
    for part in [*parts, []]:
        follower = Follower(loaded, 1, kept=True)
        assert follower.load("", saved) == b"be"
        most = data.draw(st.integers(0, 5)) if part else None
        found += itertools.islice(follower.read({"": ids_of(loaded, part)}), most)
        if most == 0:  # nothing was fetched, so what came was not even taken
            found += itertools.islice(follower.read({"": ids_of(loaded, part)}), 1)
        saved = follower.save("", b"be")
    assert found == wanted


def test_ctrl_c_keeps_what_was_not_answered(home: Path, tmp_path: Path) -> None:
    """While many answers are under way, and while the rest of a word is awaited."""
    text = b"the cat sees a dog .\n" * 400  # more than a pipe holds of answers
    whole = ostinato("stream", home / "int8", "--json", "--top-k", 1, text=text + b"the cat\n").stdout
    words = [sys.executable, "-m", "ostinato", "stream", str(home / "int8"), "--json", "--top-k", "1"]
    words += ["--session", str(tmp_path / "s")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    told = b""
    for part, most in ((text, 3), (b"the c", whole.count("\n") - 2)):
        with subprocess.Popen(words, bufsize=0, **pipes) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(part)
            process.stdin.flush()
            while told.count(b"\n") < most:
                told += process.stdout.read(1 << 20)
            process.send_signal(signal.SIGINT)
            rest, said = process.communicate(timeout=60)
            told += rest
            assert (process.returncode, b"Traceback" in said) == (130, False)
    told += ostinato("stream", home / "int8", "--json", "--top-k", 1, *words[-2:], text="at\n").stdout.encode()
    assert told.decode() == whole


def test_ctrl_c_waits_for_the_answer_under_way_but_only_once() -> None:
    stopping = Stopping()
    stopping.interrupt()
    with pytest.raises(KeyboardInterrupt):
        next(itertools.islice(stopping.between(iter([Told("", "a", -1.0, ())] * 3)), 1, None))
    stopping.interrupt()
    with pytest.raises(KeyboardInterrupt):
        stopping.interrupt()
    with pytest.raises(KeyboardInterrupt):
        stopping.wait()
    stopping.idle = True
    with pytest.raises(KeyboardInterrupt):
        stopping.interrupt()


def test_a_file_that_is_no_session_is_named_with_what_to_do(home: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("the cat\n")
    done = ostinato("stream", home / "int8", "--session", tmp_path / "s", text="the cat\n")
    assert done.returncode == 1
    assert f"{tmp_path / 's'}: these 8 bytes are not a saved session" in done.stderr
    assert "remove the file" in done.stderr
    assert "JSON" not in done.stderr
    assert (tmp_path / "s").read_text() == "the cat\n"


def test_bytes_that_are_no_text_do_not_spoil_a_session(home: Path, tmp_path: Path) -> None:
    words = ("stream", home / "int8", "--session", tmp_path / "s")
    assert ostinato(*words, text="the 天".encode()[:-1]).returncode == 0
    assert "not UTF-8" in ostinato(*words, text="cat\n").stderr
    assert ostinato(*words, text="cat\n").stdout.startswith("cat\t")


def test_a_name_that_is_no_open_stream_and_has_no_text_is_named_and_the_others_go_on(home: Path) -> None:
    done = ostinato("stream", home / "fp32", "--sessions", "--tokens", text="a\tthe cat\nb\t\nb\nthe cat\na\tthe\n")
    assert (done.returncode, done.stdout.count("\n")) == (1, 3)
    assert "lines of standard input that could not be used: 1, the first: line 4" in done.stderr
    assert "line 4 of standard input has no tab, and 'the cat' is no open stream" in done.stderr
    assert "line 2" in ostinato("stream", home / "fp32", "--sessions", text="a\tthe\n\n").stderr


def test_what_is_no_model_for_here_is_told_apart(home: Path, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"\x08\x07")
    assert "onnxruntime" in ostinato("stream", tmp_path / "m.onnx").stderr
    assert "no such run or file" in ostinato("stream", tmp_path / "nothing").stderr
    assert "name its run" in ostinato("evaluate", home / "int8", home / "other.txt", "--dynamic", "0.1").stderr


def test_a_session_of_another_model_is_refused_and_left_alone(home: Path, tmp_path: Path) -> None:
    ostinato("stream", home / "int8", "--session", tmp_path / "s", text="the cat")
    before = (tmp_path / "s").read_bytes()
    done = ostinato("stream", home / "fp32", "--session", tmp_path / "s", text="the cat")
    assert done.returncode == 1
    assert "belongs to model" in done.stderr
    assert (tmp_path / "s").read_bytes() == before


def test_many_streams_are_each_as_if_alone(home: Path) -> None:
    """Six hundred streams, more than are stepped together, their lines mixed; a closed one begins anew."""
    texts = {f"s{number}": lines(2, seed=number) for number in range(600)}
    mixed = "\n".join(f"{name}\t{text[turn]}" for turn in range(2) for name, text in texts.items())
    told = answers(ostinato("stream", home / "int8", "--sessions", "--json", "--top-k", 1, text=mixed))
    for name in ("s0", "s255", "s599"):
        alone = answers(ostinato("stream", home / "int8", "--json", text="\n".join(texts[name]) + "\n"))
        own = [one for one in told if one["session"] == name]
        assert [one["token"] for one in own] == [one["token"] for one in alone]
        assert [one["log_prob"] for one in own] == pytest.approx([one["log_prob"] for one in alone], abs=1e-4)


def test_many_streams_go_on_where_they_were_left(home: Path, tmp_path: Path) -> None:
    """Stopped after every line: the same answers as in one go, also of a stream not heard for a while or ended."""
    text = [f"s{number % 5}\t{line}\n" for number, line in enumerate(lines(23, seed=3))]
    text[11:11] = ["s1\n", "天地\t玄黄\n"]
    whole = answers(ostinato("stream", home / "int8", "--sessions", "--json", "--top-k", 1, text="".join(text)))
    words = ("stream", home / "int8", "--sessions", "--json", "--top-k", 1, "--session", tmp_path / "s")
    told = [one for line in text for one in answers(ostinato(*words, text=line))]
    for name in {one["session"] for one in whole}:
        own, wanted = ([one for one in some if one["session"] == name] for some in (told, whole))
        assert [one["token"] for one in own] == [one["token"] for one in wanted]
        assert [one["log_prob"] for one in own] == pytest.approx([one["log_prob"] for one in wanted], abs=1e-4)
    assert (tmp_path / "s").stat().st_size < 6000


def test_ctrl_c_answers_the_lines_that_have_come_and_keeps_all_streams(home: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ostinato", "stream", str(home / "int8"), "--sessions", "--tokens", "--top-k", "0"]
    words += ["--session", str(tmp_path / "s")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(words, bufsize=0, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"a\tthe cat\nb\ta dog\n" * 200 + b"b\tthe")
        told = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=60)
    assert (process.returncode, (told + rest).count(b"\n")) == (130, 800)
    assert b"the last 5 bytes were no whole line" in said
    alone = answers(ostinato("stream", home / "int8", "--tokens", "--json", text="the cat " * 200 + "sees"))
    (after,) = answers(ostinato(*words[3:], "--json", text="a\tsees\n"))
    assert after["log_prob"] == pytest.approx(alone[-1]["log_prob"], abs=1e-4)


def test_files_of_one_stream_and_of_many_are_told_apart_and_damage_is_found(home: Path, tmp_path: Path) -> None:
    one, many = ("--session", tmp_path / "one"), ("--sessions", "--session", tmp_path / "many")
    ostinato("stream", home / "int8", *one, text="the cat ")
    ostinato("stream", home / "int8", *many, text="a\tthe cat\nb\tthe\n")
    for name, words, why in (
        ("many", ("--session", tmp_path / "many"), "streams with names was saved here, not one stream"),
        ("one", ("--sessions", "--session", tmp_path / "one"), "one stream was saved here, not streams with names"),
    ):
        done = ostinato("stream", home / "int8", *words, text="a\tthe\n")
        assert (done.returncode, f"{tmp_path / name}: {why}" in done.stderr) == (1, True)
    saved = (tmp_path / "many").read_bytes()
    for damaged in (saved[:-1], saved.replace(b'"b"', b'"c"'), saved.split(b"\n")[0], b"{}\n", saved[::-1]):
        (tmp_path / "many").write_bytes(damaged)
        done = ostinato("stream", home / "int8", *many, text="a\tthe\n")
        assert (done.returncode, "remove the file" in done.stderr, done.stdout) == (1, True, "")
        assert (tmp_path / "many").read_bytes() == damaged


def test_a_name_alone_ends_its_stream(home: Path) -> None:
    text = "a\tthe cat\nb\tthe\na\na\tthe cat\n"
    done = ostinato("stream", home / "fp32", "--sessions", "--tokens", text=text)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows] == [["a", "the"], ["b", "the"], ["a", "cat"], ["a", "the"], ["a", "cat"]]
    assert rows[0] == rows[3]
    assert rows[2] == rows[4]


def test_bytes_that_are_no_text_are_told_after_what_came_before(home: Path) -> None:
    done = ostinato("stream", home / "fp32", "--sessions", "--json", text=b"a\tthe cat\nb\t\xff\n")
    assert done.stdout.count("\n") == 3
    assert (done.returncode, "line 2" in done.stderr) == (1, True)
    assert "UTF-8" in ostinato("stream", home / "fp32", text=b"the \xff\n").stderr
    assert "cannot be negative" in ostinato("stream", home / "fp32", "--top-k", "-1").stderr


def test_every_token_is_answered_at_once_and_characters_are_never_split(home: Path) -> None:
    """A word is certain once a blank or line end follows."""
    words = [sys.executable, "-m", "ostinato", "stream", str(home / "fp32"), "--json", "--top-k", "1"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for part, tokens in ((b"the ", ["the"]), (b"\xe5\xa4", []), (b"\xa9 ", ["天"]), (b".\n", [".", "</s>"])):
            process.stdin.write(part)
            process.stdin.flush()
            for token in tokens:
                assert json.loads(process.stdout.readline())["token"] == token
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()


def test_a_broken_pipe_is_quiet_and_the_session_is_saved(home: Path, tmp_path: Path) -> None:
    command = (
        f"yes 'the cat sees a dog .' | {sys.executable} -m ostinato stream {home / 'int8'}"
        f" --session {tmp_path / 's'} | head -n 1"
    )
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert (tmp_path / "s").exists()


def test_streaming_an_export_imports_neither_torch_nor_numba_for_a_plain_one(home: Path) -> None:
    code = (
        "import sys; from ostinato.cli.app import run; "
        f"run(['stream', {str(home / 'fp32')!r}, '-q']); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=b"the cat\n", capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[-1] == "False"


def test_a_follower_keeps_only_what_it_must(home: Path) -> None:
    loaded = load(home / "fp32")
    follower = Follower(loaded, 0)
    read = list(follower.read({"a": ids_of(loaded, ["the", "</s>"]), "b": []}))
    assert [(one.stream, one.token, one.next) for one in read] == [("a", "the", ()), ("a", "</s>", ())]
    assert len(follower.sessions) == 1
    follower.close("a")
    follower.close("never heard")
    assert len(follower.sessions) == 0
    with pytest.raises(MismatchError):
        follower.load("a", Follower(load(home / "int8"), kept=True).save("a"))
