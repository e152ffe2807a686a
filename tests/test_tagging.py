"""The tagging task: what it learns and says, that it is exact, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ostinato.core.errors import ConfigError, DataError, FormatError, MismatchError, OstinatoError
from ostinato.core.progress import unwatched
from ostinato.runs import TASK, RunDir
from ostinato.tasks import working
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.tagging.answers import cut
from ostinato.tasks.tagging.options import DataOptions
from ostinato.tasks.tagging.task import TASK as TAGGING
from ostinato.tasks.task import PredictOptions
from ostinato.text.columns import read_columns
from ostinato.text.schemes import well_formed
from stopping import stopped_at
from tagging_toys import (
    Pairs,
    chinese,
    columns,
    config,
    conllu,
    entities,
    loaded,
    segmented,
    sentences,
    trained,
    write,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tagging")


@pytest.fixture(scope="module")
def pos(folder: Path) -> RunDir:
    """Parts of speech from CoNLL-U; trained well enough to be right nearly always."""
    data = {"test": (write(folder / "pos.test", conllu(sentences(30, seed=1))),)}
    return trained(
        config(write(folder / "pos", conllu(sentences())), data, {"affixes": 2}, epochs=14), folder / "pos-run"
    )


@pytest.fixture(scope="module")
def names(folder: Path) -> RunDir:
    """Names in BIO columns, learnt as BIOES by a CRF."""
    data = {"test": (write(folder / "ner.test", columns(entities(30, seed=1))),)}
    model = {"scheme": "bioes", "output": "crf"}
    return trained(config(write(folder / "ner", columns(entities())), data, model), folder / "ner-run")


@pytest.fixture(scope="module")
def online(folder: Path) -> RunDir:
    """Reads from the beginning alone."""
    plan = config(write(folder / "ner", columns(entities())), model={"bidirectional": False, "pairs": True}, epochs=3)
    return trained(plan, folder / "online")


@pytest.fixture(scope="module")
def words(folder: Path) -> RunDir:
    """Cuts text into words."""
    data = {"unit": "character", "test": (write(folder / "zh.test", segmented(chinese(20, seed=1))),)}
    return trained(config(write(folder / "zh", segmented(chinese())), data), folder / "words")


@pytest.fixture(scope="module")
def joint(folder: Path) -> RunDir:
    """Cuts text into words and labels them."""
    data = {"unit": "character", "column": "upos", "test": (write(folder / "j.test", conllu(chinese(20, seed=1))),)}
    return trained(config(write(folder / "j", conllu(chinese())), data), folder / "joint")


def answers(run: RunDir, source: str, **options: Any) -> str:
    return "".join(f"{line}\n" for line in loaded(run).predict(source, PredictOptions(**options)))


def objects(run: RunDir, source: str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in loaded(run).predict(source, PredictOptions(json=True, **options))]


def relabelled(run: RunDir, rows: list[Pairs]) -> list[Pairs]:
    """The words with the labels that the run gives them."""
    words = [[word for word, _ in pairs] for pairs in rows]
    return [list(zip(row, labels, strict=True)) for row, labels in zip(words, loaded(run).tag(words), strict=True)]


def test_it_learns_labels_that_hang_on_the_word_before(pos: RunDir) -> None:
    """The most frequent label of each word is right of about five words in six."""
    report = loaded(pos).evaluate((), unwatched)
    assert report.measure == "accuracy"
    assert report.value > 97
    assert report.count == sum(len(pairs) for pairs in sentences(30, seed=1))
    assert "data:pos.test#" in report.signature


def test_it_finds_names_and_words(names: RunDir, words: RunDir, joint: RunDir) -> None:
    for run, measure in ((names, "F1 of spans"), (words, "F1 of words"), (joint, "F1 of words with their labels")):
        report = loaded(run).evaluate((), unwatched)
        assert report.measure == measure
        assert report.value > 90, measure
    assert report.measures["f1"] >= report.measures["labelled_f1"] == report.value


def test_columns_keep_everything_but_the_labels(pos: RunDir, names: RunDir, tmp_path: Path) -> None:
    """Comments, ranges, empty nodes, line ends, blank lines before and after."""
    rows = sentences(5, seed=3)
    given = conllu([[(word, "X") for word, _ in pairs] for pairs in rows]).replace("\n", "\r\n")
    wanted = conllu(relabelled(pos, rows)).replace("\n", "\r\n")
    assert answers(pos, write(tmp_path / "x", f"\n{given}# end\n\n")) == f"\n{wanted}# end\n\n"
    rows = entities(4, seed=4)
    source = write(tmp_path / "y", f"-DOCSTART-\tO\n\n{columns(rows)}\n")
    assert answers(names, source) == f"-DOCSTART-\tO\n\n{columns(relabelled(names, rows))}\n"


def test_words_without_labels_get_a_column_behind(names: RunDir, pos: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", "Bob\nwalk\n\nRome")
    labels = [label for row in loaded(names).tag([["Bob", "walk"], ["Rome"]]) for label in row]
    assert answers(names, source) == "Bob\t{}\nwalk\t{}\n\nRome\t{}\n".format(*labels)
    assert answers(pos, source).startswith("Bob\t")


def test_answers_are_in_the_scheme_of_the_file_and_well_formed(names: RunDir, tmp_path: Path) -> None:
    rows = entities(20, seed=7)
    text = answers(names, write(tmp_path / "x", columns(rows)))
    tags = [sentence.column(-1) for sentence in read_columns(write(tmp_path / "y", text))]
    assert all(well_formed(found, "bio") for found in tags)
    assert loaded(names).corpus.labels.learnt == "bioes"
    assert {"B-PER", "I-PER", "O"} <= {tag for found in tags for tag in found}


def test_text_is_cut_where_it_has_blanks_and_keeps_its_lines(words: RunDir, joint: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", "我喜歡書\n\n看 圖書館很大\u3000書\n   \n")
    lines = answers(words, source).split("\n")
    assert [line.replace(" ", "") for line in lines] == ["我喜歡書", "", "看圖書館很大書", "", ""]
    assert [len(said["words"]) > 0 for said in objects(words, source)] == [True, False, True, False]
    assert len(answers(words, source, align=True, scores=True).split("\n")) == 5
    assert lines[2].startswith("看 ")
    assert lines[2].endswith(" 書")
    (parted,) = objects(joint, write(tmp_path / "y", "書看 我喜歡"))
    assert list(zip(parted["words"], parted["labels"], strict=True))[-2:] == [("我", "PRON"), ("喜歡", "VERB")]
    tagged = answers(joint, source).split("\n")[0].split(" ")
    assert "".join(pair.partition("_")[0] for pair in tagged) == "我喜歡書"
    assert all(pair.partition("_")[2] in {"PRON", "VERB", "NOUN"} for pair in tagged)


def test_scores_and_probabilities_have_columns_or_misc(pos: RunDir, names: RunDir, tmp_path: Path) -> None:
    rows = entities(1, seed=5)
    line = answers(names, write(tmp_path / "x", columns(rows)), scores=True, align=True).split("\n")[0].split("\t")
    (said,) = objects(names, str(tmp_path / "x"), scores=True, align=True)
    assert line[:2] == [said["words"][0], said["labels"][0]]
    assert float(line[2]) == pytest.approx(said["log_probs"][0], abs=1e-4)
    shares = {part.rpartition(":")[0]: float(part.rpartition(":")[2]) for part in line[3].split(",")}
    assert shares == pytest.approx(said["probabilities"][0], abs=1e-3)
    assert sum(said["probabilities"][0].values()) == pytest.approx(1, abs=0.02)
    misc = answers(pos, write(tmp_path / "y", conllu(sentences(1))), scores=True).split("\n")[3].split("\t")[9]
    assert misc.startswith("SpaceAfter=No|LogProb=-")


def test_the_log_prob_of_a_sentence_is_that_of_its_labels_together(pos: RunDir, tmp_path: Path) -> None:
    """Without a CRF, the sum of those of the words."""
    for said in objects(pos, write(tmp_path / "x", conllu(sentences(5, seed=6))), scores=True):
        assert said["log_prob"] == pytest.approx(sum(said["log_probs"]), abs=1e-3)


def test_nbest_begins_with_the_answer_and_wants_json(names: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", columns(entities(3, seed=8)))
    for said in objects(names, source, nbest=4):
        assert said["nbest"][0] == {"labels": said["labels"], "log_prob": pytest.approx(said["log_prob"], abs=1e-5)}
        found = [way["log_prob"] for way in said["nbest"]]
        assert found == sorted(found, reverse=True)
        assert sum(np.exp(found)) <= 1 + 1e-6
    with pytest.raises(ConfigError, match="add --json"):
        answers(names, source, nbest=2)


def test_spans_are_told_with_their_words(names: RunDir, tmp_path: Path) -> None:
    (said,) = objects(names, write(tmp_path / "x", "Bob\tO\nin\tO\nNew\tO\nYork\tO\n"))
    assert said["labels"] == ["B-PER", "O", "B-LOC", "I-LOC"]
    assert said["spans"][1] == {"label": "LOC", "start": 2, "end": 4, "words": ["New", "York"]}


@pytest.mark.parametrize("fixture", ["pos", "names", "words", "joint", "online"])
def test_answers_do_not_depend_on_batches_or_order(
    fixture: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run: RunDir = request.getfixturevalue(fixture)
    rows = {"pos": sentences, "names": entities, "online": entities}.get(fixture, chinese)(25, seed=9)
    form = {"pos": conllu, "names": columns, "online": columns}.get(fixture, lambda r: segmented(r).replace(" ", ""))
    ahead, back = write(tmp_path / "a", form(rows)), write(tmp_path / "b", form(rows[::-1]))
    whole = objects(run, ahead)
    for found in (objects(run, ahead, rows=1), objects(run, ahead, tokens=1), objects(run, back)[::-1]):
        assert [said["words"] for said in found] == [said["words"] for said in whole]
        assert [said.get("labels") for said in found] == [said.get("labels") for said in whole]
        assert [said["log_prob"] for said in found] == pytest.approx([said["log_prob"] for said in whole], abs=2e-4)


def test_online_labels_are_those_of_the_whole_sentence(online: RunDir, tmp_path: Path) -> None:
    rows = [[(word, "") for word in line.split()] for line in ("Bob in New York", "Ann Lee", "zyx Cy van Dam .")]
    source = write(tmp_path / "plain", segmented(rows).removesuffix("\n"))
    found = answers(online, source, online=True).split("\n")
    wanted = [f"{word}\t{label}" for pairs in relabelled(online, rows) for word, label in pairs]
    assert [line for line in found if line] == wanted
    assert [place for place, line in enumerate(found) if not line] == [4, 7, 13, 14]
    said = objects(online, source, online=True)
    (whole,) = objects(online, write(tmp_path / "x", "Bob\nin\nNew\nYork\n"))
    assert sum(word["log_prob"] for word in said[:4]) == pytest.approx(whole["log_prob"], abs=1e-3)


def test_text_is_labelled_online_character_by_character(folder: Path, tmp_path: Path) -> None:
    plan = config(write(folder / "zh", segmented(chinese())), {"unit": "character"}, {"bidirectional": False}, epochs=2)
    run = trained(plan, tmp_path / "run")
    found = answers(run, write(tmp_path / "x", "我 喜歡\n書"), online=True).split("\n")
    assert [line.partition("\t")[0] for line in found] == ["我", "喜", "歡", "", "書", "", ""]
    labels = [label for row in loaded(run).tag(["我喜歡", "書"]) for label in row]
    assert [line.partition("\t")[2] for line in found if line] == labels


def test_what_needs_the_whole_sentence_is_refused_online(pos: RunDir, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="reads from the end too"):
        answers(pos, "-", online=True)
    model = {"bidirectional": False, "scheme": "bioes"}
    run = trained(config(write(folder / "ner", columns(entities())), model=model, epochs=1), tmp_path / "run")
    with pytest.raises(ConfigError, match="learnt in the scheme bioes"):
        answers(run, "-", online=True)


def test_what_has_no_meaning_for_a_run_is_refused(pos: RunDir, names: RunDir, words: RunDir, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--beam means nothing"):
        answers(pos, "-", beam=2)
    with pytest.raises(DataError, match="words parted by blanks"):
        answers(names, write(tmp_path / "x", "Bob was in Rome\n"))
    with pytest.raises(ConfigError, match="CoNLL-U, but the run has learnt labels of column 1"):
        answers(names, write(tmp_path / "y", conllu(sentences(1))))
    with pytest.raises(DataError, match=r"z:1: a tab"):
        answers(words, write(tmp_path / "z", columns(chinese(1))))


def test_a_long_sentence_is_cut_after_a_closing_sign_or_else_anywhere(pos: RunDir, tmp_path: Path) -> None:
    text = ["a", "b", "c", ".", "e", "f", "g", "h", "i", "j", "k"]
    assert cut(text, 11) == [text]
    assert cut(text, 6) == [text[:4], text[4:10], text[10:]]
    assert cut(text, 4) == [text[:4], text[4:8], text[8:]]
    assert cut([], 4) == []
    short = RunDir.open(shutil.copytree(pos.path, tmp_path / "copy"), TASK)
    path = short.path / "config.toml"
    path.write_text(path.read_text().replace("longest = 1000", "longest = 4"))
    parts = loaded(pos).tag([text[:4], text[4:8], text[8:]])
    assert loaded(short).tag([text]) == [parts[0] + parts[1] + parts[2]]


def test_the_report_counts_by_hand(pos: RunDir, tmp_path: Path) -> None:
    """Labels taken from the run's own answers, two of them then made wrong, one of these unknown."""
    rows = relabelled(pos, [*sentences(12, seed=5), [("zyx", "")]])
    count = sum(map(len, rows))
    begins = np.cumsum([4, *(len(pairs) + 4 for pairs in rows)]).tolist()  # four lines beside the words
    (first, answer), (last, _) = rows[2][0], rows[7][-1]
    rows[2][0], rows[7][-1] = (first, "ADJ" if answer != "ADJ" else "DET"), (last, "COLOUR")
    report = loaded(pos).evaluate([write(tmp_path / "right", conllu(rows))], unwatched)
    assert report.count == count
    assert report.value == pytest.approx(100 * (count - 2) / count)
    assert report.measures["unknown_labels"] == 1
    assert report.measures["whole_sentences"] == pytest.approx(100 * 11 / 13)
    told = {mistake["where"]: mistake["mistakes"] for mistake in report.mistakes}
    assert told.keys() == {f"right:{begins[2]}", f"right:{begins[7]}"}
    label = rows[2][0][1]
    assert told[f"right:{begins[2]}"] == [{"place": 1, "word": first, "label": label, "answer": answer}]
    unknown = next(table for table in report.tables if "lacks (mistakes)" in table.title)
    assert unknown.rows == (("COLOUR", "1"),)
    seen = next(table for table in report.tables if table.title == "by seen and unseen words")
    assert [row[2] for row in seen.rows] == [f"{count - 1}", "1"]
    lengths = next(table for table in report.tables if table.title.startswith("whole sentences"))
    assert sum(int(row[1]) for row in lengths.rows) == 13


