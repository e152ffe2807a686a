"""Vocabulary, score, registry, configuration, files and runs."""

from __future__ import annotations

import dataclasses
import errno
import json
import math
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostinato.core.config import build, flatten, nest, read_toml, to_toml
from ostinato.core.errors import ConfigError, FormatError, MismatchError, StorageError
from ostinato.core.files import atomic_path, write_text
from ostinato.core.registry import Registry
from ostinato.core.score import Score
from ostinato.core.vocabulary import Vocabulary
from ostinato.runs import RunDir, load_arrays, save_arrays
from ostinato.tasks.options import BEGINNING, KINDS, Config, ModelOptions
from ostinato.text.options import DataOptions
from ostinato.train.options import TrainOptions

pieces = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=8).map(
    lambda found: [piece for piece in found if piece not in ("<unk>", "</s>", "<s>", "<pad>")]
)


@given(pieces)
def test_a_vocabulary_gives_back_every_piece(found: list[str]) -> None:
    vocabulary = Vocabulary(found)
    ids = vocabulary.ids(found)
    assert vocabulary.pieces_of(ids) == found
    assert all(2 <= number < vocabulary.outputs for number in ids)
    assert len(vocabulary) == vocabulary.outputs + 2


def test_special_symbols_in_a_text_are_unknown_and_cannot_be_listed() -> None:
    vocabulary = Vocabulary(["a"])
    assert vocabulary.ids(["a", "<unk>", "</s>", "<s>", "<pad>", "b"]).tolist() == [2, 0, 0, 0, 0, 0]
    assert (vocabulary.unknown, vocabulary.stop, vocabulary.start, vocabulary.pad) == (0, 1, 3, 4)
    for bad in (["a", "a"], ["<s>"], ["</s>"]):
        with pytest.raises(ConfigError):
            Vocabulary(bad)


@given(pieces)
def test_a_vocabulary_survives_its_file(tmp_path_factory: Any, found: list[str]) -> None:
    path = tmp_path_factory.mktemp("v") / "vocabulary.json"
    Vocabulary(found).save(path)
    again = Vocabulary.load(path)
    assert again == Vocabulary(found)
    assert again.fingerprint == Vocabulary(found).fingerprint


def test_a_fingerprint_changes_with_any_piece_or_place() -> None:
    prints = {Vocabulary(found).fingerprint for found in (["a", "b"], ["b", "a"], ["a"], ["a", "c"])}
    assert len(prints) == 4


def test_an_edited_vocabulary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.json"
    Vocabulary(["a", "b"]).save(path)
    path.write_text(path.read_text().replace('"b"', '"c"'))
    with pytest.raises(FormatError, match="edited"):
        Vocabulary.load(path)


def test_a_score_is_arithmetic() -> None:
    score = Score(nats=4 * math.log(8), count=4, per="word", signature="s", characters=6, bytes=12)
    assert score.perplexity == pytest.approx(8)
    assert score.bits == pytest.approx(3)
    assert score.bits_per_char == pytest.approx(4 * 3 / 6)
    assert score.bits_per_byte == pytest.approx(4 * 3 / 12)
    assert Score.from_json(json.loads(json.dumps(score.to_json()))) == score
    assert Score(math.inf, 3, "word", "s").perplexity == math.inf


def test_scores_add_only_when_comparable() -> None:
    one, two = Score(1.0, 2, "word", "s", 1, 5, 5), Score(3.0, 4, "word", "s", 0, 7, 8)
    assert one + two == Score(4.0, 6, "word", "s", 1, 12, 13)
    for other in (Score(3.0, 4, "char", "s"), Score(3.0, 4, "word", "t")):
        with pytest.raises(MismatchError):
            one + other


def test_a_registry_names_the_nearest() -> None:
    registry: Registry[int] = Registry("smoothing")
    registry.register("kneser-ney")(1)
    registry.register("additive")(2)
    assert list(registry) == ["additive", "kneser-ney"]
    with pytest.raises(ConfigError, match="unknown smoothing 'kneser'; did you mean 'kneser-ney'"):
        registry["kneser"]


