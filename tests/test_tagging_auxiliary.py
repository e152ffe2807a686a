"""Auxiliary columns: learnt beside the labels, and gone from what is kept, said and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ostinato.core.errors import ConfigError, OstinatoError
from ostinato.runs import RunDir, load_arrays
from ostinato.tasks import working
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.tagging.options import DataOptions
from ostinato.tasks.tagging.task import TASK as TAGGING
from ostinato.tasks.task import PredictOptions
from stopping import stopped_at
from tagging_toys import config, conllu, loaded, sentences, trained, write

DATA: dict[str, Any] = {"auxiliary": ("xpos", "6")}


def with_others(text: str) -> str:
    """CoNLL-U whose xpos is the word's last letter, its head the length of the word."""
    found = []
    for line in text.split("\n"):
        fields = line.split("\t")
        if fields[0].isdecimal():
            fields[4], fields[6] = fields[1][-1], str(len(fields[1]))
        found.append("\t".join(fields))
    return "\n".join(found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("auxiliary")


@pytest.fixture(scope="module")
def train(folder: Path) -> str:
    return write(folder / "train", with_others(conllu(sentences())))


@pytest.fixture(scope="module")
def run(folder: Path, train: str) -> RunDir:
    notes: list[str] = []
    data = {**DATA, "test": (write(folder / "test", conllu(sentences(20, seed=1))),)}  # which has no xpos
    made = trained(config(train, data, epochs=10), folder / "run", notes)
    assert "auxiliary column xpos: 8 labels" in " ".join(notes)
    return made


def test_the_model_keeps_none_of_it_and_answers(run: RunDir, folder: Path) -> None:
    arrays, about = load_arrays(run.path / "model.safetensors")
    assert not any("auxiliary" in name for name in arrays)
    assert sum(array.size for array in arrays.values()) == about["parameters"]
    text = conllu(sentences(20, seed=1))
    answers = loaded(run).predict(write(folder / "asked", text), PredictOptions())
    said = "".join(f"{sentence}\n" for sentence in answers)
    assert said.count("\n") == text.count("\n")
    alike = [one == other for one, other in zip(said.split("\n"), text.split("\n"), strict=True)]
    assert np.mean(alike) > 0.95


def test_the_loss_told_is_that_of_the_labels_and_the_gradient_that_of_all(run: RunDir, train: str) -> None:
    plan = loaded(run).config
    learner = TAGGING.learner(plan, run.path / "data")
    network, rows = learner.network.eval(), np.array([5, 0, 7])
    assert [layer.out_features for layer in network.auxiliary] == [8, 5]
    loss = learner.loss(rows)
    loss.backward()  # type: ignore[no-untyped-call]
    found = {name: part.grad.clone() for name, part in network.named_parameters() if part.grad is not None}
    network.zero_grad()
    kept, learner.auxiliary = learner.auxiliary, []
    plain = learner.loss(rows)
    torch.testing.assert_close(plain, loss.detach())
    words = [len(learner.train.sentences[row]) for row in rows]
    batch_loss = plain
    outputs: list[torch.Tensor] = []
    hook = network.output.register_forward_pre_hook(lambda _, given: outputs.append(given[0]))
    batch_loss = learner.loss(rows)
    hook.remove()
    for layer, numbers in zip(network.auxiliary, kept, strict=True):
        for place, row in enumerate(rows):
            judged = layer(outputs[0][place, : words[place]])
            labels = torch.from_numpy(numbers[row])
            batch_loss = batch_loss + nn.functional.cross_entropy(judged, labels, reduction="sum")
    batch_loss.backward()  # type: ignore[no-untyped-call]
    for name, part in network.named_parameters():
        if part.grad is not None:
            torch.testing.assert_close(found[name], part.grad, rtol=1e-4, atol=1e-5)


def test_the_weight_scales_what_the_columns_add(train: str, folder: Path) -> None:
    def gradient(weight: float) -> torch.Tensor:
        plan = config(train, DATA, {"auxiliary_weight": weight, "dropout": 0.0, "hidden_rare": 0.0}, epochs=1)
        path = folder / f"weight-{weight}"
        learner = TAGGING.learner(plan, trained(plan, path).path / "data")
        learner.loss(np.arange(6)).backward()  # type: ignore[no-untyped-call]
        grad = learner.network.embedding.weight.grad
        assert grad is not None
        return grad

    nothing, once, twice = (gradient(weight) for weight in (1e-9, 1.0, 2.0))
    torch.testing.assert_close(twice - nothing, 2 * (once - nothing), rtol=1e-3, atol=1e-5)
    assert (once - nothing).abs().max() > 1e-3


@pytest.mark.parametrize("stop_at", [3, 12])
def test_training_stopped_and_resumed_is_training_uninterrupted(stop_at: int, train: str, tmp_path: Path) -> None:
    plan = config(train, DATA, {"output": "crf", "dropout": 0.3}, epochs=2)
    whole = trained(plan, tmp_path / "whole")
    with stopped_at(stop_at):
        trained(plan, tmp_path / "parts")
    again = working.resume(tmp_path / "parts", Callbacks())
    assert (again.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


def test_a_column_that_says_nothing_is_named(train: str, tmp_path: Path) -> None:
    notes: list[str] = []
    plan = config(train, {"auxiliary": ("deps", "xpos")}, epochs=1)
    run = trained(plan, tmp_path / "run", notes)
    assert "auxiliary column deps: 1 label, so it teaches nothing" in " ".join(notes)
    learner = TAGGING.learner(plan, run.path / "data")
    assert [layer.out_features for layer in learner.network.auxiliary] == [8]
    assert len(learner.auxiliary) == 1


def test_none_takes_back_what_a_file_asks_for(train: str, tmp_path: Path) -> None:
    with_none = trained(config(train, {"auxiliary": ("none",)}, epochs=1), tmp_path / "none")
    without = trained(config(train, epochs=1), tmp_path / "without")
    weights = [(run.path / "model.safetensors").read_bytes() for run in (with_none, without)]
    assert weights[0] == weights[1]
    DataOptions(unit="character", auxiliary=("none",))


@pytest.mark.parametrize(
    ("auxiliary", "message"),
    [
        (("upos",), "auxiliary upos is the column of the labels"),
        (("3",), "auxiliary 3 is the column of the labels"),
        (("posx",), "unknown column of CoNLL-U 'posx'"),
        (("1",), "column 1 holds the words themselves"),
        (("44",), "column 44 of 10"),
    ],
)
def test_columns_that_cannot_be_auxiliary_are_refused(
    auxiliary: tuple[str, ...], message: str, train: str, tmp_path: Path
) -> None:
    with pytest.raises(OstinatoError, match=message):
        trained(config(train, {"auxiliary": auxiliary}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="auxiliary columns are labels of words"):
        DataOptions(unit="character", auxiliary=("xpos",))
    with pytest.raises(ValueError, match="names a column twice"):
        DataOptions(auxiliary=("xpos", "xpos"))
    with pytest.raises((ValueError, ConfigError)):
        config("x", model={"auxiliary_weight": 0.0})