def test_spans_are_judged_leniently_and_strictly(names: RunDir, tmp_path: Path) -> None:
    """`O I-LOC` is a place to conlleval and none in strict reading; answered with B-LOC it is right, or not counted."""
    (labels,) = loaded(names).tag([["in", "Rome"]])
    assert labels == ["O", "B-LOC"]
    report = loaded(names).evaluate([write(tmp_path / "x", "in\tO\nRome\tI-LOC\n")], unwatched)
    assert report.value == report.measures["f1"] == 100
    assert report.measures["strict_f1"] == 0
    assert "illformed:conlleval" in report.signature


def test_words_are_judged_by_both_ends_and_by_label(joint: RunDir, words: RunDir, tmp_path: Path) -> None:
    """Of three right words, two are answered with their ends and one of them with its label."""
    (found,) = objects(joint, write(tmp_path / "x", "我喜歡書\n"))
    assert found["words"] == ["我", "喜歡", "書"]
    assert found["labels"] == ["PRON", "VERB", "NOUN"]
    rows: list[Pairs] = [[("我", "PRON"), ("喜歡", "NOUN"), ("書", "NOUN")]]
    report = loaded(joint).evaluate([write(tmp_path / "y", conllu(rows))], unwatched)
    assert report.measures["f1"] == 100
    assert report.value == pytest.approx(200 / 3)
    report = loaded(words).evaluate([write(tmp_path / "z", "我 喜歡書\n")], unwatched)
    assert report.value == pytest.approx(100 * 2 * 1 / (3 + 2))
    assert report.measures["seen_recall"] == 100
    assert report.measures["unseen_recall"] == 0
    assert report.mistakes[0]["answer"] == "我 喜歡 書"