configs = st.builds(
    Config,
    st.builds(
        DataOptions,
        text=st.lists(st.text(max_size=5), max_size=2).map(tuple),
        tokeniser=st.sampled_from(["word", "char"]),
        limit=st.none() | st.integers(2, 99),
        holdout=st.floats(0.01, 0.4),
    ),
    st.builds(ModelOptions, kind=st.sampled_from(sorted(KINDS)), hidden=st.none() | st.integers(1, 9)),
    st.builds(TrainOptions, epochs=st.integers(1, 9), learning_rate=st.none() | st.floats(1e-9, 9)),
)


@given(configs)
def test_a_configuration_survives_its_file(tmp_path_factory: Any, config: Config) -> None:
    path = tmp_path_factory.mktemp("c") / "config.toml"
    write_text(path, to_toml(config))
    assert build(Config, read_toml(path), "file") == config


@given(configs)
def test_flat_keys_and_tables_say_the_same(config: Config) -> None:
    assert build(Config, nest({k: v for k, v in flatten(config).items() if v is not None}), "flat") == config


def test_the_model_options_are_the_union_of_those_of_every_kind() -> None:
    named = {field.name for field in dataclasses.fields(ModelOptions)} - {"kind", *BEGINNING}
    assert named == {field.name for kind in KINDS.values() for field in dataclasses.fields(kind)}


def test_a_table_where_a_value_belongs_and_the_reverse_are_refused() -> None:
    with pytest.raises(ConfigError, match="model is a table"):
        build(Config, {"model": 3}, "file")
    with pytest.raises(ConfigError, match=r"train\.epochs"):
        build(Config, {"train": {"epochs": {}}}, "file")


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.txt"
    write_text(target, "one")

    def fail() -> None:
        with atomic_path(target) as path:
            path.write_text("half")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert target.read_text() == "one"
    assert list(target.parent.iterdir()) == [target]


def test_new_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "text", "one")
        save_arrays(tmp_path / "arrays", {"a": np.zeros(3)}, {})
    finally:
        os.umask(before)
    assert [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()] == [0o640, 0o640]


def test_a_full_disk_is_said_plainly(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no space left"), atomic_path(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_arrays_survive_their_file_exactly(tmp_path: Path) -> None:
    arrays = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([-1, 2**40]), "empty": np.zeros((0, 3))}
    save_arrays(tmp_path / "x.safetensors", arrays, {"kind": "test", "名": "值"})
    again, about = load_arrays(tmp_path / "x.safetensors")
    assert (about["kind"], about["名"]) == ("test", "值")
    for name, array in arrays.items():
        assert again[name].dtype == array.dtype
        np.testing.assert_array_equal(again[name], array)


@given(st.data())
def test_a_file_cut_anywhere_is_refused(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("cut") / "x.safetensors"
    save_arrays(path, {"a": np.arange(5)}, {"kind": "test"})
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    with pytest.raises(FormatError):
        load_arrays(path)


@given(st.data())
def test_a_changed_byte_never_passes_unseen(tmp_path_factory: Any, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("flip") / "x.safetensors"
    save_arrays(path, {"a": np.arange(5)}, {"kind": "test"})
    content = bytearray(path.read_bytes())
    content[-data.draw(st.integers(1, 40))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(FormatError, match="changed after saving"):
        load_arrays(path)


def test_a_failed_run_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with RunDir.create(tmp_path / "run") as part:
            (part.path / "half").write_text("x")
            raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_only_the_last_two_checkpoints_are_kept(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    for step in (5, 10, 15):
        run.save_checkpoint(step, {"a": np.array([step])}, {})
    assert [path.name for path in run.checkpoints()] == ["000010", "000015"]
    loaded = run.load_checkpoint()
    assert loaded is not None
    assert loaded[0]["a"].tolist() == [15]


def test_a_log_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    run = RunDir(tmp_path)
    for step in range(3):
        run.log({"event": "report", "step": step})
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"event": "rep')
    assert [event["step"] for event in run.events()] == [0, 1, 2]
    run.cut_log(1)
    assert [event["step"] for event in run.events()] == [0, 1]
