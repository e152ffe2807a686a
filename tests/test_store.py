"""Model files and the arrays in them: opened without reading, refused when damaged, never left half-written."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from ostinato.core.arrays import ArrayFile, new_array_file, open_arrays
from ostinato.core.errors import ConfigError, FormatError, StorageError
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram import counts as counting
from ostinato.ngram import store, workspace
from ostinato.ngram.counts import count
from ostinato.ngram.estimate import write_arpa_only, write_model
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.store import Label, is_model_file, open_model, save_model
from ostinato.ngram.workspace import Workspace, parse_memory
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import make_tokeniser

PIPELINE = Pipeline(Normaliser(("nfc", "lower")), make_tokeniser("word"))
VOCABULARY = Vocabulary(["天", "地", *(f"w{number}" for number in range(50))])


def text(seed: int = 0, tokens: int = 3000) -> np.ndarray:
    generator = np.random.default_rng(seed)
    ids = np.minimum(generator.zipf(1.4, tokens), 50) + 1
    ids[generator.integers(0, tokens, tokens // 8)] = VOCABULARY.stop
    ids[-1] = VOCABULARY.stop
    return ids


def model(order: int = 3) -> NGramModel:
    return NGramModel(smoothings["modified-kneser-ney"]().fit(count(text(), VOCABULARY, order)), VOCABULARY)


def test_array_files_are_safetensors_and_are_mapped(tmp_path: Path):
    arrays = {"a": np.arange(5, dtype=np.uint8), "b": np.ones((2, 3)), "c": np.zeros(0, np.int32), "d": np.arange(7)}
    with new_array_file(tmp_path / "x") as file:
        for name, array in arrays.items():
            file.add(name, array)
        file.finish({"kind": "test", "says": "天"})
    found, about = open_arrays(tmp_path / "x")
    assert (about["kind"], about["says"]) == ("test", "天")
    other = load_file(tmp_path / "x")
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(other[name], array)
        assert not found[name].flags.writeable or not array.size
        assert found[name].flags.aligned


def test_parts_of_an_array_are_written_in_any_order(tmp_path: Path):
    values = np.arange(100, dtype=np.int32)
    with new_array_file(tmp_path / "x") as file:
        place = file.reserve("values", "<i4", (100,))
        file.add("more", np.ones(3, np.uint8))
        for begin in (60, 0, 30):
            file.write(place + 4 * begin, values[begin : begin + (40 if begin == 60 else 30)])
        np.testing.assert_array_equal(file.map("values"), values)
        file.finish({})
    np.testing.assert_array_equal(open_arrays(tmp_path / "x")[0]["values"], values)


@pytest.mark.parametrize("name", ["modified-kneser-ney", "absolute", "witten-bell", "good-turing"])
@pytest.mark.parametrize("small", [True, False])
def test_a_model_written_as_it_is_smoothed_is_the_model_made_in_memory(
    name: str, small: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if not small:
        monkeypatch.setattr(counting, "SMALL", 0)
    monkeypatch.setattr(workspace, "IN_FILES", 0)
    monkeypatch.setattr(workspace, "resident", lambda: 1 << 40)
    smoothing, counts = smoothings[name](), count(text(), VOCABULARY, 4)
    expected = NGramModel(smoothing.fit(counts), VOCABULARY)
    bounded = count(text(), VOCABULARY, 4, space=Workspace(workspace.LEAST, tmp_path))
    label = Label(VOCABULARY, PIPELINE, {"regime": "sentence"})
    written = write_model(bounded, smoothing, label, tmp_path / "m", arpa=str(tmp_path / "a.arpa"))
    np.testing.assert_array_equal(written.table.rows, expected.table.rows)
    assert written.table.metadata() == expected.table.metadata()
    stored = open_model(tmp_path / "m", check=True)
    assert (stored.pipeline, stored.about["regime"]) == (PIPELINE, "sentence")
    assert stored.model.vocabulary.pieces == VOCABULARY.pieces
    if name in ("modified-kneser-ney", "absolute"):
        write_arpa_only(bounded, smoothing, label, str(tmp_path / "b.arpa"))
        assert (tmp_path / "a.arpa").read_bytes() == (tmp_path / "b.arpa").read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("many", [1, 1 << 15])
def test_text_is_looked_up_alike_with_a_table_in_the_file_and_without(
    many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(store, "MANY", many)
    save_model(tmp_path / "m", model(), PIPELINE)
    stored = open_model(tmp_path / "m")
    assert bool(stored.words) == (many == 1)
    ids, ends = stored.encoder().ids("w3 天 nothing </s>\n\nw7".encode())
    expected = [*VOCABULARY.ids(["w3", "天", "nothing", "</s>"]), 1, 1, *VOCABULARY.ids(["w7"]), 1]
    assert (ids.tolist(), ends.tolist()) == (expected, [5, 6, 8])


def test_every_cut_and_every_changed_byte_is_noticed(tmp_path: Path):
    save_model(tmp_path / "m", model(2), PIPELINE)
    whole = (tmp_path / "m").read_bytes()
    assert is_model_file(tmp_path / "m")
    for size in (0, 5, 9, 100, 1 << 15, len(whole) - 1):
        (tmp_path / "cut").write_bytes(whole[:size])
        with pytest.raises(FormatError, match="cut"):
            open_model(tmp_path / "cut")
    padding: list[int] = []
    rows = open_model(tmp_path / "m").model.table.arrays()["rows"]
    for place in [*range(0, 400, 7), *range(1 << 16, len(whole), 997)]:
        changed = bytearray(whole)
        changed[place] ^= 4
        (tmp_path / "changed").write_bytes(changed)
        try:
            stored = open_model(tmp_path / "changed")
        except FormatError:
            continue
        padding.append(place)  # bytes between arrays, and blanks after the header, mean nothing
        np.testing.assert_array_equal(stored.model.table.arrays()["rows"], rows)
    assert len(padding) < 3


def test_what_is_not_a_model_file_is_refused(tmp_path: Path):
    (tmp_path / "text").write_text("not a model\n")
    assert not is_model_file(tmp_path / "text")
    for path in (tmp_path / "text", tmp_path / "nothing", tmp_path):
        with pytest.raises(FormatError, match=str(path)):
            open_model(path)
    with new_array_file(tmp_path / "other") as file:
        file.finish({"kind": "lstm"})
    with pytest.raises(FormatError, match="not a model of ours"):
        open_model(tmp_path / "other")


def test_a_vocabulary_changed_in_an_unchecked_file_is_noticed_when_it_is_read(tmp_path: Path):
    save_model(tmp_path / "m", model(2), PIPELINE)
    content = (tmp_path / "m").read_bytes()
    (tmp_path / "m").write_bytes(content.replace(b"w41\n", b"x41\n"))
    vocabulary = open_model(tmp_path / "m", check=False).model.vocabulary
    assert vocabulary.outputs == VOCABULARY.outputs
    with pytest.raises(FormatError, match="changed after saving"):
        vocabulary.ids(["w1"])


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StorageError, match="no space left"):
        save_model(tmp_path / "m", model(), PIPELINE)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(StorageError, match="no space left"):
        Workspace(1 << 30, tmp_path).empty(1 << 20, np.int32)
    assert not list(tmp_path.iterdir())


def test_a_workspace_gives_pages_back_without_losing_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    space = Workspace(workspace.LEAST, tmp_path)
    array = space.empty(1 << 20, np.int32)
    array[:] = np.arange(1 << 20)
    monkeypatch.setattr(workspace, "resident", lambda: 1 << 40)
    space.relieve()
    np.testing.assert_array_equal(array, np.arange(1 << 20))
    assert not space.zeros(1 << 20, np.int64).any()
    assert not space.zeros(3, np.int64).any()
    assert not list(tmp_path.iterdir())  # its files have no names, so that nothing is left even by a kill


def test_sizes_of_memory_are_read_as_people_write_them():
    assert [parse_memory(text) for text in ("2G", "1.5g", "500M", "300000K", "200000000", None)] == [
        2 << 30,
        3 << 29,
        500 << 20,
        300000 << 10,
        200000000,
        None,
    ]
    for text in ("", "much", "2T", "-"):
        with pytest.raises(ConfigError, match="is not a size"):
            parse_memory(text)
    with pytest.raises(ConfigError, match="too small"):
        Workspace(1000)


def test_a_header_too_long_for_its_place_is_refused(tmp_path: Path):
    file = ArrayFile(tmp_path / "x")
    with pytest.raises(FormatError, match="does not fit"):
        file.finish({"notes": "x" * (1 << 16)})
    file.close()


@pytest.mark.parametrize("name", ["modified-kneser-ney", "kneser-ney-backoff", "absolute", "witten-bell"])
def test_the_mass_of_unseen_words_is_shared_out_as_asked(name: str):
    """Order 1 of "w0 w0 w1": what it frees goes to all words alike, to <unk> alone, or to all but <unk>."""
    ids, vocabulary = np.array([2, 2, 3, 1]), Vocabulary(["w0", "w1", "w2"])
    seen: dict[str, np.ndarray] = {}
    for unknown in ("kenlm", "srilm", "closed"):
        table = smoothings[name]().fit(replace(count(ids, vocabulary, 1), unknown=unknown))
        p = np.exp(table.log_prob().astype(np.float64))[1:-1]
        assert p.sum() == pytest.approx(1, abs=1e-6)
        seen[unknown] = p  # <unk>, </s>, w0, w1, w2
    assert seen["kenlm"][0] == pytest.approx(seen["kenlm"][4])
    assert (seen["srilm"][4], seen["closed"][0]) == (0, 0)
    if name == "kneser-ney-backoff":
        assert seen["srilm"][0] == pytest.approx(2 * seen["kenlm"][0])
    else:
        assert seen["srilm"][0] == pytest.approx(5 * seen["kenlm"][0])
    assert seen["closed"][4] > seen["kenlm"][4]


def test_other_smoothings_refuse_to_share_it_out_otherwise(tmp_path: Path):
    counts = replace(count(text(), VOCABULARY, 2), unknown="srilm")
    with pytest.raises(ConfigError, match="is for witten-bell"):
        write_model(counts, smoothings["mle"](), Label(VOCABULARY, PIPELINE, {}), tmp_path / "m")