def weights(run: RunDir) -> bytes:
    """The best model and the last checkpoint, byte for byte."""
    arrays, _ = run.load_checkpoint() or ({}, {})
    return (run.path / "model.safetensors").read_bytes() + b"".join(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.parametrize("stop_at", [1, 9, 14])
def test_training_stopped_and_resumed_is_training_uninterrupted(stop_at: int, tmp_path: Path) -> None:
    """The files it was made from are gone by then."""
    model = {"output": "crf", "dropout": 0.3, "hidden_words": 0.1, "affixes": 2, "pairs": True}
    train = write(tmp_path / "train", columns(entities()))
    plan = config(train, model=model, epochs=3, accumulate=2)
    whole, again = trained(plan, tmp_path / "whole"), trained(plan, tmp_path / "again")
    assert weights(again) == weights(whole)
    with stopped_at(stop_at):
        trained(plan, tmp_path / "parts")
    Path(train).unlink()
    assert weights(working.resume(tmp_path / "parts", Callbacks())) == weights(whole)


def test_a_loaded_run_says_the_same_in_a_fresh_process(names: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", columns(entities(9, seed=3)))
    command = [sys.executable, "-m", "ostinato", "predict", str(names.path), source, "--scores"]
    said = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert said == answers(names, source, scores=True)


def test_validation_judges_as_evaluation_does(pos: RunDir, names: RunDir, tmp_path: Path) -> None:
    for run, form in ((pos, conllu), (names, columns)):
        predictor = loaded(run)
        learner = TAGGING.learner(predictor.config, run.path / "data")
        learner.network.eval()
        some = np.array([5, 0, 17, 3])
        alone = sum(learner.loss(np.array([row])).item() for row in some)
        assert learner.loss(some).item() == pytest.approx(alone, rel=1e-5)
        learner.network.load_state_dict(predictor.network.state_dict())
        found, valid = learner.validate(), learner.corpus.parts["valid"]
        rows = [list(zip(sentence.words, sentence.labels, strict=True)) for sentence in valid]
        report = predictor.evaluate([write(tmp_path / "x", form(rows))], unwatched)
        assert found.worth == pytest.approx(-report.value)
        learner.train = learner.corpus.lexicon.encode(sentence.words for sentence in valid)
        learner.numbers = learner.valid_numbers
        total = sum(learner.loss(np.array([row])).item() for row in range(len(valid)))
        assert found.loss == pytest.approx(total / sum(map(len, rows)), rel=1e-5)


def test_people_are_told_what_was_held_out_left_out_and_unknown(tmp_path: Path) -> None:
    long = [("the", "DET")] * 30
    test = write(tmp_path / "test", columns([[("red", "COLOUR"), ("the", "DET")]]))
    notes: list[str] = []
    train = write(tmp_path / "train", columns([*sentences(59), long]))
    trained(config(train, {"test": (test,), "holdout": 0.1}, epochs=1, longest=20), tmp_path / "run", notes)
    said = "\n".join(notes)
    assert "6 training sentences are held out for validation (data.holdout 0.1, data.split_seed 1)" in said
    assert "1 training sentences of more than 20 words are left out" in said
    assert "'COLOUR' (1)" in said
    assert "6 labels (scheme none)" in said


def test_words_begin_with_given_vectors_and_the_coverage_is_told(tmp_path: Path) -> None:
    vectors = write(tmp_path / "v.txt", "4 3\nthe 1 2 3\nwalk 4 5 6\nzyx 7 8 9\nxyz 1 1 1\n")
    notes: list[str] = []
    model = {"vectors": vectors, "more_words": 1, "frozen": True, "embedding": None, "hidden_rare": 0.0}
    run = trained(
        config(write(tmp_path / "train", columns(sentences())), model=model, epochs=1), tmp_path / "run", notes
    )
    assert "vectors for 3 of" in "\n".join(notes)
    words, rows = loaded(run).corpus.lexicon.words, loaded(run).network.embedding.weight
    assert rows[words.ids(["the"])[0]].tolist() == [1, 2, 3]
    assert rows[words.ids(["zyx"])[0]].tolist() == [7, 8, 9]
    assert "xyz" not in words


def test_a_damaged_run_and_one_of_other_words_are_refused(names: RunDir, tmp_path: Path) -> None:
    copy = RunDir.open(shutil.copytree(names.path, tmp_path / "copy"), TASK)
    lexicon = copy.path / "data" / "lexicon.json"
    lexicon.write_text(lexicon.read_text().replace('"shapes": true', '"shapes": false'))
    with pytest.raises(MismatchError, match="made for lexicon"):
        working.load(copy.path)
    lexicon.write_text("{}")
    with pytest.raises(FormatError, match="format"):
        working.load(copy.path)
    model = copy.path / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-9])
    with pytest.raises(FormatError):
        working.load(copy.path)


