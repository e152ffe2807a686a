"""Classifiers that start from a language model or from word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from classification_toys import FILLERS, config, examples, write
from ostinato.core.errors import ConfigError, DataError, MismatchError, OstinatoError
from ostinato.core.vocabulary import Vocabulary
from ostinato.embed.vectors import Vectors
from ostinato.nn.networks import networks
from ostinato.nn.options import KINDS
from ostinato.runs import RunDir
from ostinato.tasks import working
from ostinato.tasks.classification.predict import ClassificationPredictor
from ostinato.tasks.classification.task import TASK as CLASSIFICATION
from ostinato.tasks.language import build
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.language.load import load
from ostinato.tasks.options import Config as LanguageConfig
from ostinato.tasks.options import ModelOptions as LanguageModelOptions
from ostinato.tasks.starting import respread
from ostinato.tasks.words import begin_with, extended, spellings
from ostinato.text.options import DataOptions as TextOptions
from ostinato.train.options import TrainOptions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("start")


@pytest.fixture(scope="module")
def language_model(folder: Path) -> Path:
    text = folder / "text.txt"
    text.write_text("".join(f"{words}\n" for _, words in examples(80, seed=9)))
    data = TextOptions(text=(str(text),), tokeniser="blank", normalise=("nfc", "lower"), min_count=1)
    model = LanguageModelOptions(kind="gru", hidden=10, embedding=6, layers=2)
    options = TrainOptions(epochs=1, rows=8, bptt=9, threads=1)
    return build.train(LanguageConfig(data, model, options), folder / "lm").path


def prepared(plan: Any, folder: Path) -> tuple[Any, list[str]]:
    """The untrained learner of a configuration, and the notes on it."""
    folder.mkdir()
    notes = list(CLASSIFICATION.prepare(plan, folder, lambda progress: None))
    return CLASSIFICATION.learner(plan, folder), notes


FROM_RUN: dict[str, Any] = {"kind": None, "hidden": None}
TAKEN: dict[str, Any] = {"min_count": None, "tokeniser": None}


def test_a_network_begins_with_the_layers_of_a_language_model(language_model: Path, tmp_path: Path) -> None:
    """Its vocabulary, normalisers and tokeniser come along; what the words become is the same in both."""
    plan = config(write(tmp_path / "train"), TAKEN, {**FROM_RUN, "from_run": str(language_model), "dropout": 0.4})
    learner, notes = prepared(plan, tmp_path / "data")
    before: Any = load(language_model).model
    theirs, ours = before.network.state_dict(), learner.network.state_dict()
    shared = [name for name in theirs if name.startswith(("embedding.", "stack."))]
    assert len(shared) > 5
    for name in shared:
        scaled = name in ("embedding.weight", "stack.layers.0.from_input.weight")
        assert scaled or np.array_equal(theirs[name], ours[name]), name
    assert ours["embedding.weight"].std() == pytest.approx(0.1 / 3**0.5)
    assert learner.network.kind == "gru"
    assert learner.network.options.dropout == 0.4
    assert learner.corpus.pipeline.signature == "blank+nfc+lower"
    assert learner.corpus.vocabulary == before.vocabulary
    assert any("knows" in note and "words of the training texts" in note for note in notes)
    ids = learner.corpus.encoder().texts(["WHO was the poet"]).ids[0]
    read, _ = before.read(before.init_state(1), ids[None], np.zeros_like(ids)[None])[1:]
    with torch.no_grad():
        outputs = learner.network.eval().read(torch.from_numpy(ids)[None], torch.tensor([len(ids)]))
        projected = before.network.project(outputs)
    np.testing.assert_allclose(projected.numpy(), read, atol=1e-6)


def test_it_trains_and_answers_without_the_language_model_at_hand(language_model: Path, tmp_path: Path) -> None:
    import shutil

    copy = shutil.copytree(language_model, tmp_path / "lm")
    plan = config(write(tmp_path / "train"), TAKEN, {**FROM_RUN, "from_run": str(copy)}, epochs=8)
    run = working.train("classification", plan, tmp_path / "run", Callbacks())
    shutil.rmtree(copy)
    found = working.load(run.path)
    assert isinstance(found, ClassificationPredictor)
    assert found.evaluate((), lambda progress: None).value > 80
    assert working.resume(run.path, Callbacks()).finished


def test_one_layer_may_get_a_fresh_one_that_reads_from_the_end(folder: Path, tmp_path: Path) -> None:
    data = TextOptions(text=(str(folder / "text.txt"),), tokeniser="blank", min_count=1)
    options = TrainOptions(epochs=1, rows=8, bptt=9, threads=1)
    model = LanguageModelOptions(kind="lstm", hidden=8)
    lm = build.train(LanguageConfig(data, model, options), tmp_path / "lm").path
    both = {**FROM_RUN, "from_run": str(lm), "bidirectional": True}
    learner, _ = prepared(config(write(tmp_path / "train"), TAKEN, both), tmp_path / "data")
    ours, theirs = learner.network.stack.layers[0].state_dict(), load(lm).model.network.stack.layers[0].state_dict()
    assert np.array_equal(ours["from_hidden.weight"], theirs["from_hidden.weight"])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "nplm"])
@pytest.mark.parametrize("more", [{}, {"layers": 2, "skip": True}, {"layers": 2, "residual": True}])
def test_word_vectors_of_another_length_and_layers_that_read_them_say_the_same(kind: str, more: dict[str, Any]) -> None:
    torch.manual_seed(1)
    options: Any = KINDS[kind](hidden=8, embedding=8 if "residual" in more else 6, **more)
    network: Any = networks[kind](9, options).double().eval()
    ids = torch.randint(0, 9, (2, 5))
    before = network.features(network.init_state(2), ids)[0]
    respread(network.embedding.weight, network.stack, 3.0)
    torch.testing.assert_close(network.features(network.init_state(2), ids)[0], before, rtol=0, atol=1e-10)
    assert (network.embedding.weight.std().item() == pytest.approx(3.0)) == ("residual" not in more)


@pytest.mark.parametrize(
    ("data", "model", "message"),
    [
        ({"min_count": 2}, {}, r"data.min_count is taken from .*lm"),
        ({}, {"hidden": 12}, r"model.hidden is 12, but .*lm, which the network starts from, has 10"),
        ({}, {"kind": "lstm"}, "model.kind is lstm"),
        ({}, {"bidirectional": True}, "a bidirectional network can start from one layer only"),
        ({}, {"vectors": "some"}, "not both"),
    ],
)
def test_what_does_not_fit_a_language_model_is_refused(
    data: dict[str, Any], model: dict[str, Any], message: str, language_model: Path, tmp_path: Path
) -> None:
    train, given = write(tmp_path / "train"), {**FROM_RUN, "from_run": str(language_model), **model}
    with pytest.raises((OstinatoError, ValueError), match=message):
        working.train("classification", config(train, {**TAKEN, **data}, given), tmp_path / "run", Callbacks())
    assert not (tmp_path / "run").exists()


def test_a_model_without_layers_or_of_another_language_is_refused(folder: Path, tmp_path: Path) -> None:
    data = TextOptions(text=(str(folder / "text.txt"),), tokeniser="blank", min_count=1)
    ngrams = build.train(LanguageConfig(data, LanguageModelOptions(kind="ngram")), tmp_path / "ngrams").path
    with pytest.raises(MismatchError, match="no recurrent layers to start from"):
        prepared(config(write(tmp_path / "train"), TAKEN, {**FROM_RUN, "from_run": str(ngrams)}), tmp_path / "data")


def vectors(words: list[str], size: int = 4) -> Vectors:
    return Vectors(words, np.arange(1, 1 + len(words) * size, dtype=np.float32).reshape(-1, size))


def test_words_are_looked_up_as_they_are_and_then_more_freely() -> None:
    """The joiner of the tokeniser `word` belongs to no word vector."""
    assert spellings("￭The") == ("￭The", "The", "￭the", "the")
    vocabulary = Vocabulary(["Paris", "THE", "￭,", "zyx"])
    given = vectors(["the", "paris", ",", "Paris"])
    found = begin_with(given, vocabulary, "given", 1)
    assert (found.found, found.pieces) == (3, 4)
    assert str(found) == "given: vectors for 3 of 4 known words (75.0%)"
    for piece, word in (("Paris", "Paris"), ("THE", "the"), ("￭,", ",")):
        np.testing.assert_array_equal(found.rows[vocabulary.ids([piece])[0]], given.vector(word))
    drawn = found.rows[[vocabulary.unknown, vocabulary.start, vocabulary.pad, *vocabulary.ids(["zyx"])]]
    assert drawn.std() == pytest.approx(np.std(given.array[[0, 2, 3]]), rel=0.6)
    np.testing.assert_array_equal(begin_with(given, vocabulary, "given", 1).rows, found.rows)


def test_words_that_only_the_vectors_know_come_behind_those_of_the_text() -> None:
    vocabulary = Vocabulary(["a", "b"])
    more = extended(vocabulary, vectors(["b", "c", "</s>", "d", "e"]), 2)
    assert more.pieces == ("<unk>", "</s>", "a", "b", "c", "d", "<s>", "<pad>")
    assert extended(vocabulary, vectors(["c"]), 0) == vocabulary


@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_vectors_stay_and_others_learn(frozen: bool, tmp_path: Path) -> None:
    given = vectors([*FILLERS, "who", "where", "unheard"], 5)
    given = Vectors(given.words, given.array / 100)
    given.save(tmp_path / "vectors")
    model = {"vectors": str(tmp_path / "vectors"), "frozen": frozen, "more_words": 1}
    notes: list[str] = []
    plan = config(write(tmp_path / "train"), model=model, epochs=1)
    run: RunDir = working.train("classification", plan, tmp_path / "run", Callbacks(note=notes.append))
    assert any("vectors for" in note for note in notes)
    found = working.load(run.path)
    assert isinstance(found, ClassificationPredictor)
    words = found.corpus.vocabulary
    rows = found.network.embedding.weight.detach().numpy()
    assert np.array_equal(rows[words.ids(["who"])[0]], given.vector("who")) == frozen
    assert "unheard" in words
    assert np.array_equal(rows[words.ids(["unheard"])[0]], given.vector("unheard"))
    events = run.events()
    assert (events[0]["held"] == ["embedding.weight"]) == frozen
    assert events[0]["frozen"] == []


def test_vectors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    vectors(["rouge", "vert"]).save(tmp_path / "vectors")
    plan = config(write(tmp_path / "train"), model={"vectors": str(tmp_path / "vectors")})
    with pytest.raises(DataError, match="vectors for 0 of"):
        prepared(plan, tmp_path / "data")
    vectors(["who", "where"]).save(tmp_path / "others")
    plan = config(write(tmp_path / "train"), model={"vectors": str(tmp_path / "others"), "embedding": 7})
    with pytest.raises(ConfigError, match=r"model.embedding is 7, but .*others, .* has 4"):
        prepared(plan, tmp_path / "more")
