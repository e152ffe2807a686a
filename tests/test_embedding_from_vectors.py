"""Language models whose embedding begins with word vectors: what is copied, what is held, and what is refused."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpus import write
from ostinato.cli.app import run as cli
from ostinato.core.errors import ConfigError, DataError, FormatError
from ostinato.embed.files import write_vectors
from ostinato.embed.subwords import Subwords
from ostinato.embed.vectors import Vectors
from ostinato.kernels import simd
from ostinato.nn.networks import networks
from ostinato.nn.options import LSTMOptions
from ostinato.runs import RunDir
from ostinato.tasks.language import build
from ostinato.tasks.language.inspect import describe
from ostinato.tasks.language.learner import make_network
from ostinato.tasks.language.load import load
from ostinato.tasks.language.word_vectors import FILE, Known
from ostinato.tasks.options import KINDS, Config, ModelOptions
from ostinato.text.corpora import Corpus
from ostinato.text.options import DataOptions
from ostinato.train.flat import Flat
from ostinato.train.optimise import Optimiser
from ostinato.train.options import TrainOptions
from stopping import stopped_at

SIZE = 10
ENGINES = ["fp32", pytest.param("bf16", marks=pytest.mark.skipif(not simd.HAS_BF16, reason="no bfloat16 here"))]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a text, and vectors for all of its words but the most frequent one."""
    home = tmp_path_factory.mktemp("home")
    text = write(home / "text.txt").read_text("utf8").split()
    words = sorted(set(text), key=lambda word: -text.count(word))
    rows = np.random.default_rng(1).normal(0, 0.3, (len(words), SIZE)).astype(np.float32)
    Vectors(["elsewhere", *words[1:]], rows).save(home / "vectors")
    return home


def config(home: Path, model: Any = None, **train: Any) -> Config:
    options: dict[str, Any] = {"epochs": 2, "rows": 8, "bptt": 5, "threads": 1, "learning_rate": 0.02, **train}
    chosen: dict[str, Any] = {"kind": "lstm", "hidden": 12, "vectors": str(home / "vectors"), **(model or {})}
    return Config(
        DataOptions(text=(str(home / "text.txt"),), tokeniser="blank", min_count=1, holdout=0.1),
        ModelOptions(**chosen),
        TrainOptions(**{"precision": "fp32", **options}),
    )


