"""The command line as a user meets it: results, exit codes, one line for everything that goes wrong."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from corpus import lines, write
from ostinato.cli import talk
from ostinato.cli.app import run as cli
from ostinato.core.progress import Progress

SMALL = ("--model.hidden", "8", "--train.epochs", "1", "--train.rows", "8", "--train.threads", "1")


class Answer:
    """What a command said and returned."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def ostinato(capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that runs a command in this process."""

    def call(*words: str) -> Answer:
        capsys.readouterr()
        code = cli([str(word) for word in words])
        return Answer(code, *capsys.readouterr())

    return call


def in_a_process(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """The same as a program of its own, with real standard streams."""
    return subprocess.run(
        [sys.executable, "-m", "ostinato", *map(str, words)], capture_output=True, text=True, timeout=120, **options
    )


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, an n-gram, an LSTM and a GRU of another vocabulary."""
    home = tmp_path_factory.mktemp("home")
    text = write(home / "text.txt")
    write(home / "other.txt", 60, seed=5)
    (home / "letters.txt").write_text("".join(line.replace(" ", "") + "\n" for line in lines(80)), "utf8")
    common = ("--text", text, "--data.tokeniser", "blank", "--data.min-count", "1", "-q")
    for name, words in {
        "kn": (*common, "--model.kind", "ngram", "--model.order", "3"),
        "lstm": (*common, "--model.kind", "lstm", *SMALL[:3], "6", *SMALL[4:], "--train.learning-rate", "0.03"),
        "chars": (
            "--text",
            home / "letters.txt",
            "--data.tokeniser",
            "char",
            "--data.regime",
            "stream",
            "-q",
            *SMALL,
            "--train.bptt",
            "10",
        ),
    }.items():
        assert cli(["train", "--run-dir", str(home / name), *map(str, words)]) == 0
    assert cli(["mix", str(home / "kn"), str(home / "lstm"), "--run-dir", str(home / "mixture"), "-q"]) == 0
    return home


def test_help_is_instant_and_complete() -> None:
    began = time.perf_counter()
    answer = in_a_process("--help")
    spent = time.perf_counter() - began
    for name in (
        "train",
        "resume",
        "evaluate",
        "score",
        "generate",
        "compare",
        "mix",
        "doctor",
        "show",
        "plot",
        "demo",
    ):
        assert name in answer.stdout
        shown = in_a_process(name, "--help").stdout
        assert f"ostinato {name}" in shown
    assert spent < 20  # a bound against importing torch by accident is the next test; this one is for hangs


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from ostinato.cli.app import run; run(['train', '--help']); print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for heavy in ("'torch'", "'numba'", "'matplotlib'", "'tokenizers'"):
        assert heavy not in modules


def test_evaluate_gives_the_promised_keys(ostinato: Any, home: Path) -> None:
    answer = ostinato("evaluate", home / "kn", home / "other.txt", "--json", "-q")
    assert answer.code == 0
    assert {"perplexity", "nats", "count", "per", "bits_per_char", "signature"} <= answer.json.keys()
    words = sum(len(line.split()) + 1 for line in lines(60, 5))
    assert (answer.json["count"], answer.json["per"]) == (words, "word")
    assert "data:other.txt#" in answer.json["signature"]


def test_several_texts_may_follow_an_option(ostinato: Any, home: Path) -> None:
    (home / "one.txt").write_text("a line\n")
    (home / "two.txt").write_text("and another\n")
    both = [str(home / name) for name in ("one.txt", "two.txt")]
    before = ostinato("evaluate", str(home / "kn"), *both, "--json")
    after = ostinato("evaluate", str(home / "kn"), "--json", *both)
    assert (before.code, after.code) == (0, 0)
    assert before.out == after.out
    assert "+1#" in before.out
    assert "unknown option --jsn" in ostinato("evaluate", str(home / "kn"), "--jsn").err


def test_evaluate_exits_with_3_above_the_threshold(ostinato: Any, home: Path) -> None:
    assert ostinato("evaluate", home / "kn", "--max-ppl", "1000").code == 0
    answer = ostinato("evaluate", home / "kn", "--max-ppl", "1.5")
    assert answer.code == 3
    assert "above --max-ppl" in answer.err


@pytest.mark.parametrize("name", ["kn", "lstm", "mixture"])
def test_lines_scored_one_by_one_sum_to_the_evaluation(ostinato: Any, home: Path, name: str) -> None:
    whole = ostinato("evaluate", home / name, home / "other.txt", "--json", "-q").json
    answer = ostinato("score", home / name, home / "other.txt")
    rows = [line.split("\t") for line in answer.out.splitlines()]
    assert [row[4] for row in rows] == lines(60, 5)
    assert sum(float(row[0]) for row in rows) == pytest.approx(whole["nats"], abs=0.01)
    assert sum(int(row[1]) + 1 for row in rows) == whole["count"]
    assert [int(row[1]) for row in rows] == [len(line.split()) for line in lines(60, 5)]


def test_score_answers_every_line_of_a_slow_writer_at_once(home: Path) -> None:
    words = [sys.executable, "-m", "ostinato", "score", str(home / "kn"), "-", "--json"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("the cat sees a dog .", "", "the 天 likes zebras ."):
            process.stdin.write(text + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            assert answer["text"] == text
            assert answer["words"] == len(text.split())
        assert answer["unknown"] == 1
        process.stdin.close()
        assert process.wait(60) == 0


def test_a_broken_pipe_is_quiet(home: Path) -> None:
    command = f"{sys.executable} -m ostinato score {home / 'kn'} {home / 'text.txt'} | head -n 1"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert answer.stdout.count("\n") == 1
    assert answer.stderr == ""


def test_score_tells_the_good_lines_before_a_bad_one(ostinato: Any, home: Path) -> None:
    (home / "half.txt").write_bytes(b"the cat sees a dog .\nthe bird likes\n\xff\nthe end\n")
    answer = ostinato("score", home / "kn", home / "half.txt")
    assert answer.code == 1
    assert answer.out.count("\n") == 2
    assert "half.txt:3: " in answer.err
    (home / "half.txt").unlink()


def test_ctrl_c_while_waiting_for_input_is_quiet(home: Path) -> None:
    words = [sys.executable, "-m", "ostinato", "score", str(home / "kn"), "-"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"the cat\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert process.stderr is not None
        assert b"Traceback" not in (told := process.stderr.read())
        assert b"Fatal" not in told


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_standard_output_is_one_line(home: Path) -> None:
    words = [sys.executable, "-m", "ostinato", "evaluate", str(home / "kn"), "-q"]
    with Path("/dev/full").open("w") as full:
        answer = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert answer.returncode == 1
    assert answer.stderr == "ostinato: standard output: No space left on device\n"


@pytest.mark.parametrize("name", ["kn", "mixture", "lstm"])
def test_resuming_what_is_finished_is_harmless(ostinato: Any, home: Path, name: str) -> None:
    before = (home / name / "model.safetensors").read_bytes()
    assert ostinato("resume", home / name, "-q").code == 0
    assert (home / name / "model.safetensors").read_bytes() == before


def test_resuming_what_is_finished_says_so(ostinato: Any, home: Path) -> None:
    assert "nothing was left to do" in ostinato("resume", home / "kn").err


def copy_that_ended(home: Path, target: Path, **event: Any) -> Path:
    """A copy of the LSTM's run whose log ends with that event."""
    shutil.copytree(home / "lstm", target)
    with (target / "log.jsonl").open("a") as log:
        log.write(json.dumps(event) + "\n")
    return target


@pytest.mark.parametrize("words", [("evaluate", "RUN"), ("generate", "RUN"), ("export", "RUN", "OUT")])
def test_an_unfinished_run_is_called_so(ostinato: Any, home: Path, tmp_path: Path, words: tuple[str, ...]) -> None:
    run = copy_that_ended(home, tmp_path / "run", event="stop", step=7, reason="interrupted")
    remark = f"this run is unfinished (step 7); `ostinato resume {run}` trains on\n"

    def call(run: Path, out: str, *more: str) -> Answer:
        return ostinato(*(word.replace("RUN", str(run)).replace("OUT", str(tmp_path / out)) for word in words), *more)

    assert call(run, "a").err.count(remark) == 1
    assert call(run, "b", "-q").err == ""
    assert "unfinished" not in call(home / "lstm", "c").err


def test_a_diverged_run_without_a_model_is_to_be_trained_again(ostinato: Any, home: Path, tmp_path: Path) -> None:
    run = copy_that_ended(home, tmp_path / "run", event="stop", step=7, reason="diverged")
    assert "diverged at step 7" in ostinato("evaluate", run).err
    (run / "model.safetensors").unlink()
    answer = ostinato("evaluate", run)
    assert answer.code == 1
    assert "smaller --train.learning-rate" in answer.err
    assert "resume" not in answer.err


@pytest.mark.parametrize("name", ["kn", "mixture"])
def test_the_doctor_has_nothing_to_say_of_what_takes_no_steps(ostinato: Any, home: Path, name: str) -> None:
    assert ostinato("doctor", home / name).out.startswith("nothing to diagnose")


def test_a_text_under_another_name_is_not_tuned_on(ostinato: Any, home: Path, tmp_path: Path) -> None:
    shutil.copy(home / "other.txt", tmp_path / "copy.txt")
    shutil.copy(home / "text.txt", tmp_path / "more.txt")
    command = ("evaluate", home / "kn", tmp_path / "more.txt", home / "other.txt", "--cache", "10", "--tune-on")
    answer = ostinato(*command, tmp_path / "copy.txt")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "is the text to be scored" in answer.err
    write(tmp_path / "third.txt", 20, seed=9)
    assert ostinato(*command, tmp_path / "third.txt").code == 0


def test_perplexities_that_mean_little_are_warned_of(ostinato: Any, home: Path, tmp_path: Path) -> None:
    (tmp_path / "zebras.txt").write_text("zebras gnus okapis\n")
    assert "warning: 75% of the tokens are unknown" in ostinato("evaluate", home / "kn", tmp_path / "zebras.txt").err
    assert "warning" not in ostinato("evaluate", home / "kn", home / "other.txt").err
    answer = ostinato("evaluate", home / "lstm", home / "other.txt", "--dynamic", "1e9")
    assert "--dynamic 1e+09 is too large" in answer.err


def test_output_is_utf8_whatever_the_locale(home: Path, tmp_path: Path) -> None:
    (tmp_path / "naive.txt").write_text("naïve ≥ \n", "utf8")
    environment = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    words = [sys.executable, "-m", "ostinato", "score", str(home / "kn"), str(tmp_path / "naive.txt")]
    answer = subprocess.run(words, capture_output=True, env=environment, timeout=60)
    assert answer.returncode == 0, answer.stderr
    assert "naïve ≥" in answer.stdout.decode("utf8")


def test_a_run_that_went_wild_ends_and_is_diagnosed(ostinato: Any, home: Path, tmp_path: Path) -> None:
    ostinato("train", "--text", home / "text.txt", *SMALL, "--train.learning-rate", "1e30", "--run-dir", tmp_path / "w")
    said = ostinato("doctor", tmp_path / "w", "--json")
    assert said.code == 3
    found = said.json["diagnoses"]
    assert {"loss-near-uniform", "not-finite", "validation-above-uniform", "loss-rising"} & {
        one["name"] for one in found
    }


def test_members_of_a_mixture_are_told_apart(ostinato: Any, home: Path, tmp_path: Path) -> None:
    answer = ostinato("mix", home / "kn", home / "kn", "--run-dir", tmp_path / "m", "--json", "-q")
    assert [member["weight"] for member in answer.json["members"]] == pytest.approx([0.5, 0.5])
    shown = ostinato("show", tmp_path / "m", "--json").json
    assert shown["model"]["kind"] == "mixture"
    assert "options" not in shown


def test_bits_a_character_are_marked_where_words_are_unknown(ostinato: Any, home: Path, tmp_path: Path) -> None:
    (tmp_path / "zebras.txt").write_text("the zebra likes a dog .\n")
    assert "≥ " in ostinato("evaluate", home / "kn", tmp_path / "zebras.txt").out
    assert "≥ " in ostinato("compare", home / "kn", "--text", tmp_path / "zebras.txt").out
    assert "≥" not in ostinato("evaluate", home / "kn", home / "other.txt").out


@pytest.mark.parametrize("name", ["kn", "lstm", "chars", "mixture"])
def test_generation_is_the_same_for_the_same_seed(ostinato: Any, home: Path, name: str) -> None:
    first, again, other = (
        ostinato("generate", home / name, "--max-tokens", "30", "--seed", seed).out for seed in ("1", "1", "2")
    )
    assert first == again
    assert first != other or len(first) < 8
    assert first.strip()


def test_generation_goes_on_from_the_prompt(ostinato: Any, home: Path) -> None:
    for strategy in ("sample", "greedy"):
        out = ostinato("generate", home / "kn", "--prompt", "the cat", "--strategy", strategy).out
        assert out.startswith("the cat ")
    beam = ostinato("generate", home / "kn", "--prompt", "the 天", "--strategy", "beam", "--samples", "3", "--json").out
    found = [json.loads(line) for line in beam.splitlines()]
    assert len(found) == 3
    assert all(one["text"].startswith("the 天") for one in found)
    assert sorted((one["score"] for one in found), reverse=True) == [one["score"] for one in found]


def test_a_stream_model_generates_over_line_ends(ostinato: Any, home: Path) -> None:
    out = ostinato("generate", home / "chars", "--max-tokens", "80").out
    assert out.rstrip("\n").count("\n") >= 1


def test_compare_puts_the_best_first_and_keeps_signatures_apart(ostinato: Any, home: Path) -> None:
    rows = ostinato("compare", home / "kn", home / "lstm", home / "mixture", "--json", "-q").json["rows"]
    by_name = {Path(row["run"]).name: row for row in rows}
    assert by_name["mixture"]["perplexity"] < min(by_name["kn"]["perplexity"], by_name["lstm"]["perplexity"])
    assert by_name["kn"]["state_bytes"] == 8
    assert by_name["lstm"]["state_bytes"] == 4 * 8 * 2
    assert by_name["mixture"]["state_bytes"] == 8 + 4 * 8 * 2
    assert len({row["signature"] for row in rows}) == 1
    table = ostinato("compare", home / "lstm", home / "chars", "--text", home / "letters.txt").out
    assert table.count("perplexity per") == 2  # two signatures, two tables


def test_show_doctor_and_plot_look_into_a_run(ostinato: Any, home: Path, tmp_path: Path) -> None:
    facts = ostinato("show", home / "lstm", "--json").json
    assert facts["model"]["kind"] == "lstm"
    assert facts["options"]["model.hidden"] == 8
    shown = ostinato("show", home / "lstm").out
    assert not set("[]{}") & set(shown.replace("[data:", "").replace("-line]", "")), shown
    assert "diagnoses" in ostinato("doctor", home / "lstm", "--json").json
    assert ostinato("doctor", home / "kn").code == 0
    assert ostinato("plot", home / "lstm", "--out", tmp_path / "curves").code == 0
    assert (tmp_path / "curves.svg").read_text("utf8").startswith("<?xml")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_every_example_configuration_is_valid(ostinato: Any, tmp_path: Path) -> None:
    from ostinato.core.config import build, read_toml
    from ostinato.tasks.options import KINDS, Config
    from ostinato.tasks.task import NAMES
    from ostinato.tasks.working import config_from, task_named

    folder = Path(__file__).parent.parent / "configs"
    kinds, tasks = set(), set()
    for file in folder.glob("*.toml"):
        if (task := task_named(file)) is not None:
            config_from(task, read_toml(file), str(file))
            tasks.add(task)
            continue
        config = build(Config, read_toml(file), str(file))
        config.check()
        kinds.add(config.model.kind)
    assert kinds == set(KINDS)
    assert tasks == set(NAMES)


def test_the_command_line_goes_before_the_file_and_the_file_before_the_defaults(ostinato: Any, tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        f'[data]\ntext = ["{write(tmp_path / "t.txt")}"]\nnormalise = ["nfc", "lower"]\n'
        '[model]\nkind = "gru"\nhidden = 7\ntied = false\n[train]\nepochs = 1\nrows = 4\nthreads = 1\n'
    )
    answer = ostinato(
        "train", "--config", file, "--model.hidden", "5", "--seed", "9", "--run-dir", tmp_path / "r", "-q"
    )
    assert answer.code == 0, answer.err
    options = ostinato("show", tmp_path / "r", "--json").json["options"]
    wanted = {"model.kind": "gru", "model.hidden": 5, "model.tied": False, "train.rows": 4, "train.bptt": 50}
    assert {key: options[key] for key in wanted} == wanted
    assert options["data.normalise"] == ["nfc", "lower"]
    assert options["train.seed"] == 9


TRAIN = ("train", "--run-dir", "RUN", "-q")
WRONG: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no such file": ((*TRAIN, "--text", "HOME/nowhere.txt"), 1, r"nowhere\.txt: no such file"),
    "empty text": ((*TRAIN, "--text", "HOME/empty.txt"), 1, r"empty\.txt.*empty"),
    "binary text": ((*TRAIN, "--text", "HOME/binary.txt"), 1, r"binary\.txt:1: .*binary"),
    "wrong encoding": ((*TRAIN, "--text", "HOME/latin.txt"), 1, r"latin\.txt:2: .*UTF-8"),
    "shorter than a batch": ((*TRAIN, "--text", "HOME/short.txt", "--train.rows", "64"), 1, "fewer than one batch"),
    "one word": ((*TRAIN, "--text", "HOME/one.txt", "--model.kind", "ngram"), 1, "only one piece"),
    "vocabulary too large": ((*TRAIN, "--text", "HOME/text.txt", "--data.limit", "9999"), 2, r"limit.*9,?999"),
    "learning rate 0": ((*TRAIN, "--train.learning-rate", "0"), 2, r"learning_rate: .*greater than 0"),
    "learning rate nan": ((*TRAIN, "--train.learning-rate", "nan"), 2, "learning_rate"),
    "unknown option": ((*TRAIN, "--model.hiden", "3"), 2, r"did you mean --model\.hidden"),
    "unknown key": (
        (*TRAIN, "--config", "HOME/typo.toml"),
        2,
        r"typo\.toml: unknown key 'model\.hiden'.*model\.hidden",
    ),
    "bad value in file": ((*TRAIN, "--config", "HOME/bad.toml"), 2, r"bad\.toml: train\.epochs"),
    "not TOML": ((*TRAIN, "--config", "HOME/text.txt"), 2, "not a TOML file"),
    "no configuration": ((*TRAIN, "--config", "HOME/nowhere.toml"), 2, "no such configuration file"),
    "option of another kind": ((*TRAIN, "--model.kind", "gru", "--model.order", "3"), 2, "does not apply to gru"),
    "training an ngram": ((*TRAIN, "--model.kind", "ngram", "--train.epochs", "3"), 2, "does not apply to ngram"),
    "name taken": (("train", "--run-dir", "HOME/kn"), 1, "already exists"),
    "no run": (("evaluate", "HOME/nowhere"), 1, "no such run"),
    "not a run": (("evaluate", "HOME"), 1, "not a run directory"),
    "half-written run": (("evaluate", "HOME/half"), 1, "no trained model"),
    "newer run": (("evaluate", "HOME/newer"), 1, "newer Ostinato"),
    "truncated weights": (("evaluate", "HOME/truncated"), 1, r"model\.safetensors: truncated"),
    "edited weights": (("evaluate", "HOME/edited"), 1, "changed after saving"),
    "other vocabulary": (("evaluate", "HOME/swapped"), 1, "made for vocabulary"),
    "empty evaluation text": (("evaluate", "HOME/kn", "HOME/empty.txt"), 1, "empty"),
    "text as a model": (("compare", "HOME/text.txt"), 1, "give a run, an export, or a file that"),
    "no text of its own": (("evaluate", "HOME/kn/model.safetensors"), 1, "no test or validation text of its own"),
    "unknown prompt": (("generate", "HOME/lstm", "--prompt", "the zebra"), 1, "'zebra'.*--allow-unknown"),
    "penalty of nothing": (("generate", "HOME/kn", "--width", "3"), 2, "--width is for --strategy beam"),
    "zero temperature": (("generate", "HOME/kn", "--temperature", "0"), 2, "greedy"),
    "mix of strangers": (("mix", "HOME/kn", "HOME/chars", "--run-dir", "RUN"), 1, "different vocabularies"),
    "mix of one": (("mix", "HOME/kn", "--run-dir", "RUN"), 2, "at least two"),
    "plot of an ngram": (("plot", "HOME/kn", "--out", "RUN"), 1, "kn"),
    "seed too large": ((*TRAIN, "--train.seed", "18446744073709551616"), 2, "seed"),
    "hidden too large": ((*TRAIN, "--text", "HOME/text.txt", "--model.hidden", "99999999"), 2, "hidden"),
    "no memory for it": (
        (*TRAIN, "--text", "HOME/text.txt", "--model.hidden", "65536", "--model.layers", "65536"),
        1,
        "out of memory",
    ),
    "forget bias nan": ((*TRAIN, "--model.forget-bias", "nan"), 2, "forget_bias"),
    "threshold nan": (("evaluate", "HOME/kn", "--max-ppl", "nan"), 2, "above 0"),
    "plot to nowhere": (("plot", "HOME/lstm", "--out", ""), 2, "--out"),
    "run is a file": (("train", "--run-dir", "HOME/text.txt"), 1, "choose another --run-dir$"),
    "no command": (("trian",), 2, "train"),
}


