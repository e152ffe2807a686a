"""Which epoch's weights a classifier keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from classification_toys import config, write
from ostinato.nn.classifier import Classifier
from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.classification.encoding import Encoded
from ostinato.tasks.classification.learner import ClassificationLearner
from ostinato.tasks.classification.options import TrainOptions
from ostinato.tasks.language.build import Callbacks
from stopping import stopped_at

EPOCHS = 4


def trained(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> tuple[RunDir, list[bytes]]:
    """A run whose first epoch is the best, and its weights after every epoch."""
    seen: list[bytes] = []
    numbers = np.array([])
    made = ClassificationLearner.__init__

    def luck(network: Classifier, texts: Encoded, *rest: Any) -> tuple[Any, list[Any]]:
        """Right answers after the first epoch, none later."""
        seen.append(weights(network))
        right = np.eye(network.labels)[numbers]
        return np.log(0.9 * (right if len(seen) == 1 else 1 - right) + 0.01), []

    def known(self: ClassificationLearner, *given: Any) -> None:
        nonlocal numbers
        made(self, *given)
        numbers = self.valid_numbers

    monkeypatch.setattr(ClassificationLearner, "__init__", known)
    monkeypatch.setattr("ostinato.tasks.classification.learner.judged", luck)
    plan = config(write(folder / "train"), epochs=EPOCHS, **options)
    return working.train("classification", plan, folder / "run", Callbacks()), seen


def weights(network: Classifier) -> bytes:
    return b"".join(tensor.numpy().tobytes() for tensor in network.state_dict().values())


def kept(run: RunDir) -> bytes:
    loaded: Any = working.load(run.path)
    return weights(loaded.network)


@pytest.mark.parametrize(("keep", "epoch"), [("best", 0), ("last", EPOCHS - 1)])
def test_the_weights_of_the_best_or_of_the_last_epoch_are_kept(
    keep: str, epoch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, seen = trained(tmp_path, monkeypatch, keep=keep)
    assert len(seen) == EPOCHS
    assert kept(run) == seen[epoch]


def test_the_last_epoch_is_kept_after_a_stop_too(tmp_path: Path) -> None:
    """The loop's own best, which it carries on, is that of an epoch before."""
    plan = config(write(tmp_path / "train"), epochs=EPOCHS, keep="last")
    whole = working.train("classification", plan, tmp_path / "whole", Callbacks())
    with stopped_at(31):  # in the third of the epochs, of 14 updates
        working.train("classification", plan, tmp_path / "parts", Callbacks())
    assert kept(working.resume(tmp_path / "parts", Callbacks())) == kept(whole)


def test_the_average_of_the_tail_is_what_is_kept_of_the_last_epoch(tmp_path: Path) -> None:
    plan = config(write(tmp_path / "train"), epochs=EPOCHS, keep="last")
    averaged = config(tmp_path / "train", epochs=EPOCHS, keep="last", average="tail", average_after=2)
    one, other = (
        working.train("classification", options, tmp_path / name, Callbacks())
        for name, options in (("plain", plan), ("averaged", averaged))
    )
    assert kept(one) != kept(other)
    arrays, _ = other.load_checkpoint() or ({}, {})
    assert any(name.startswith("average") for name in arrays)


@pytest.mark.parametrize(
    "given",
    [{"patience": 2}, {"validate_every": 9}, {"schedule": "plateau"}, {"average": "nt-asgd"}],
)
def test_what_compares_epochs_is_refused_where_the_last_is_kept(given: dict[str, Any]) -> None:
    TrainOptions(**given)
    name = "|".join(given)
    with pytest.raises(ValueError, match=f"keep last compares no epochs, which {name}"):
        TrainOptions(keep="last", **given)


def test_the_progress_bar_tells_no_best_accuracy_where_none_is_looked_for(tmp_path: Path) -> None:
    notes: dict[str, str] = {}
    for keep in ("best", "last"):
        told: list[str] = []
        plan = config(write(tmp_path / "train"), epochs=2, keep=keep)
        watch = Callbacks(watch=lambda progress, told=told: told.append(progress.note))  # type: ignore[misc]
        working.train("classification", plan, tmp_path / keep, watch)
        notes[keep] = told[-1]
    assert "best valid accuracy" in notes["best"]
    assert "best" not in notes["last"]