def embedded(run: RunDir) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The embedding of a trained run, the ids that have a vector, and the vectors."""
    loaded = load(run.path)
    vectors = Vectors.load(Path(str(build.load_config(run).model.vectors)))
    pieces = loaded.vocabulary.pieces
    ids = np.array([place for place, piece in enumerate(pieces) if piece in vectors])
    matrix = run.load_model()[0]["embedding.weight"]
    return matrix, ids, vectors.rows([pieces[place] for place in ids])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "ngram"])
def test_every_kind_begins_with_the_vectors_of_the_words_that_have_one(home: Path, tmp_path: Path, kind: str) -> None:
    plan = config(home, {"kind": kind})
    notes: list[str] = []
    made = build.prepare_run(plan, tmp_path / "run", build.Callbacks(note=notes.append))
    assert made.model.embedding == SIZE
    corpus = Corpus.open(tmp_path / "run" / "data")
    known = Known.load(tmp_path / "run" / "data")
    drawn, network = make_network(made, corpus), make_network(made, corpus)
    known.put_into(network, hold=False)
    vectors = Vectors.load(home / "vectors")
    for place, piece in enumerate(corpus.vocabulary.pieces):
        row = network.embedding.weight[place].detach().numpy()
        if piece in vectors:
            np.testing.assert_array_equal(row, vectors.vector(piece))
        else:
            np.testing.assert_array_equal(row, drawn.embedding.weight[place].detach().numpy())
    words = (home / "text.txt").read_text("utf8").split()
    assert re.fullmatch(
        rf".*vectors: vectors for {len(set(words)) - 1} of {len(set(words))} words of the vocabulary "
        rf"\(\d+\.\d%\), \d+\.\d% of the training text",
        notes[0],
    )


def test_the_coverage_counts_words_and_running_words() -> None:
    known = Known(np.array([2, 4]), np.zeros((2, 3), np.float32), 3, "w")
    counts = np.array([5, 100, 20, 10, 15])  # unknown, stop, and three words
    assert (
        known.coverage(counts, stop=1)
        == "w: vectors for 2 of 3 words of the vocabulary (66.7%), 70.0% of the training text"
    )


HARD: list[dict[str, Any]] = [
    {},
    {"weight_decay": 0.3},
    {"optimiser": "adam", "weight_decay": 0.3, "clip": "value", "clip_at": 0.01},
    {"optimiser": "sgd", "learning_rate": 0.5, "momentum": 0.9, "weight_decay": 0.1},
    {"average": "tail", "average_after": 1, "accumulate": 2, "weight_decay": 0.1},
]


@pytest.mark.parametrize("precision", ENGINES)
@pytest.mark.parametrize("train", HARD, ids=str)
def test_vectors_that_are_held_do_not_move_and_the_others_do(
    home: Path, tmp_path: Path, precision: str, train: dict[str, Any]
) -> None:
    run = build.train(config(home, {"frozen": True}, **{"precision": precision, **train}), tmp_path / "run")
    engine = run.events()[0]["engine"]
    assert engine.startswith("own kernels" if precision == "bf16" else "torch float32")
    matrix, ids, rows = embedded(run)
    np.testing.assert_array_equal(matrix[ids], rows)
    made = build.load_config(run)
    drawn = make_network(made, Corpus.open(run.path / "data")).embedding.weight.detach().numpy()
    others = np.setdiff1d(np.arange(len(matrix) - 1), ids)  # the padding is never read
    assert len(others) >= 3
    assert (np.abs(matrix[others] - drawn[others]).max(axis=1) > 1e-4).sum() >= 2  # the unknown word is never read here
    assert "head.weight" in run.load_model()[0]
    assert load(run.path).about["options"]["tied"] is False


@pytest.mark.parametrize("precision", ENGINES)
def test_vectors_that_are_not_held_are_learnt_on_and_may_be_tied(home: Path, tmp_path: Path, precision: str) -> None:
    run = build.train(config(home, precision=precision), tmp_path / "run")
    matrix, ids, rows = embedded(run)
    assert (np.abs(matrix[ids] - rows).max(axis=1) > 1e-3).all()
    assert (np.abs(matrix[ids] - rows).max(axis=1) < 1).all()
    assert load(run.path).about["options"]["tied"] is True


def test_nplm_holds_them_too(home: Path, tmp_path: Path) -> None:
    matrix, ids, rows = embedded(build.train(config(home, {"kind": "nplm", "frozen": True}), tmp_path / "run"))
    np.testing.assert_array_equal(matrix[ids], rows)


def test_a_gradient_of_held_rows_counts_nowhere() -> None:
    torch.manual_seed(1)
    network = networks["lstm"](6, LSTMOptions(hidden=4, embedding=3, tied=False))
    network.begin_with(torch.tensor([2, 5]), torch.ones(2, 3), hold=True)
    flat = Flat(network)
    optimiser = Optimiser(flat, TrainOptions(weight_decay=0.5))
    gradient = network.embedding.weight.grad
    assert gradient is not None
    gradient.fill_(1)
    assert optimiser.norms()[0] == pytest.approx(((8 - 2) * 3) ** 0.5)
    optimiser.step(0.1)
    weights = network.embedding.weight.detach()
    assert (weights[[2, 5]] == 1).all()
    assert not (weights[[0, 1, 3, 4, 6, 7]] == 1).any()
    network.begin_with(torch.tensor([2]), torch.zeros(1, 3))
    assert network.held == {}


def test_a_run_needs_the_file_no_more_and_goes_on_to_the_same_bits(home: Path, tmp_path: Path) -> None:
    shutil.copytree(home / "vectors", tmp_path / "vectors")
    plan = config(home, {"frozen": True, "vectors": str(tmp_path / "vectors")}, weight_decay=0.1, checkpoint_every=5)
    whole = build.train(plan, tmp_path / "whole")
    with stopped_at(7):
        build.train(plan, tmp_path / "run")
    shutil.rmtree(tmp_path / "vectors")
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    shutil.rmtree(tmp_path / "killed" / "checkpoints")  # killed before there was one
    for name in ("run", "killed"):
        run = build.resume(tmp_path / name)
        ours, theirs = run.load_model()[0], whole.load_model()[0]
        assert ours.keys() == theirs.keys()
        for key, array in ours.items():
            np.testing.assert_array_equal(array, theirs[key])
    (tmp_path / "killed" / "data" / FILE).unlink()
    shutil.rmtree(tmp_path / "killed" / "checkpoints")
    with pytest.raises(FormatError, match=re.escape(FILE)):
        build.resume(tmp_path / "killed")


def test_files_folders_and_runs_of_vectors_are_the_same(home: Path, tmp_path: Path) -> None:
    vectors = Vectors.load(home / "vectors")
    write_vectors(vectors, tmp_path / "text.vec", "word2vec-text")
    write_vectors(vectors, tmp_path / "binary.bin.gz", "word2vec-binary")
    write_vectors(vectors, tmp_path / "glove.txt", "glove")
    vectors.save(tmp_path / "run" / "vectors")
    for name in ("text.vec", "binary.bin.gz", "glove.txt", "run"):
        build.prepare_run(config(home, {"vectors": str(tmp_path / name)}), tmp_path / f"made {name}", build.Callbacks())
        known = Known.load(tmp_path / f"made {name}" / "data")
        pieces = Corpus.open(tmp_path / f"made {name}" / "data").vocabulary.pieces
        np.testing.assert_array_equal(known.rows, vectors.rows([pieces[place] for place in known.ids]))


def test_small_letters_and_n_grams_stand_in_for_words_without_a_vector_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("The cat sat\nthe cats sat\n" * 100)
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    Vectors(["the", "cat"], rows).save(tmp_path / "plain")
    grams = np.random.default_rng(1).random((20, 3), np.float32)
    with_grams = Vectors(["the", "cat"], rows, subwords=Subwords(3, 3, 20), subword_array=grams)
    with_grams.save(tmp_path / "grams")
    found = {}
    for name in ("plain", "grams"):
        plan = config(tmp_path, {"vectors": str(tmp_path / name)})
        build.prepare_run(plan, tmp_path / f"run {name}", build.Callbacks())
        known = Known.load(tmp_path / f"run {name}" / "data")
        pieces = Corpus.open(tmp_path / f"run {name}" / "data").vocabulary.pieces
        found[name] = {pieces[place]: row for place, row in zip(known.ids, known.rows, strict=True)}
    assert found["plain"].keys() == {"The", "the", "cat"}
    np.testing.assert_array_equal(found["plain"]["The"], rows[0])
    assert found["grams"].keys() == {"The", "the", "cat", "cats", "sat"}
    np.testing.assert_array_equal(found["grams"]["cats"], with_grams.vector("cats"))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"embedding": 7}, "its vectors have 10 numbers, but model.embedding is 7; leave model.embedding out"),
        ({"kind": "nplm", "embedding": 64}, "its vectors have 10 numbers, but model.embedding is 64"),
        ({"frozen": True, "tied": True}, "model.frozen would hold the output layer too, since model.tied"),
        ({"frozen": True, "vectors": None}, "model.frozen holds what model.vectors gives"),
        ({"kind": "ngram", "hidden": None}, "model.vectors does not apply to ngram; it is for nplm, rnn"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_name_and_leaves_nothing(
    home: Path, tmp_path: Path, model: dict[str, Any], message: str
) -> None:
    plan = config(home, model)
    plan = replace(plan, train=TrainOptions()) if plan.model.kind == "ngram" else plan
    with pytest.raises(ConfigError, match=message):
        build.train(plan, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_vectors_of_other_words_or_none_are_refused(home: Path, tmp_path: Path) -> None:
    Vectors(["anders", "wo"], np.ones((2, 3), np.float32)).save(tmp_path / "v")
    with pytest.raises(DataError, match=r"none of the \d+ words of the vocabulary has a vector there"):
        build.train(config(home, {"vectors": str(tmp_path / "v")}), tmp_path / "run")
    with pytest.raises(DataError, match=r"nothing\.bin: no such file"):
        build.train(config(home, {"vectors": str(tmp_path / "nothing.bin")}), tmp_path / "run")
    with pytest.raises(DataError, match=r"text\.txt: "):
        build.train(config(home, {"vectors": str(home / "text.txt")}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_on_the_command_line(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("train", "--text", home / "text.txt", "--data.tokeniser", "blank", "--data.min-count", "1")
    more = ("--model.hidden", "8", "--train.epochs", "1", "--train.rows", "8", "--train.threads", "1")
    vectors = ("--model.vectors", home / "vectors", "--model.frozen", "--run-dir", tmp_path / "run")
    assert cli([*map(str, (*words, *more, *vectors))]) == 0
    said = capsys.readouterr().err
    assert re.search(r"vectors: vectors for \d+ of \d+ words of the vocabulary", said)
    options = describe(tmp_path / "run")["options"]
    assert (options["model.vectors"], options["model.frozen"]) == (str(home / "vectors"), True)
    assert (options["model.embedding"], options["model.tied"]) == (SIZE, False)
    assert cli(["doctor", str(tmp_path / "run")]) in (0, 3)  # an epoch of so few words may have its faults
    assert "frozen" not in capsys.readouterr().out
    assert cli(["resume", str(tmp_path / "run")]) == 0
