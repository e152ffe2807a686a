"""The classification task: what it learns and says, that it is exact, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from classification_toys import config, examples, write
from ostinato.cli import app
from ostinato.cli.tasks import show_report
from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError, OstinatoError
from ostinato.core.progress import unwatched
from ostinato.core.vocabulary import Vocabulary
from ostinato.embed.subwords import Subwords
from ostinato.runs import TASK, RunDir
from ostinato.tasks import inspect, working
from ostinato.tasks.classification.data import Corpus, Labelled
from ostinato.tasks.classification.encoding import Encoder
from ostinato.tasks.classification.options import Config, ModelOptions
from ostinato.tasks.classification.predict import ClassificationPredictor
from ostinato.tasks.classification.task import TASK as CLASSIFICATION
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.task import PredictOptions
from ostinato.text.normalise import Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.tokenise import make_tokeniser
from stopping import stopped_at


def trained(plan: Config, path: Path, notes: list[str] | None = None) -> RunDir:
    return working.train("classification", plan, path, Callbacks(note=[].append if notes is None else notes.append))


def loaded(run: RunDir) -> ClassificationPredictor:
    found = working.load(run.path)
    assert isinstance(found, ClassificationPredictor)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("classification")


@pytest.fixture(scope="module")
def run(folder: Path) -> RunDir:
    """Trained well enough to be right nearly always."""
    data = {"test": (str(write(folder / "test.txt", examples(40, seed=1))),)}
    plan = config(write(folder / "train.txt"), data, {"bidirectional": True, "pooling": ("max", "attention")})
    return trained(plan, folder / "run")


@pytest.fixture(scope="module")
def online(folder: Path) -> RunDir:
    """One direction; it reads the n-grams of words too."""
    model = {"pooling": ("mean",), "subwords": True, "buckets": 100}
    return trained(config(write(folder / "train.txt"), model=model, epochs=2), folder / "online")


def test_it_learns_which_word_decides(run: RunDir) -> None:
    """A label drawn at random is right a third of the time."""
    report = loaded(run).evaluate((), unwatched)
    assert report.measure == "accuracy"
    assert report.value > 95
    assert report.count == 40
    assert "data:test.txt#" in report.signature


def test_the_report_counts_by_hand(run: RunDir, tmp_path: Path) -> None:
    """Labels taken from the run's own answers, two of them then made wrong and one unknown."""
    texts = [text for _, text in examples(20, seed=5)]
    (tmp_path / "texts").write_text("".join(f"{text}\n" for text in texts))
    answers = list(loaded(run).predict(str(tmp_path / "texts"), PredictOptions()))
    rows = list(zip(answers, texts, strict=True))
    others = {"PLACE": "PERSON", "PERSON": "NUMBER", "NUMBER": "PLACE"}
    rows[3], rows[8] = (others[answers[3]], texts[3]), (others[answers[8]], texts[8])
    rows[11] = ("COLOUR", texts[11])
    report = loaded(run).evaluate([str(write(tmp_path / "right.txt", rows))], unwatched)
    assert report.value == pytest.approx(100 * 17 / 20)
    assert report.measures["unknown_labels"] == 1
    unknown = next(table for table in report.tables if "lacks (mistakes)" in table.title)
    assert unknown.rows == (("COLOUR", "1"),)
    matrix = next(table for table in report.tables if table.title.startswith("right label"))
    names = matrix.columns[1:]
    counted = {(row[0], name): int(row[1 + place] or 0) for row in matrix.rows for place, name in enumerate(names)}
    assert counted["COLOUR", answers[11]] == 1
    assert counted[others[answers[3]], answers[3]] >= 1
    assert sum(counted.values()) == 20
    assert {mistake["where"] for mistake in report.mistakes} == {"right.txt:4", "right.txt:9", "right.txt:12"}
    sure = [mistake["log_prob"] for mistake in report.mistakes]
    assert sure == sorted(sure, reverse=True)
    lengths = next(table for table in report.tables if table.title == "by length")
    assert sum(int(row[1]) for row in lengths.rows) == 20


def test_unseen_words_are_those_that_training_lacks(run: RunDir, tmp_path: Path) -> None:
    rows = [("PLACE", "where the"), ("PLACE", "where zyx"), ("PLACE", "zyx zyx xyz where")]
    report = loaded(run).evaluate([str(write(tmp_path / "x", rows))], unwatched)
    table = next(table for table in report.tables if "that training lacks" in table.title)
    assert [row[:2] for row in table.rows] == [("0", "1"), ("1", "1"), ("3+", "1")]


