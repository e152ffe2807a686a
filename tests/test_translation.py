"""The translation task: what it learns and says, that it is exact, and what it refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ostinato.core.errors import FormatError
from ostinato.core.progress import unwatched
from ostinato.decode import Beam, Greedy
from ostinato.runs import TASK, RunDir
from ostinato.tasks import working
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.task import PredictOptions
from ostinato.tasks.translation import predict
from ostinato.tasks.translation.answers import Asking, answers_of, looked_at
from ostinato.tasks.translation.task import TASK as TRANSLATION
from stopping import stopped_at
from translation_toys import columns, config, loaded, parallel, reversed_pairs, sentences, trained, write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("translation")


@pytest.fixture(scope="module")
def backwards(folder: Path) -> RunDir:
    """Says letters backwards; trained well enough to be right nearly always."""
    data = {"test": (write(folder / "b.test", columns(reversed_pairs(100, seed=1))),)}
    train = (write(folder / "b", columns(reversed_pairs(1500))),)
    options = {"epochs": 12, "rows": 32, "tokens": 1000, "learning_rate": 0.006}
    return trained(config(train, data, {"hidden": 32}, **options), folder / "backwards")


@pytest.fixture(scope="module")
def german(folder: Path) -> RunDir:
    """Words for words by joint BPE, from two parallel files, judged by BLEU."""
    test = parallel(folder, sentences(60, seed=1), "test")
    data = {"test": test, "tokeniser": "bpe", "bpe_pieces": 300}
    model = {"shared": True, "label_smoothing": 0.1, "kind": "lstm"}
    options = {"epochs": 9, "tokens": 400, "learning_rate": 0.01}
    return trained(config(parallel(folder, sentences(600)), data, model, **options), folder / "german")


@pytest.fixture(scope="module")
def fixed(folder: Path) -> RunDir:
    """Without attention, and trained for a moment only."""
    train = (write(folder / "f", columns(reversed_pairs(80))),)
    return trained(config(train, model={"attention": "none"}, epochs=1), folder / "fixed")


def answers(run: RunDir, source: str, **options: Any) -> str:
    return "".join(f"{line}\n" for line in loaded(run).predict(source, PredictOptions(**options)))


def objects(run: RunDir, source: str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in loaded(run).predict(source, PredictOptions(json=True, **options))]


def sources_of(run: RunDir, rows: list[tuple[str, str]]) -> list[Any]:
    side = loaded(run).corpus.source
    return [side.ids(source) for source, _ in rows]


def test_it_learns_to_say_things_backwards(backwards: RunDir) -> None:
    report = loaded(backwards).evaluate((), unwatched)
    assert report.measure == "% exact"
    assert report.value >= 99
    assert report.count == len({source for source, _ in reversed_pairs(100, seed=1)})
    assert "data:b.test#" in report.signature
    assert "search:beam5+penalty0" in report.signature
    assert 0.99 < report.measures["length_ratio"] < 1.01


def test_it_looks_at_the_word_that_it_says(backwards: RunDir, tmp_path: Path) -> None:
    (said,) = objects(backwards, write(tmp_path / "x", "a b c d e\n"), align=True)
    found = said["alignment"]
    assert found["source"] == ["a", "b", "c", "d", "e"]
    assert found["target"] == said["answer"].split() == ["E", "D", "C", "B", "A"]
    assert np.array(found["weights"]).sum(axis=1) == pytest.approx(np.ones(5), abs=1e-3)
    line = answers(backwards, str(tmp_path / "x"), align=True, scores=True).rstrip("\n").split("\t")
    assert line[0] == "E D C B A"
    assert float(line[1]) == pytest.approx(said["log_prob"], abs=1e-4)
    marks = [tuple(map(int, mark.split("-"))) for mark in line[2].split(" ")]
    assert marks == [(int(np.argmax(row)), place) for place, row in enumerate(found["weights"])]
    assert np.corrcoef(np.array(marks).T)[0, 1] < -0.9


def test_answers_of_pieces_are_written_as_a_person_would(german: RunDir, tmp_path: Path) -> None:
    report = loaded(german).evaluate((), unwatched)
    assert report.measure == "BLEU"
    assert report.value > 95
    assert "tok:13a" in report.signature
    assert (
        answers(german, write(tmp_path / "x", "the small dog sees a house!\n")) == "das kleines Hund sieht ein Haus!\n"
    )


def test_lines_keep_their_order_and_empty_ones_their_places(backwards: RunDir, tmp_path: Path) -> None:
    rows = reversed_pairs(150, seed=2)
    lines = [source for source, _ in rows]
    lines[3:3] = ["", "   ", "\u3000"]
    said: list[str] = []
    found = answers(backwards, write(tmp_path / "x", "".join(f"{line}\r\n" for line in lines)), say=said.append)
    alone = [answers(backwards, write(tmp_path / "y", f"{line}\n")) for line in lines[:9]]
    assert found.split("\n")[3:6] == ["", "", ""]
    assert found.split("\n")[:9] == [line.rstrip("\n") for line in alone]
    assert found.count("\n") == len(lines)
    assert said == ["lines without anything to translate, which are answered by empty ones: 3"]


def test_a_line_in_columns_is_answered_without_its_target(backwards: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", "a b\tX\n")
    assert answers(backwards, source) == answers(backwards, write(tmp_path / "y", "a b\n")) == "B A\n"


@pytest.mark.parametrize("beam", [1, 4])
def test_batches_change_no_answer(backwards: RunDir, german: RunDir, beam: int) -> None:
    for run, rows in ((backwards, reversed_pairs(60, seed=5)), (german, sentences(60, seed=5))):
        predictor, sources = loaded(run), sources_of(run, rows)
        wholes = answers_of(predictor.exact, sources, predictor.corpus, Asking(beam, 0.6 * (beam > 1), min(beam, 3)))
        order = np.random.default_rng(0).permutation(len(sources))
        asking = Asking(beam, 0.6 * (beam > 1), min(beam, 3), rows=7, tokens=40)
        others = answers_of(predictor.exact, [sources[place] for place in order], predictor.corpus, asking)
        for place, other in zip(order.tolist(), others, strict=True):
            assert [one.tokens for one in wholes[place]] == [one.tokens for one in other]
            assert [one.log_prob for one in wholes[place]] == pytest.approx([one.log_prob for one in other], abs=1e-4)


def test_a_beam_of_one_is_greedy_and_a_wider_one_is_no_worse(fixed: RunDir) -> None:
    predictor, sources = loaded(fixed), sources_of(fixed, reversed_pairs(30, seed=6))
    translator, stop = predictor.exact, predictor.corpus.target.vocabulary.stop
    found = {}
    for name, strategy in (("greedy", Greedy()), ("one", Beam(width=1)), ("five", Beam(width=5))):
        reading = translator.read(sources)
        found[name] = strategy.decode(reading, *reading.init_state(), stop=stop, max_tokens=12)
    assert [row[0].tokens for row in found["greedy"]] == [row[0].tokens for row in found["one"]]
    better = [five[0].log_prob - one[0].log_prob for five, one in zip(found["five"], found["one"], strict=True)]
    assert sum(better) > 0


def test_the_best_of_five_is_the_best(backwards: RunDir, fixed: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", "".join(f"{line}\n" for line, _ in reversed_pairs(20, seed=7)))
    for run in (backwards, fixed):
        for penalty in (0.0, 1.0):
            options = {"beam": 5, "length_penalty": penalty}
            best, several = objects(run, source, **options), objects(run, source, nbest=5, **options)
            assert [one["answer"] for one in best] == [one["answer"] for one in several]
            assert [one["nbest"][0]["answer"] for one in several] == [one["answer"] for one in best]
            for one in several if not penalty else []:
                scores = [way["log_prob"] for way in one["nbest"]]
                assert scores == sorted(scores, reverse=True)
    line = answers(backwards, write(tmp_path / "y", "a b\n"), nbest=3, scores=True).rstrip("\n").split("\t")
    assert len(line) == 6
    assert line[0] == "B A"


def test_the_score_of_an_answer_is_that_of_saying_it(backwards: RunDir, german: RunDir) -> None:
    for run, rows in ((backwards, reversed_pairs(20, seed=8)), (german, sentences(20, seed=8))):
        predictor, sources = loaded(run), sources_of(run, rows)
        found = [row[0] for row in answers_of(predictor.exact, sources, predictor.corpus, Asking(4, 1.0))]
        said = looked_at(predictor.exact, sources, found, predictor.corpus, Asking(rows=3))
        assert all(one.finished for one in found)
        for one, looked in zip(found, said, strict=True):
            assert looked.log_probs.sum() == pytest.approx(one.log_prob, abs=1e-4)
            assert len(looked.log_probs) == len(one.tokens) + 1
    predictor, sources = loaded(backwards), sources_of(backwards, reversed_pairs(20, seed=8))
    reading = predictor.exact.read(sources)
    stop = predictor.corpus.target.vocabulary.stop
    cut = [row[0] for row in Greedy().decode(reading, *reading.init_state(), stop=stop, max_tokens=2)]
    assert {one.finished for one in cut} == {True, False}
    for one, looked in zip(cut, looked_at(predictor.exact, sources, cut, predictor.corpus, Asking()), strict=True):
        assert looked.log_probs.sum() == pytest.approx(one.log_prob, abs=1e-4)
        assert len(looked.log_probs) == len(one.tokens) + one.finished


def test_the_loss_is_the_sum_of_the_steps_and_hangs_on_no_batch(german: RunDir) -> None:
    predictor = loaded(german)
    learner = TRANSLATION.learner(predictor.config, german.path / "data")
    learner.network.load_state_dict(predictor.network.state_dict())
    learner.network.eval()
    some = np.array([5, 0, 17, 3])
    whole = learner.loss(some).item()
    assert whole == pytest.approx(sum(learner.loss(np.array([row])).item() for row in some), rel=1e-5)
    stepped = 0.0
    for row in some.tolist():
        reading = predictor.exact.read([learner.train.sources[row]])
        state, token = reading.init_state()
        for target in learner.train.targets[row].tolist():
            log_probs, state = reading.step(state, token)
            stepped -= float(log_probs[0, target])
            token = np.array([target])
    assert stepped == pytest.approx(whole, rel=1e-5)


def test_validation_judges_as_evaluation_does(german: RunDir, tmp_path: Path) -> None:
    predictor = loaded(german)
    learner = TRANSLATION.learner(predictor.config, german.path / "data")
    learner.network.load_state_dict(predictor.network.state_dict())
    found, pairs = learner.validate(), learner.corpus.parts["valid"]
    rows = [(pair.source, pair.targets[0]) for pair in pairs]
    greedy = working.load(german.path)
    object.__setattr__(greedy, "config", config(("a", "b"), {"tokeniser": "bpe"}, search={"beam": 1}))
    report = greedy.evaluate(list(parallel(tmp_path, rows)), unwatched)
    assert found.worth == pytest.approx(-report.value)
    assert found.loss == pytest.approx(report.measures["nats"], rel=1e-5)


def weights(run: RunDir) -> bytes:
    """The best model and the last checkpoint, byte for byte."""
    arrays, _ = run.load_checkpoint() or ({}, {})
    return (run.path / "model.safetensors").read_bytes() + b"".join(arrays[name].tobytes() for name in sorted(arrays))


@pytest.mark.parametrize("stop_at", [1, 5, 9])
def test_training_stopped_and_resumed_is_training_uninterrupted(stop_at: int, tmp_path: Path) -> None:
    """The file it was made from is gone by then; words are drawn, with a share that rises."""
    train = write(tmp_path / "train", columns(reversed_pairs(100)))
    options = {"scheduled_sampling": 0.5, "sampling_to": 0.6, "accumulate": 2}
    plan = config((train,), model={"dropout": 0.3, "label_smoothing": 0.1}, epochs=3, rows=12, **options)
    whole, again = trained(plan, tmp_path / "whole"), trained(plan, tmp_path / "again")
    assert weights(again) == weights(whole)
    with stopped_at(stop_at):
        trained(plan, tmp_path / "parts")
    Path(train).unlink()
    assert weights(working.resume(tmp_path / "parts", Callbacks())) == weights(whole)


def test_a_loaded_run_says_the_same_in_a_fresh_process(german: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", "".join(f"{line}\n" for line, _ in sentences(9, seed=3)) + "\n")
    command = [sys.executable, "-m", "ostinato", "predict", str(german.path), source, "--scores", "--align"]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    assert done.stdout == answers(german, source, scores=True, align=True)
    assert "lines without anything to translate, which are answered by empty ones: 1" in done.stderr


def test_the_share_of_drawn_words_rises_as_training_goes_on(tmp_path: Path) -> None:
    train = (write(tmp_path / "t", columns(reversed_pairs(100))),)
    options = {"scheduled_sampling": 0.4, "sampling_from": 0.25, "sampling_to": 0.75}
    plan = config(train, epochs=4, **options)
    run = trained(config(train, epochs=1), tmp_path / "run")
    learner = TRANSLATION.learner(plan, run.path / "data")
    first, later, last = (learner.batches(epoch) for epoch in (0, 2, 3))
    assert [batch.sampling for batch in (first[0], first[len(first) - 1], later[0], last[0])] == pytest.approx(
        [0, 0, 0.4 * (2 / 4 - 0.25) / 0.5, 0.4]
    )
    learner.network.train()
    rows = np.arange(20)
    losses = []
    for learner.sampling in (0.0, 0.9):
        losses.append(learner.loss(rows).item())
    assert losses[0] != losses[1]


def test_words_that_are_not_known_are_copied_by_alignment(tmp_path: Path) -> None:
    """Letters that training has seen once only are unknown on both sides; `#x` is said as `#x`."""
    rows = [(source, " ".join(reversed(source.split()))) for source, _ in reversed_pairs(900)]
    rows = [(f"{s} #{number}", f"#{number} {t}") for number, (s, t) in enumerate(rows)]
    data, model = {"min_count": 2, "tokeniser": "blank"}, {"copy_unknown": True}
    run = trained(config((write(tmp_path / "t", columns(rows)),), data, model), tmp_path / "run")
    source = write(tmp_path / "x", "a b c #new\na b\n")
    assert answers(run, source).split("\n")[0] == "#new c b a"
    assert "<unk>" not in answers(run, source)
    (said, _) = objects(run, source, align=True)
    assert said["alignment"]["target"] == ["#new", "c", "b", "a"]


def test_the_length_penalty_is_chosen_on_validation_data_and_kept(
    german: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunDir.open(shutil.copytree(german.path, tmp_path / "copy"), TASK)
    predictor = loaded(run)
    found = iter([20.0, 21.0, 23.0, 22.0, 22.5, 24.0])  # after two without a gain no larger one is tried
    monkeypatch.setattr(predict, "measured", lambda *given: next(found))
    said = predictor.tune(unwatched)
    kept = json.loads((run.path / "tuned.json").read_text())
    assert kept["length_penalty"] == predictor.length_penalty == loaded(run).length_penalty == 0.4
    assert kept["valid"] == {"0.0": 20.0, "0.2": 21.0, "0.4": 23.0, "0.6": 22.0, "0.8": 22.5}
    assert "length penalty 0.4 is best on the validation data (BLEU 0: 20.00, 0.2: 21.00" in said
    assert "penalty0.4" in predictor.evaluate((), unwatched).signature
    (run.path / "tuned.json").write_text('{"length_penalty": 1.5}')
    assert loaded(run).asking(PredictOptions()).length_penalty == 1.5
    assert loaded(run).asking(PredictOptions(length_penalty=0.5)).length_penalty == 0.5
    (run.path / "tuned.json").write_text("{}")
    with pytest.raises(FormatError, match="tune again"):
        loaded(run).evaluate((), unwatched)


def test_bfloat16_says_nearly_the_same(german: RunDir, tmp_path: Path) -> None:
    source = write(tmp_path / "x", "".join(f"{line}\n" for line, _ in sentences(40, seed=4)))
    whole, narrow = objects(german, source), objects(german, source, precision="bf16")
    assert [one["log_prob"] for one in whole] != [one["log_prob"] for one in narrow]
    same = [one["answer"] == other["answer"] for one, other in zip(whole, narrow, strict=True)]
    assert np.mean(same) > 0.9


def test_training_in_bfloat16_learns_too(tmp_path: Path) -> None:
    train = (write(tmp_path / "t", columns(reversed_pairs(600, most=4))),)
    run = trained(config(train, model={"attend": "after"}, precision="bf16", epochs=12), tmp_path / "run")
    assert loaded(run).evaluate((), unwatched).value > 90