@pytest.fixture(scope="module")
def faulty(home: Path) -> Path:
    """The same folder with everything that can be wrong in it."""
    (home / "empty.txt").write_text("\n\n")
    (home / "binary.txt").write_bytes(b"\x7fELF\x00\x00\x01")
    (home / "latin.txt").write_bytes("fine\nnaïve\n".encode("latin-1"))
    write(home / "short.txt", 30)
    (home / "one.txt").write_text("yes yes\n" * 50)
    (home / "typo.toml").write_text("[model]\nhiden = 3\n")
    (home / "bad.toml").write_text('[train]\nepochs = "many"\n')
    for name in ("half", "newer", "truncated", "edited", "swapped"):
        shutil.copytree(home / "lstm", home / name)
    (home / "half" / "model.safetensors").unlink()
    environment = home / "newer" / "environment.json"
    environment.write_text(environment.read_text().replace('"format": 1', '"format": 99'))
    weights = home / "truncated" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    weights = home / "edited" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x55")
    shutil.copy(home / "chars" / "data" / "vocabulary.json", home / "swapped" / "data" / "vocabulary.json")
    return home


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_one_line(ostinato: Any, faulty: Path, tmp_path: Path, name: str) -> None:
    words, code, message = WRONG[name]
    before = sorted(path for path in faulty.rglob("*") if ".lock" not in path.name)
    answer = ostinato(*(word.replace("HOME", str(faulty)).replace("RUN", str(tmp_path / "run")) for word in words))
    assert answer.code == code, answer.err
    assert re.search(message, answer.err, re.IGNORECASE), answer.err
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("ostinato: ")
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert list(tmp_path.iterdir()) == []
    assert sorted(path for path in faulty.rglob("*") if ".lock" not in path.name) == before