@pytest.mark.parametrize("form", ["first", "tsv", "fasttext", "jsonl"])
def test_what_comes_in_a_form_goes_out_in_it(form: str, tmp_path: Path) -> None:
    run = trained(config(write(tmp_path / "train", form=form), epochs=1), tmp_path / "run")
    wrong = [("PLACE", "who wrote it"), ("NUMBER", "in which town")]
    source = write(tmp_path / "in", wrong, form)
    answers = list(loaded(run).predict(str(source), PredictOptions()))
    labels = [json.loads(line)["label"] for line in loaded(run).predict(str(source), PredictOptions(json=True))]
    again = write(tmp_path / "out", [(label, text) for label, (_, text) in zip(labels, wrong, strict=True)], form)
    assert answers == again.read_text().splitlines()


def test_plain_lines_get_a_label_each_empty_ones_too(run: RunDir, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("who\n\nin which town\n   \nhow many")
    answers = list(loaded(run).predict(str(tmp_path / "plain"), PredictOptions()))
    assert len(answers) == 5
    assert set(answers) <= {"PLACE", "PERSON", "NUMBER"}
    assert answers[1] == answers[3]


def test_answers_do_not_depend_on_batches_or_order(run: RunDir, tmp_path: Path) -> None:
    rows = examples(30, seed=2)
    options = PredictOptions(nbest=3, json=True)
    whole = predictions(run, write(tmp_path / "a", rows), options)
    assert_near(predictions(run, write(tmp_path / "a", rows), replace(options, rows=1)), whole)
    assert_near(predictions(run, write(tmp_path / "a", rows), replace(options, tokens=1)), whole)
    assert_near(predictions(run, write(tmp_path / "b", rows[::-1]), options), whole[::-1])


def predictions(run: RunDir, source: Path, options: PredictOptions) -> list[dict[str, Any]]:
    return [json.loads(line) for line in loaded(run).predict(str(source), options)]


def assert_near(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    for one, other in zip(found, wanted, strict=True):
        assert one["text"] == other["text"]
        scores = [{part["label"]: part["log_prob"] for part in answer["nbest"]} for answer in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=2e-5)


def test_nbest_are_probabilities_of_all_labels_best_first(run: RunDir, tmp_path: Path) -> None:
    answer = predictions(run, write(tmp_path / "x", [("PLACE", "where")]), PredictOptions(nbest=9, json=True))[0]
    scores = [part["log_prob"] for part in answer["nbest"]]
    assert scores == sorted(scores, reverse=True)
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-5)
    line = next(loaded(run).predict(str(tmp_path / "x"), PredictOptions(nbest=2, scores=True)))
    assert line == "\t".join(f"{part['label']}\t{part['log_prob']:.4f}" for part in answer["nbest"][:2])


def test_attention_weights_name_the_words_and_sum_to_one(run: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", [("PLACE", "the old town")])
    answer = predictions(run, source, PredictOptions(align=True, json=True))[0]
    assert [name for name, _ in answer["weights"]] == ["<s>", "the", "old", "town"]
    assert sum(weight for _, weight in answer["weights"]) == pytest.approx(1, abs=1e-3)
    line = next(loaded(run).predict(str(source), PredictOptions(align=True)))
    assert line.split("\t")[1].split(" ")[0] == f"<s>={answer['weights'][0][1]:.4f}"


def test_online_answers_are_those_of_the_words_so_far(online: RunDir, tmp_path: Path) -> None:
    texts = ["who was the poet", "in", "how manyfold"]
    (tmp_path / "texts").write_text("\n".join(texts))
    found = list(loaded(online).predict(str(tmp_path / "texts"), PredictOptions(online=True, scores=True)))
    begins = [" ".join(text.split()[:end]) for text in texts for end in range(1, 1 + len(text.split()))]
    (tmp_path / "begins").write_text("\n".join(begins))
    whole = list(loaded(online).predict(str(tmp_path / "begins"), PredictOptions(scores=True)))
    given = [line.split("\t") for line in found if line]
    assert [word for word, *_ in given] == [word for text in texts for word in text.split()]
    assert [line[1] for line in given] == [line.split("\t")[0] for line in whole]
    assert [float(line[2]) for line in given] == pytest.approx([float(line.split("\t")[1]) for line in whole], abs=2e-4)
    assert [place for place, line in enumerate(found) if not line] == [4, 6, 9]


def test_unknown_words_differ_by_their_ngrams_only(run: RunDir, online: RunDir) -> None:
    unknown = [Labelled(text, "PLACE", "") for text in ("zzz", "poets")]
    whole, grams = loaded(run).log_probs(unknown), loaded(online).log_probs(unknown)
    np.testing.assert_allclose(whole[0], whole[1], atol=1e-6)
    assert np.abs(grams[0] - grams[1]).max() > 1e-3


def test_the_ngrams_of_a_word_are_those_that_the_word_vectors_have() -> None:
    """The joiner is no letter; the start symbol has none."""
    grams = Subwords(3, 3, 1000)
    encoder = Encoder(Pipeline(Normaliser(), make_tokeniser("word")), Vocabulary(["ab"]), grams)
    batch = encoder.texts(["abc, ab", "ab"]).batch(np.array([1, 0]), torch.device("cpu"))
    assert batch.grams is not None
    ends = [*batch.grams.begins.tolist()[1:], len(batch.grams.buckets)]
    spelled = [batch.grams.buckets[begin:end].tolist() for begin, end in zip(batch.grams.begins, ends, strict=True)]
    found = [[spelled[place] for place in row] for row in batch.grams.places]
    words = {word: grams.ngrams(word).tolist() for word in ("abc", ",", "ab")}
    assert found == [[[], words["ab"], [], []], [[], words["abc"], words[","], words["ab"]]]
    assert batch.lengths.tolist() == [2, 4]


def test_a_bidirectional_network_is_refused_online(run: RunDir) -> None:
    with pytest.raises(ConfigError, match="reads from the end too"):
        loaded(run).predict("-", PredictOptions(online=True))


@pytest.mark.parametrize("name", ["nbest", "rows", "tokens"])
def test_numbers_below_one_are_refused(name: str) -> None:
    for number in (0, -3):
        with pytest.raises(ConfigError, match=f"--{name} {number}: it must be at least 1"):
            PredictOptions(**{name: number})  # type: ignore[arg-type]


def test_a_run_is_shown_and_diagnosed_like_one_of_a_language_model(run: RunDir, tmp_path: Path) -> None:
    report = working.load(run.path).evaluate((str(write(tmp_path / "test", examples(40, seed=5))),), unwatched)
    assert report.tables[0].rows[1][0] == "macro F1"
    show_report(run, report, json=True)
    facts = inspect.describe(run)
    assert facts["model"]["kind"] == "classification"
    assert facts["options"]["model.hidden"] == 12
    assert facts["training"]["step"] == run.events()[-1]["step"]
    assert facts["score"]["value"] == report.value
    assert app.run(["show", str(run)]) == app.run(["show", str(run), "--json"]) == 0
    assert app.run(["doctor", str(run)]) in (0, 3)


def test_options_without_meaning_are_refused(run: RunDir, online: RunDir) -> None:
    with pytest.raises(ConfigError, match="--beam means nothing"):
        loaded(run).predict("-", PredictOptions(beam=2))
    with pytest.raises(ConfigError, match="no weights to show"):
        list(loaded(online).predict(str(online.path / "data" / "valid.jsonl"), PredictOptions(align=True)))


def weights(run: RunDir) -> bytes:
    """The best model and the last checkpoint, byte for byte."""
    arrays, _ = run.load_checkpoint() or ({}, {})
    return (run.path / "model.safetensors").read_bytes() + b"".join(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.parametrize("stop_at", [1, 14, 20])
def test_training_stopped_and_resumed_is_training_uninterrupted(stop_at: int, tmp_path: Path) -> None:
    """The files it was made from are gone by then."""
    model = {"hidden_words": 0.1, "dropout": 0.3, "embedding_dropout": 0.1, "subwords": True, "buckets": 50}
    plan = config(write(tmp_path / "train.txt"), model=model, epochs=3, accumulate=2)
    whole = trained(plan, tmp_path / "whole")
    again = trained(plan, tmp_path / "again")
    assert weights(again) == weights(whole)
    with stopped_at(stop_at):
        trained(plan, tmp_path / "parts")
    (tmp_path / "train.txt").unlink()
    assert weights(working.resume(tmp_path / "parts", Callbacks())) == weights(whole)


def test_another_seed_trains_another_network_on_the_same_parts(tmp_path: Path) -> None:
    train = write(tmp_path / "train.txt")
    one, other = (trained(config(train, epochs=1, seed=seed), tmp_path / f"{seed}") for seed in (1, 2))
    assert weights(one) != weights(other)
    for name in ("train.jsonl", "valid.jsonl", "vocabulary.json"):
        assert (one.path / "data" / name).read_bytes() == (other.path / "data" / name).read_bytes()


def test_a_loaded_run_says_the_same_in_a_fresh_process(run: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", examples(9, seed=3))
    here = "".join(f"{line}\n" for line in loaded(run).predict(str(source), PredictOptions(scores=True)))
    command = [sys.executable, "-m", "ostinato", "predict", str(run.path), str(source), "--scores"]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == here


@pytest.mark.parametrize("name", ["run", "online"])
def test_the_summed_loss_of_a_batch_is_the_sum_of_its_rows(name: str, request: pytest.FixtureRequest) -> None:
    run = request.getfixturevalue(name)
    learner = CLASSIFICATION.learner(loaded(run).config, run.path / "data")
    learner.network.eval()
    rows = np.array([5, 0, 17, 3])
    alone = sum(learner.loss(np.array([row])).item() for row in rows)
    assert learner.loss(rows).item() == pytest.approx(alone, rel=1e-5)
    judged = loaded(run).log_probs(Corpus.open(run.path / "data").parts["valid"])
    numbers = learner.corpus.numbers(learner.corpus.parts["valid"])
    learner.network.load_state_dict(loaded(run).network.state_dict())
    found = learner.validate()
    assert found.loss == pytest.approx(-judged[np.arange(len(numbers)), numbers].mean(), rel=1e-5)
    assert found.worth == pytest.approx(-100 * (judged.argmax(1) == numbers).mean())
    learner.batches(3)
    assert learner.validate().worth < found.worth


def test_people_are_told_what_was_held_out_left_out_and_repeated(tmp_path: Path) -> None:
    rows = [*examples(60), ("PLACE", "town " * 30)]
    test = [("PLACE", rows[0][1]), ("COLOUR", "red")]
    data = {"test": (str(write(tmp_path / "test", test)),), "holdout": 0.2}
    notes: list[str] = []
    trained(config(write(tmp_path / "train", rows), data, epochs=1, longest=20), tmp_path / "run", notes)
    said = "\n".join(notes)
    assert "12 training examples are held out for validation (data.holdout 0.2, data.split_seed 1)" in said
    assert "1 training texts of more than 20 tokens are left out" in said
    assert "'COLOUR' (1)" in said
    assert "1 test texts stand in the training data too" in said


def test_a_damaged_run_and_one_of_another_vocabulary_are_refused(run: RunDir, tmp_path: Path) -> None:
    import shutil

    copy = RunDir.open(shutil.copytree(run.path, tmp_path / "copy"), TASK)
    path = copy.path / "data" / "classification.json"
    path.write_text(path.read_text().replace("PERSON", "NOBODY"))
    with pytest.raises(MismatchError, match="made for vocabulary"):
        working.load(copy.path)
    path.write_text("{}")
    with pytest.raises(FormatError, match="format"):
        working.load(copy.path)
    model = copy.path / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-9])
    with pytest.raises(FormatError):
        working.load(copy.path)


@pytest.mark.parametrize(
    ("content", "data", "model", "message"),
    [
        ("", {}, {}, r"train: no lines"),
        ("A one\nA two\nA three\n", {}, {}, "every training example has the label 'A'"),
        ("A one\nB\xff\n", {}, {}, r"train:2: byte 2 \(0xff\) is not UTF-8"),
        ("A one\nB two\n", {}, {}, "too few to share out|nothing to learn"),
        (None, {"train": ()}, {}, "data.train names no file"),
        (None, {"train": ("nowhere",)}, {}, "nowhere: no such file"),
        (None, {"bpe_pieces": 300}, {}, "bpe_pieces is for the tokeniser bpe"),
        (None, {"tokeniser": "byte"}, {}, "min_count has no use"),
        (None, {}, {"activation": "relu"}, "model.activation does not apply to gru; it is for rnn"),
        (None, {}, {"skip": True}, "skip connects layers"),
        (None, {}, {"from_run": "nowhere"}, "taken from nowhere|no such run"),
        (None, {}, {"vectors": "nowhere"}, "nowhere: no such file"),
        (None, {"label": "3"}, {}, "columns were named"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_left(
    content: str | None, data: dict[str, Any], model: dict[str, Any], message: str, tmp_path: Path
) -> None:
    train = tmp_path / "train"
    if content is None:
        write(train)
    else:
        train.write_bytes(content.encode("latin-1"))
    with pytest.raises(OstinatoError, match=message):
        trained(config(train, data, model), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "given",
    [
        *({"pooling": ()}, {"pooling": ("max", "max")}, {"pooling": ("sum",)}),
        *({"more_words": 3}, {"frozen": True}, {"buckets": 9}, {"subwords": True, "least": 4, "most": 3}),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"pooling|more_words|frozen|buckets|below least"):
        ModelOptions(**given)


def test_none_of_the_labels_of_a_test_file_known_is_a_mistake_in_the_file(tmp_path: Path) -> None:
    data = {"test": (str(write(tmp_path / "test", [("COLOUR", "red")])),)}
    with pytest.raises(DataError, match="none of its labels is one of training"):
        trained(config(write(tmp_path / "train"), data), tmp_path / "run")


def test_training_in_bfloat16_learns_too(tmp_path: Path) -> None:
    run = trained(config(write(tmp_path / "train"), precision="bf16"), tmp_path / "run")
    assert loaded(run).evaluate((), unwatched).value > 80