@pytest.mark.parametrize(
    ("content", "data", "model", "message"),
    [
        ("", {}, {}, r"train: no sentences"),
        ("one\tA\n\ntwo\tA\n\n", {}, {}, "every word has the label 'A'"),
        ("one\tA\ntwo\n", {}, {}, r"train:2: 1 column"),
        ("one\tA\nB\xff\n", {}, {}, r"train:2: byte 2 \(0xff\) is not UTF-8"),
        ("one\tA\ntwo\tB\n", {}, {}, "too few to share out"),
        ("one\ntwo\n", {}, {}, "column -1 holds the words themselves"),
        ("one\tB-X\ntwo\tO\n\nthree\tQ\n\n", {"scheme": "bio"}, {}, "'Q' is no label of the scheme bio"),
        (None, {"train": ()}, {}, "data.train names no file"),
        (None, {"train": ("nowhere",)}, {}, "nowhere: no such file"),
        (None, {"train": ("-",)}, {}, "save standard input to a file"),
        (None, {"column": "upos"}, {}, "columns of this file have no names"),
        (None, {"column": "7"}, {}, "column 7 of 2"),
        (None, {}, {"scheme": "bioes"}, "model.scheme bioes, but the labels of train are in the scheme none"),
        (None, {}, {"activation": "relu"}, "model.activation does not apply to gru; it is for rnn"),
        (None, {}, {"vectors": "nowhere"}, "nowhere: no such file"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_left(
    content: str | None, data: dict[str, Any], model: dict[str, Any], message: str, tmp_path: Path
) -> None:
    train = tmp_path / "train"
    train.write_bytes((columns(sentences()) if content is None else content).encode("latin-1"))
    with pytest.raises(OstinatoError, match=message):
        trained(config(str(train), data, model), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "given",
    [
        {"form": "segmented"},
        {"form": "segmented", "unit": "character", "column": "1"},
        {"unit": "character", "scheme": "bio"},
        {"scheme": "bioe"},
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"segmented|bmes|unknown scheme"):
        DataOptions(**given)


def test_none_of_the_labels_of_a_test_file_known_is_a_mistake_in_the_file(tmp_path: Path) -> None:
    test = write(tmp_path / "test", columns([[("red", "COLOUR")]]))
    with pytest.raises(DataError, match="none of its labels is one of training"):
        trained(config(write(tmp_path / "train", columns(sentences())), {"test": (test,)}), tmp_path / "run")


def test_training_in_bfloat16_learns_too(tmp_path: Path) -> None:
    train = write(tmp_path / "train", columns(sentences()))
    run = trained(config(train, model={"output": "crf"}, precision="bf16"), tmp_path / "run")
    assert loaded(run).evaluate((), unwatched).value > 90
