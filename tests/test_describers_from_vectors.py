"""Translators and captioners whose words begin with word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import captioning_toys
import translation_toys
from ostinato.core.config import build
from ostinato.core.errors import ConfigError, DataError
from ostinato.core.vocabulary import Vocabulary
from ostinato.embed.vectors import Vectors
from ostinato.runs import load_arrays
from ostinato.tasks.translation.options import ModelOptions
from ostinato.tasks.translation.task import TASK

SOURCE, TARGET = "encoder.embedding.weight", "decoder.embedding.weight"
SIZE = 20


def made(folder: Path, words: list[str], size: int = SIZE) -> str:
    """Vectors of these words, in a folder."""
    array = np.random.default_rng(3).normal(0, 0.4, (len(words), size)).astype(np.float32)
    Vectors(words, array).save(folder)
    return str(folder)


def rows_of(vocabulary: Vocabulary, vectors: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The ids whose words have a vector, and these."""
    found = Vectors.load(vectors)
    known = [(number, found.get(piece)) for number, piece in enumerate(vocabulary.pieces)]
    ids, rows = zip(*[(number, row) for number, row in known if row is not None], strict=True)
    return np.array(ids), np.stack(rows)


@pytest.fixture
def pairs(tmp_path: Path) -> tuple[str, str]:
    return translation_toys.parallel(tmp_path, translation_toys.sentences(120))


@pytest.fixture
def words(tmp_path: Path, pairs: tuple[str, str]) -> tuple[str, str]:
    """Vectors for most words of either side."""
    texts = [Path(path).read_text("utf8").lower().split() for path in pairs]
    first, second = (sorted(set(text))[2:] for text in texts)
    return made(tmp_path / "en", first), made(tmp_path / "de", second)


def test_frozen_sources_stay_and_targets_learn(pairs: Any, words: Any, tmp_path: Path) -> None:
    notes: list[str] = []
    data, model = {"normalise": ("lower",), "joint": False}, {"vectors": words[0], "embedding": SIZE}
    run = translation_toys.trained(
        translation_toys.config(pairs, data, {**model, "frozen": True}, epochs=2), tmp_path / "run", notes
    )
    assert any(note.startswith(f"{words[0]}: vectors for ") and "known words" in note for note in notes)
    predictor = translation_toys.loaded(run)
    ids, rows = rows_of(predictor.corpus.source.vocabulary, words[0])
    trained = load_arrays(run.path / "model.safetensors")[0]
    np.testing.assert_array_equal(trained[SOURCE][ids], rows)
    run = translation_toys.trained(
        translation_toys.config(pairs, data, {**model, "target_vectors": words[1]}, epochs=1, learning_rate=1e-9),
        tmp_path / "both",
        notes,
    )
    trained = load_arrays(run.path / "model.safetensors")[0]
    for name, vectors, side in ((SOURCE, words[0], "source"), (TARGET, words[1], "target")):
        ids, rows = rows_of(getattr(translation_toys.loaded(run).corpus, side).vocabulary, vectors)
        np.testing.assert_allclose(trained[name][ids], rows, atol=1e-6)
    run = translation_toys.trained(translation_toys.config(pairs, data, model, epochs=2), tmp_path / "free")
    learnt = load_arrays(run.path / "model.safetensors")[0][SOURCE]
    ids, rows = rows_of(translation_toys.loaded(run).corpus.source.vocabulary, words[0])
    assert np.abs(learnt[ids] - rows).max() > 1e-3


def test_a_stopped_run_with_frozen_words_goes_on_with_them(pairs: Any, words: Any, tmp_path: Path) -> None:
    plan = translation_toys.config(pairs, {"normalise": ("lower",)}, {"vectors": words[0], "frozen": True})
    folder = tmp_path / "data"
    folder.mkdir()
    TASK.prepare(plan, folder, lambda progress: None)
    first, second = (TASK.learner(plan, folder).network for _ in range(2))
    assert not first.get_parameter(SOURCE).requires_grad
    assert first.get_parameter(TARGET).requires_grad
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name])


def test_vectors_of_another_size_are_refused(pairs: Any, words: Any, tmp_path: Path) -> None:
    plan = translation_toys.config(pairs, model={"vectors": words[0], "embedding": 24})
    with pytest.raises(ConfigError, match=r"vectors of 20 numbers, and model.embedding is 24; set it to 20"):
        translation_toys.trained(plan, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ({"frozen": True}, "there are none"),
        ({"shared": True, "vectors": "x", "target_vectors": "y"}, "leave target_vectors out"),
        ({"shared": True, "vectors": "x", "frozen": True}, "frozen would hold the output layer too"),
    ],
)
def test_options_that_contradict_are_refused(model: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        build(ModelOptions, model, "model")


def test_vectors_of_another_language_are_refused(pairs: Any, tmp_path: Path) -> None:
    plan = translation_toys.config(pairs, model={"vectors": made(tmp_path / "zh", ["北京", "很大"])})
    with pytest.raises(DataError, match="vectors for 0 of"):
        translation_toys.trained(plan, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_captions_begin_with_vectors(tmp_path: Path) -> None:
    pictures, notes = captioning_toys.picture_file(tmp_path / "train.npz", 60), []
    captions = np.load(pictures)["captions"].tolist()
    vectors = made(tmp_path / "vectors", sorted(set(" ".join(captions).lower().split())), 16)
    model = {"vectors": vectors, "tied": False, "frozen": True}
    run = captioning_toys.trained(captioning_toys.config(pictures, model=model, epochs=2), tmp_path / "run", notes)
    assert any(note.startswith(f"{vectors}: vectors for ") for note in notes)
    ids, rows = rows_of(captioning_toys.loaded(run).corpus.target.vocabulary, vectors)
    np.testing.assert_array_equal(load_arrays(run.path / "model.safetensors")[0][TARGET][ids], rows)
    with pytest.raises(ValueError, match="frozen would hold the output layer too"):
        captioning_toys.config(pictures, model={"vectors": vectors, "frozen": True})
