"""`score` on files: documents of JSON Lines and lines of text, from the reading to what is printed."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import re
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import lines as sentences
from ostinato.cli.app import run as cli
from ostinato.cli.documents import percentiles, with_bucket
from ostinato.core.errors import DataError
from ostinato.core.vocabulary import Vocabulary
from ostinato.mix import Mixture
from ostinato.ngram.counts import count
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.store import save_model
from ostinato.tasks.language import documents as task
from ostinato.tasks.language.evaluate import score_group
from ostinato.tasks.language.load import Loaded, load
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.stream import encode
from ostinato.text.tokenise import make_tokeniser

BY_HAND = """\\data\\
ngram 1=5
ngram 2=1

\\1-grams:
-99\t<s>\t-0.5
-1\t<unk>
-0.25\t</s>
-0.5\ta
-0.75\tb

\\2-grams:
-0.125\t<s> a

\\end\\
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model file, a model in ARPA format worked by hand, and documents."""
    home = tmp_path_factory.mktemp("home")
    pipeline = Pipeline(Normaliser(["nfc"]), make_tokeniser("blank"))
    vocabulary = Vocabulary(sorted({word for line in sentences(300) for word in line.split()} - {"bird"}))
    counts = count(encode([sentences(300)], pipeline, vocabulary).ids, vocabulary, 3)
    save_model(home / "model", NGramModel(smoothings["modified-kneser-ney"]().fit(counts), vocabulary), pipeline)
    (home / "hand.arpa").write_text(BY_HAND)
    write_objects(home / "docs.jsonl", documents(60))
    return home


def documents(number: int, seed: int = 0) -> list[dict[str, Any]]:
    """Objects with a text of some lines, good and bad ones, some of them empty."""
    chance = random.Random(seed)
    made = []
    for place in range(number):
        text = "\n".join(sentences(chance.randrange(6), place))
        words = text.split(" ")
        for _ in range(chance.randrange(9)):
            words[chance.randrange(len(words))] = chance.choice(["zebra", "天", "cat\n", "\n\n", "the"])
        made.append({"id": f"d{place}", "text": " ".join(words), "n": place / 7})
    return made


def write_objects(path: Path, objects: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one, ensure_ascii=place % 2 == 0) + "\n" for place, one in enumerate(objects)))
    return path


@pytest.fixture
def score(capsys: pytest.CaptureFixture[str], home: Path) -> Callable[..., tuple[int, list[str], str]]:
    """A function that runs `ostinato score` in this process: code, rows, what was said."""

    def call(*words: object) -> tuple[int, list[str], str]:
        capsys.readouterr()
        code = cli(["score", *(str(word).replace("HOME", str(home)) for word in words)])
        out, err = capsys.readouterr()
        return code, out.splitlines(), err

    return call


def test_a_document_scores_as_worked_by_hand(score: Any, home: Path, tmp_path: Path) -> None:
    """p(a | <s>) is seen; b after a, </s> after anything, and unknown words back off, <s> alone at a cost."""
    write_objects(tmp_path / "d.jsonl", [{"text": "a b\n \na a\r\nz"}, {"id": 7, "text": "b"}, {"text": "\n"}])
    code, rows, _ = score("HOME/hand.arpa", tmp_path / "d.jsonl", "--jsonl", "--log10")
    first, second, third = map(json.loads, rows)
    ab = -0.125 + -0.75 + -0.25
    aa = -0.125 + -0.5 + -0.25
    z = (-0.5 + -1) + -0.25
    assert code == 0
    assert first["log10"] == pytest.approx(ab + aa + z, rel=1e-6)
    assert first["nats"] == pytest.approx(-(ab + aa + z) * math.log(10), rel=1e-6)
    assert first["perplexity"] == pytest.approx(10 ** (-(ab + aa + z) / 8), rel=1e-6)
    assert {name: first[name] for name in ("line", "tokens", "lines", "unknown")} == {
        "line": 1,
        "tokens": 8,
        "lines": 3,
        "unknown": 1,
    }
    assert "id" not in first
    assert (second["id"], second["line"]) == (7, 2)
    assert second["log10"] == pytest.approx((-0.5 + -0.75) + -0.25, rel=1e-6)
    assert third == {"line": 3, "nats": 0, "log10": 0, "tokens": 0, "unknown": 0, "lines": 0, "perplexity": None}


@pytest.mark.parametrize("kind", ["n-gram", "other"])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_document_is_the_sum_of_its_lines(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, threads: int
) -> None:
    """However the file is cut for reading, in its order, whatever model, several files one after another."""
    monkeypatch.setattr(task, "QUICK", 700)
    monkeypatch.setattr(task, "SLOW", 300)
    model = load(home / "model")
    if kind == "other":
        mixture = Mixture([model.model], [1.0])
        model = Loaded(model.run, "mixture", mixture, model.pipeline, "sentence", {})
    second = write_objects(tmp_path / "more.jsonl", documents(9, 1))
    found = [
        document
        for part in task.score_documents(model, [home / "docs.jsonl", second], threads=threads)
        for document in part.documents
    ]
    wanted = [*documents(60), *documents(9, 1)]
    assert [document.key for document in found] == [one["id"] for one in wanted]
    assert [document.line for document in found] == [*range(1, 61), *range(1, 10)]
    for document, one in zip(found, wanted, strict=True):
        lines = [line for line in one["text"].split("\n") if line.strip()]
        alone = score_group(model, lines)
        assert document.lines == len(lines)
        assert document.tokens == sum(line.count for line in alone)
        assert document.unknown == sum(line.unknown for line in alone)
        assert document.nats == pytest.approx(math.fsum(line.nats for line in alone), rel=1e-6)
        assert json.loads(document.source) == one


objects_of_text = st.lists(st.sampled_from(["{}", '{"a":1}', "", " ", "{" + " " * 40 + "}"]), max_size=12)


@given(objects_of_text, st.booleans(), st.booleans(), st.integers(1, 30), st.sampled_from(["", ".gz", ".zst"]))
@settings(deadline=None, max_examples=150)
def test_lines_of_any_length_are_read_whole(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ended: bool, marked: bool, size: int, packing: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"lines{packing}"
    text = ("\ufeff" if marked else "") + "\n".join(lines) + ("\n" if ended and lines else "")
    packed = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[packing]
    path.write_bytes(packed(text.encode()))
    found: dict[int, bytes] = {}
    for chunk in task.chunks([task.ObjectReader(path)], size):
        for line, source in enumerate(chunk.data.split(b"\n"), chunk.before + 1):
            assert line not in found
            found[line] = source
    assert [source for _, source in sorted(found.items()) if source] == [line.encode() for line in lines if line]
    assert all(lines[line - 1].encode() == source for line, source in found.items() if source)


def test_an_object_may_be_longer_than_any_line_of_text(score: Any, tmp_path: Path) -> None:
    write_objects(tmp_path / "long.jsonl", [{"text": "天 the " * 200_000}, {"text": "the"}])
    code, rows, _ = score("HOME/model", tmp_path / "long.jsonl", "--jsonl")
    assert code == 0
    assert [json.loads(row)["tokens"] for row in rows] == [400_001, 2]


def test_a_line_without_end_is_no_object(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "LONGEST_OBJECT", 1 << 20)
    (tmp_path / "array.json").write_text('{"text": "a"}\n' + "[" + "1," * (1 << 20))
    with pytest.raises(DataError, match=r"array\.json:2: a line of more than 1 MB"):
        list(task.score_documents(load(home / "model"), [str(tmp_path / "array.json")]))


BAD = {
    "cut short": ('{"text": "a', r"not JSON \(EOF while parsing a string at byte"),
    "two objects": ('{"text": "a"} {"text": "b"}', "not JSON"),
    "half a letter": (b'{"text": "\xe5\xa4"}', "not JSON"),
    "half a pair": ('{"text": "\\ud800"}', "not JSON"),
    "a list": ("[1]", "a list, not an object"),
    "a number": ("3", "a bare value, not an object"),
    "no field": ('{"texts": "a", "id": 1}', r"no 'text'; name the --field of the text \(there are: 'texts', 'id'\)"),
    "empty": ("{}", r"no 'text'.*there are: none"),
    "null": ('{"text": null}', "'text' is null, not a text"),
    "a list of texts": ('{"text": ["a"]}', "'text' is a list, not a text"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_told_after_what_came_before(score: Any, tmp_path: Path, name: str) -> None:
    line, message = BAD[name]
    good = b'{"text": "the"}\n'
    (tmp_path / "bad.jsonl").write_bytes(
        good + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n" + good
    )
    code, rows, err = score("HOME/model", "--jsonl", tmp_path / "bad.jsonl", "-q")
    assert (code, len(rows)) == (1, 1)
    assert err.count("\n") == 1
    assert f"{tmp_path}/bad.jsonl:3: " in err
    assert re.search(message, err)
    code, rows, err = score("HOME/model", "--jsonl", tmp_path / "bad.jsonl", "--skip-bad", "-v")
    assert (code, [json.loads(row)["line"] for row in rows]) == (0, [1, 4])
    assert "2 documents, 4 tokens, 1 bad lines passed over" in err
    assert "bad.jsonl:3: " in err


WRONG = {
    ("--keep",): "--keep is for documents; add --jsonl",
    ("--skip-bad",): "--skip-bad is for documents",
    ("--field", "x"): "--field is for documents",
    ("--jsonl", "--tokens"): "--tokens is for lines",
    ("--jsonl", "--buckets", "60", "30"): "two percentiles",
    ("--jsonl", "--buckets", "30", "nan"): "two percentiles",
    ("--jsonl", "--thresholds", "60", "30"): "--thresholds must be perplexities",
    ("--jsonl", "--thresholds", "nan", "30"): "--thresholds must be perplexities",
    ("--jsonl", "--buckets", "30", "60", "--thresholds", "30", "60"): "one of them",
    ("--jsonl", "--max-ppl", "0"): "--min-ppl and --max-ppl must",
    ("--jsonl", "--min-ppl", "3", "--max-ppl", "2"): "--min-ppl and --max-ppl must",
    ("--jsonl", "--threads", "0"): "--threads must be at least 1",
    ("--threads", "0"): "--threads must be at least 1",
    ("--jsonll",): "unknown option --jsonll",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_options_that_make_no_sense_are_refused(score: Any, words: tuple[str, ...]) -> None:
    code, rows, err = score("HOME/model", "HOME/docs.jsonl", *words)
    assert (code, rows) == (2, [])
    assert WRONG[words] in err
    assert err.count("\n") == 1


def told(rows: list[str]) -> list[Any]:
    return [json.loads(row) for row in rows]


def test_buckets_cut_at_percentiles_of_all_documents(score: Any) -> None:
    """By the definition: sorted, the smallest perplexity that at least so many per cent do not exceed."""
    _, rows, err = score("HOME/model", "HOME/docs.jsonl", "--jsonl", "--buckets", "30", "60")
    found = told(rows)
    measured = sorted(one["perplexity"] for one in found if one["perplexity"] is not None)
    assert 50 <= len(measured) < len(found) == 60
    low, high = (measured[math.ceil(share * len(measured)) - 1] for share in (0.3, 0.6))
    for one in found:
        if one["perplexity"] is None:
            assert one["bucket"] is None
        else:
            assert one["bucket"] == ("head", "middle", "tail")[(one["perplexity"] > low) + (one["perplexity"] > high)]
    assert {one["bucket"] for one in found} == {None, "head", "middle", "tail"}
    assert [one["id"] for one in found] == [one["id"] for one in documents(60)]
    assert f"--thresholds {low:.6g} {high:.6g}" in err
    _, again, _ = score("HOME/model", "HOME/docs.jsonl", "--jsonl", "--thresholds", repr(low), repr(high))
    assert again == rows


def test_a_bucket_begins_above_its_cut() -> None:
    cuts = (10.0, 20.0)
    names = [json.loads(with_bucket('{"a": 1}', value, cuts))["bucket"] for value in (10.0, 10.5, 20.0, 20.5, math.inf)]
    assert names == ["head", "middle", "middle", "tail", "tail"]
    assert json.loads(with_bucket('{"a": 1}', None, cuts)) == {"a": 1, "bucket": None}
    assert percentiles(array("d", [math.nan]), (30, 60)) == (math.inf, math.inf)
    assert percentiles(array("d", [3, 1, math.nan, math.inf]), (34, 100)) == (3, math.inf)


def test_filters_let_pass_what_lies_between(score: Any) -> None:
    """Percentiles are still those of all documents; what has no perplexity never passes."""
    _, rows, _ = score("HOME/model", "HOME/docs.jsonl", "--jsonl", "--buckets", "30", "60")
    everything = told(rows)
    least, most = sorted(one["perplexity"] for one in everything if one["perplexity"] is not None)[10:40:29]
    wanted = [one for one in everything if one["perplexity"] is not None and least <= one["perplexity"] <= most]
    bounds = ("--min-ppl", repr(least), "--max-ppl", repr(most))
    _, rows, err = score("HOME/model", "HOME/docs.jsonl", "--jsonl", "--buckets", "30", "60", *bounds)
    assert told(rows) == wanted
    assert 30 <= len(wanted) < 50
    assert f"{len(wanted)} of 60 documents" in err
    _, rows, _ = score("HOME/model", "HOME/docs.jsonl", "--jsonl", "--min-ppl", repr(least))
    assert len(rows) == sum(one["perplexity"] is not None and one["perplexity"] >= least for one in everything)


def test_kept_objects_are_as_they_were_but_for_what_is_added(score: Any, tmp_path: Path) -> None:
    odd = '{ "text" : "the \\u5929" ,"big":12345678901234567890,"f":1.0e5,"nested":{"text":"b"} }'
    (tmp_path / "odd.jsonl").write_text(odd + "\r\n" + '{"bucket":"old","perplexity":1,"text":"the 天"}\n')
    _, (first, second), _ = score("HOME/model", tmp_path / "odd.jsonl", "--jsonl", "--keep", "--thresholds", "1", "2")
    assert first.startswith(odd[:-2] + ', "perplexity": ')
    content = json.loads(first)
    assert content.pop("perplexity") > 2
    assert content.pop("bucket") == "tail"
    assert content == json.loads(odd)
    assert second.count("perplexity") == second.count("bucket") == 1
    assert json.loads(second) == {
        "text": "the 天",
        **{name: json.loads(first)[name] for name in ("perplexity", "bucket")},
    }
    (tmp_path / "again.jsonl").write_text(first + "\n" + second + "\n")
    _, again, _ = score("HOME/model", tmp_path / "again.jsonl", "--jsonl", "--keep", "--thresholds", "1", "2")
    assert told(again) == told([first, second])


def test_files_are_named_where_there_are_several(score: Any, home: Path) -> None:
    _, rows, _ = score("HOME/model", "--jsonl", "HOME/docs.jsonl", "HOME/docs.jsonl", "--field", "id")
    found = told(rows)
    assert {one["file"] for one in found} == {f"{home}/docs.jsonl"}
    assert [one["line"] for one in found] == [*range(1, 61)] * 2
    assert {one["tokens"] for one in found} == {2}  # an id is one word


def test_packed_files_give_the_same(score: Any, home: Path, tmp_path: Path) -> None:
    content = (home / "docs.jsonl").read_bytes()
    (tmp_path / "d.jsonl.gz").write_bytes(gzip.compress(content))
    (tmp_path / "d.jsonl.zst").write_bytes(zstandard.ZstdCompressor().compress(content))
    wanted = score("HOME/model", "--jsonl", "HOME/docs.jsonl")[1]
    for packed in ("gz", "zst"):
        assert score("HOME/model", "--jsonl", tmp_path / f"d.jsonl.{packed}")[1] == wanted


def test_infinite_perplexities_are_null(score: Any, tmp_path: Path) -> None:
    (tmp_path / "zero.arpa").write_text(BY_HAND.replace("-0.75\tb", "-inf\tb"))
    write_objects(tmp_path / "d.jsonl", [{"text": "b"}, {"text": "a"}])
    code, rows, _ = score(tmp_path / "zero.arpa", "--jsonl", tmp_path / "d.jsonl", "--thresholds", "5", "1000")
    first, second = told(rows)
    assert code == 0
    assert (first["nats"], first["perplexity"], first["bucket"]) == (None, None, "tail")
    assert second["bucket"] == "head"


def test_lines_of_several_files_follow_each_other(score: Any, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the cat\n\n天")
    (tmp_path / "b.txt").write_text("a zebra\r\n")
    _, rows, _ = score("HOME/model", tmp_path / "a.txt", tmp_path / "b.txt")
    columns = [row.split("\t") for row in rows]
    assert [(row[1], row[3], row[4]) for row in columns] == [
        ("2", "0", "the cat"),
        ("0", "0", ""),
        ("1", "0", "天"),
        ("2", "1", "a zebra"),
    ]


def test_tokens_and_log10_are_those_of_kenlm(score: Any, tmp_path: Path) -> None:
    """query -v word says a=3 2 -0.125, z=0 1 -1.5, </s>=2 1 -0.25, total -1.875."""
    (tmp_path / "t.txt").write_text("a z\n\n")
    _, rows, _ = score("HOME/hand.arpa", tmp_path / "t.txt", "--tokens", "--log10")
    assert rows == ["-0.1250\ta", "-1.0000\t<unk>", "-0.2500\t</s>", "", "-0.7500\t</s>", ""]
    _, rows, _ = score("HOME/hand.arpa", tmp_path / "t.txt", "--tokens", "--json", "--log10")
    first, second = told(rows)
    assert [piece for piece, _ in first["tokens"]] == ["a", "<unk>", "</s>"]
    assert [value for _, value in first["tokens"]] == pytest.approx([-0.125, -1, -0.25], rel=1e-6)
    assert first["log10"] == pytest.approx(-0.125 + -1 + -0.25, rel=1e-6)
    assert first["nats"] == pytest.approx((0.125 + 1 + 0.25) * math.log(10), rel=1e-6)
    assert [second[name] for name in ("count", "words", "unknown", "text")] == [1, 0, 0, ""]
    _, rows, _ = score("HOME/hand.arpa", tmp_path / "t.txt", "--log10")
    assert rows[0] == f"-1.3750\t2\t{10 ** (1.375 / 3):.4f}\t1\ta z"


def test_work_is_handed_over_in_order_whoever_is_done_first() -> None:
    def work(item: int) -> int:
        time.sleep(0.002 * (item % 3 == 0))
        return item * item

    for threads in (1, 4):
        assert list(task.ahead(work, range(30), threads)) == [item * item for item in range(30)]


def test_a_fault_comes_after_what_came_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(5)
        raise DataError("here")

    def work(item: int) -> int:
        return 10 // (3 - item)

    for threads in (1, 3):
        found: list[int] = []
        with pytest.raises(DataError, match="here"):
            found.extend(task.ahead(abs, items(), threads))
        assert found == [0, 1, 2, 3, 4]
        found = []
        with pytest.raises(ZeroDivisionError):
            found.extend(task.ahead(work, range(9), threads))
        assert found == [3, 5, 10]


def test_who_leaves_early_leaves_no_thread_behind() -> None:
    before = threading.active_count()
    for threads in (1, 3):
        for _ in task.ahead(abs, range(1000), threads):
            break
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def started(home: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ostinato", "score", str(home / "model"), "--jsonl", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_slow_writer_of_documents_is_answered_at_once_and_ctrl_c_is_quiet(home: Path) -> None:
    with started(home) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        for number in range(4):
            process.stdin.write(json.dumps({"id": number, "text": "the cat\nthe 天"}) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == number
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "Traceback" not in (err := process.stderr.read())
        assert "Fatal" not in err


def test_a_broken_pipe_of_documents_is_quiet(home: Path, tmp_path: Path) -> None:
    write_objects(tmp_path / "many.jsonl", documents(60) * 300)
    command = f"{sys.executable} -m ostinato score {home}/model --jsonl {tmp_path}/many.jsonl | head -n 1"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)
    assert answer.stdout.count("\n") == 1
    assert answer.stderr == ""


def test_a_full_temporary_folder_is_one_line(score: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            pass

    monkeypatch.setattr("tempfile.TemporaryFile", lambda *words, **options: Full())
    code, rows, err = score("HOME/model", "--jsonl", "HOME/docs.jsonl", "--buckets", "30", "60")
    assert (code, rows) == (1, [])
    assert "the temporary file for --buckets" in err
    assert "TMPDIR" in err
    assert err.count("\n") == 1
