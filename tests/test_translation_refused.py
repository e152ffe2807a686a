"""What the translation task refuses, and what it tells people of their data."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

import pytest

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError, OstinatoError
from ostinato.runs import TASK, RunDir
from ostinato.tasks import working
from ostinato.tasks.task import PredictOptions
from ostinato.tasks.translation.options import DataOptions, TrainOptions
from translation_toys import columns, config, loaded, parallel, reversed_pairs, sentences, trained, write


@pytest.fixture(scope="module")
def fixed(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """Without attention."""
    folder = tmp_path_factory.mktemp("fixed")
    train = (write(folder / "f", columns(reversed_pairs(80))),)
    return trained(config(train, model={"attention": "none"}, epochs=1), folder / "fixed")


@pytest.fixture(scope="module")
def german(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """From two parallel files."""
    folder = tmp_path_factory.mktemp("german")
    data = {"tokeniser": "bpe", "bpe_pieces": 280}
    return trained(config(parallel(folder, sentences(60)), data, epochs=1), folder / "german")


def answers(run: RunDir, source: str, **options: Any) -> str:
    return "".join(f"{line}\n" for line in loaded(run).predict(source, PredictOptions(**options)))


def test_a_damaged_run_and_one_of_other_pieces_are_refused(german: RunDir, tmp_path: Path) -> None:
    copy = RunDir.open(shutil.copytree(german.path, tmp_path / "copy"), TASK)
    vocabulary = copy.path / "data" / "source-vocabulary.json"
    other = loaded(trained(config(parallel(tmp_path, sentences(60)), epochs=1), tmp_path / "other"))
    other.corpus.source.vocabulary.save(vocabulary)
    with pytest.raises(MismatchError, match="made for vocabularies"):
        working.load(copy.path)
    (copy.path / "data" / "translation.json").write_text("{}")
    with pytest.raises(FormatError, match="format"):
        working.load(copy.path)
    model = copy.path / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-9])
    with pytest.raises(FormatError):
        working.load(copy.path)


def test_what_a_run_cannot_answer_is_refused_by_name(fixed: RunDir, german: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", "a b\n" + "a " * 201 + "\n")
    with pytest.raises(ConfigError, match=r"without attention .* no alignment"):
        answers(fixed, source, align=True)
    with pytest.raises(ConfigError, match="without attention"):
        loaded(fixed).look("a b")
    with pytest.raises(ConfigError, match=r"--online: .* from both ends"):
        answers(german, source, online=True)
    with pytest.raises(ConfigError, match=r"--nbest 6: a beam of 5"):
        answers(german, source, nbest=6)
    with pytest.raises(ConfigError, match="length_penalty"):
        answers(german, source, length_penalty=-1.0)
    with pytest.raises(DataError, match=r"x:2: 201 pieces, but this run has learnt from sources of up to 200"):
        answers(fixed, source)
    (tmp_path / "y").write_bytes(b"a\xff\n")
    with pytest.raises(DataError, match="is not UTF-8"):
        answers(fixed, str(tmp_path / "y"))


@pytest.mark.parametrize(
    ("content", "data", "model", "message"),
    [
        ("", {}, {}, r"train: no pairs"),
        ("\n\n", {}, {}, r"train: no pairs"),
        ("one\tA\ntwo\n", {}, {}, r"train:2: 1 column"),
        ("one\tA\nB\xff\tx\n", {}, {}, r"train:2: .*is not UTF-8"),
        ("one\tA\n", {}, {}, "too few to share out"),
        ("one\tA1\ntwo\t12\n", {"target_without": "0123456789"}, {}, "nothing is left of the target '12'"),
        (None, {"train": ()}, {}, "data.train names no file"),
        (None, {"train": ("nowhere",)}, {}, "nowhere: no such file"),
        (None, {"form": "parallel"}, {}, "give them in pairs"),
        (None, {"columns": (0, 5)}, {}, "columns 0 and 5 are wanted"),
        (None, {"tokeniser": "bpe", "bpe_pieces": 9000}, {}, "yields only"),
        (None, {}, {"attention": "dot"}, "compares queries of"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_left(
    content: str | None, data: dict[str, Any], model: dict[str, Any], message: str, tmp_path: Path
) -> None:
    train = tmp_path / "train"
    train.write_bytes((columns(reversed_pairs(40)) if content is None else content).encode("latin-1"))
    with pytest.raises(OstinatoError, match=message):
        trained(config((str(train),), data, model), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_parallel_files_of_different_length_and_none_short_enough_are_refused(tmp_path: Path) -> None:
    source, target = parallel(tmp_path, sentences(40))
    Path(target).write_text("ein\n" * 39)
    with pytest.raises(DataError, match=r"t\.de ends after line 39, but .*t\.en goes on"):
        trained(config((source, target)), tmp_path / "run")
    train = (write(tmp_path / "u", columns(reversed_pairs(40))),)
    with pytest.raises(DataError, match=r"every pair has a side of more than train\.longest 1"):
        trained(config(train, longest=1), tmp_path / "run")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"columns": (1, 1)}, "two different"),
        ({"joint": True, "target_tokeniser": "char"}, "joint"),
        ({"tokeniser": "word", "bpe_pieces": 500}, "bpe_pieces"),
        ({"min_count": 2}, "min_count"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DataOptions(**given)


def test_models_that_do_not_fit_their_data_are_refused() -> None:
    with pytest.raises(ValueError, match="copies whole words"):
        config(("a",), {"tokeniser": "bpe"}, {"copy_unknown": True})
    with pytest.raises(ValueError, match="needs one vocabulary"):
        config(("a",), {"tokeniser": "word"}, {"shared": True})
    with pytest.raises(ValueError, match="attention looks at"):
        config(("a",), {}, {"copy_unknown": True, "attention": "none"})
    with pytest.raises(ValueError, match="sampling_to"):
        TrainOptions(sampling_from=0.9)


def test_people_are_told_what_was_held_out_left_out_and_seen(tmp_path: Path) -> None:
    rows = [*reversed_pairs(60, most=5), ("a " * 30, "A"), ("b", "")]
    test = write(tmp_path / "test", columns([rows[0], ("a b c d e f g h", "H G F E D C B A")]))
    train = tmp_path / "train.tsv.gz"
    train.write_bytes(gzip.compress(columns(rows).encode()))
    notes: list[str] = []
    trained(config((str(train),), {"test": (test,), "holdout": 0.05}, epochs=1, longest=20), tmp_path / "run", notes)
    said = "\n".join(notes)
    assert "training sources are held out for validation (data.holdout 0.05, data.split_seed 1)" in said
    assert "1 training pairs with a side of more than 20 pieces are left out" in said
    assert "1 of 62 pairs have an empty side and were left out (lines 62)" in said
    assert "1 test sources stand in the training data too" in said