def test_unknown_words_of_a_prompt_may_be_allowed(ostinato: Any, home: Path) -> None:
    answer = ostinato("generate", home / "lstm", "--prompt", "the zebra", "--allow-unknown")
    assert answer.code == 0
    assert "zebra" in answer.err
    assert answer.out.startswith("the <unk>")


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    """On a real file system of one megabyte; needs the right to mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("may not mount a small file system")
    try:
        text = write(tmp_path / "text.txt")
        answer = in_a_process(
            "train", "--text", text, "--run-dir", disk / "run", "--model.hidden", "300", *SMALL[2:], "-q"
        )
        assert answer.returncode == 1
        assert answer.stderr.count("\n") == 1
        assert "no space left" in answer.stderr
        assert not list(disk.rglob("*.part"))
        assert not list(disk.rglob("model.safetensors"))
        again = in_a_process("train", "--text", text, "--run-dir", disk / "small", "--model.kind", "ngram", "-q")
        assert again.returncode == 0, again.stderr  # what was left does not stand in the way
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_standard_input_trains(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt").read_text("utf8")
    answer = in_a_process(
        "train", "--text", "-", "--model.kind", "ngram", "--run-dir", tmp_path / "run", "--json", "-q", input=text
    )
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["perplexity"] < 10


def test_output_is_quiet_where_it_is_piped(tmp_path: Path) -> None:
    text = write(tmp_path / "text.txt")
    fast = ("--train.learning-rate", "0.03")
    answer = in_a_process("train", "--text", text, "--run-dir", tmp_path / "run", *SMALL, *fast)
    assert answer.returncode == 0
    assert "\x1b" not in answer.stdout + answer.stderr
    assert answer.stdout.count("\n") == 1
    assert answer.stderr.count("\n") <= 2  # no bar; the closing line, and at most a remark


def test_what_lets_a_person_wait_long_says_what_it_may_be_doing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(talk, "PATIENCE", 0.05)
    with talk.watching():
        time.sleep(0.3)
    assert "is compiled" in capsys.readouterr().err
    with talk.watching() as watch:
        watch(Progress("train", 1, 0.1))
        time.sleep(0.3)
    assert "is compiled" not in capsys.readouterr().err
