"""The benchmark of sequence tasks: both sides do the same work, and the rows say what was measured."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ostinato.bench import tasks, tasks_joeynmt, tasks_ours, tasks_peer
from ostinato.bench.blocks import Effort, Worker
from ostinato.bench.tasks_case import (
    TagCase,
    TranslateCase,
    config_of,
    corpus_of,
    drawn_pairs,
    drawn_sentences,
    drawn_words,
)
from ostinato.core.errors import ConfigError, DataError
from ostinato.decode import Beam
from ostinato.nn.encoder_decoder import EncoderDecoder
from ostinato.tasks.translation.encoding import Encoded
from ostinato.tasks.translation.learner import TranslationLearner, new_network

TINY = TranslateCase("tiny", 60, 16, length=6, tokens=60, pairs=40, dropout=0.0, rate=0.01)


def sides(case: TranslateCase = TINY, hoisted: bool = True) -> tuple[Encoded, EncoderDecoder, tasks_peer.Seq2Seq]:
    """The pairs, our network, and the loop's with its weights."""
    corpus = corpus_of(case)
    encoded = Encoded(corpus, corpus.parts["train"])
    ours = new_network(config_of(case, "fp32", 1), corpus, encoded)
    theirs = tasks_peer.Seq2Seq(case, hoisted)
    theirs.take(ours)
    return encoded, ours, theirs


def test_pairs_are_drawn_alike_with_lengths_about_the_mean() -> None:
    case = replace(TINY, pairs=3000, length=15)
    first, again = drawn_pairs(case), drawn_pairs(case)
    assert all((a == c).all() and (b == d).all() for (a, b), (c, d) in zip(first[:50], again[:50], strict=True))
    sources, targets = (np.array([len(pair[side]) for pair in first]) for side in (0, 1))
    assert sources.mean() == pytest.approx(15, rel=0.05)
    assert 0.25 < sources.std() / sources.mean() < 0.4
    assert targets.mean() / sources.mean() == pytest.approx(1, abs=0.03)
    assert max(int(ids.max()) for pair in first for ids in pair) < case.vocabulary - 2
    encoded = Encoded(corpus := corpus_of(TINY), corpus.parts["train"])
    for (source, target), mine, said in zip(drawn_pairs(TINY), encoded.sources, encoded.targets, strict=True):
        pieces = [corpus.source.vocabulary.pieces[one] for one in mine]
        assert pieces == [str(one) for one in source.tolist()]
        assert len(said) == len(target) + 1


@pytest.mark.parametrize("hoisted", [False, True])
def test_the_loop_is_the_same_network_as_ours(hoisted: bool) -> None:
    """Same weights, same batch: the same loss, and the same gradient of what both have."""
    encoded, ours, theirs = sides(hoisted=hoisted)
    batch = encoded.batch(np.arange(9), torch.device("cpu"))
    count = float(batch.weight.sum())
    mine = ours.loss(*batch) / count
    other = tasks_peer.loss_of(theirs, batch)
    torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    mine.backward()
    other.backward()
    given = dict(ours.named_parameters())
    for name, parameter in (
        ("decoder.readout.weight", theirs.readout.weight),
        ("encoder.embedding.weight", theirs.embedding.weight),
        ("encoder.stack.backwards.0.from_input.weight", theirs.encoder.weight_ih_l0_reverse),
        ("decoder.stack.layers.0.from_hidden.weight", theirs.cell.weight_hh),
    ):
        torch.testing.assert_close(given[name].grad, parameter.grad, rtol=1e-3, atol=1e-6)
    padded = batch.sources.clone()
    padded[batch.lengths[:, None] <= torch.arange(padded.shape[1])] = 5
    torch.testing.assert_close(tasks_peer.loss_of(theirs, batch._replace(sources=padded)), other)


def test_planned_answers_end_where_the_targets_do_and_are_searched_by_the_network() -> None:
    encoded, ours, _ = sides()
    corpus = corpus_of(TINY)
    stop = corpus.target.vocabulary.stop
    translator = tasks_ours.PlannedTranslator(ours.eval())
    translator.plan(encoded.sources, encoded.targets, stop)
    reading = translator.read(encoded.sources[:7])
    found = Beam(width=5).decode(reading, *reading.init_state(), stop=stop, max_tokens=99)
    assert [len(row[0].tokens) for row in found] == [len(target) - 1 for target in encoded.targets[:7]]
    plain = translator.score(encoded.sources[:7], [np.array(row[0].tokens) for row in found])
    for row, (log_probs, _) in zip(found, plain, strict=True):
        assert row[0].log_prob == pytest.approx(float(log_probs.sum()), abs=1e-3)  # the planned stop costs nothing


def test_sentences_are_drawn_in_columns() -> None:
    case = TagCase(types=300, sentences=0)
    words = drawn_words(300)
    assert len(set(words)) == 300
    assert np.mean([len(word) for word in words[:30]]) < np.mean([len(word) for word in words[-30:]])
    text = drawn_sentences(case, 400)
    blocks = text.strip().split("\n\n")
    assert len(blocks) == 400
    assert np.mean([block.count("\n") + 1 for block in blocks]) == pytest.approx(case.length, rel=0.15)
    assert {line.split("\t")[0] for block in blocks for line in block.split("\n")} <= set(words)
    assert drawn_sentences(case, 400) == text


def test_tagging_is_that_of_predict(tmp_path: Path) -> None:
    once = tasks_ours.tag(TagCase(types=200, sentences=30), tmp_path)
    assert once() == 30


def test_batches_of_joeynmt_are_made_by_its_rule(tmp_path: Path) -> None:
    bench = tasks.Bench(tmp_path, 1, Effort(1, 0.0, 0), 2, True, None, lambda text: None)
    content = np.load(bench.pairs(TINY))
    sources, targets = tasks_joeynmt.rows_of(content)
    pairs = drawn_pairs(TINY)
    assert [row[:-1] for row in sources] == [[one + 4 for one in source.tolist()] for source, _ in pairs]
    assert all(row[0] == tasks_joeynmt.BEGIN and row[-1] == tasks_joeynmt.END for row in targets)
    batches = tasks_joeynmt.shuffled(sources, targets, 60)
    seen = [row for batch in batches for row in batch]
    assert len(seen) == len(set(seen))
    for batch in batches:
        longest = [max(len(sources[row]), len(targets[row]) - 1) for row in batch]
        assert max(longest) * len(batch) >= 60 > max(longest[:-1], default=0) * (len(batch) - 1)
    corpus = corpus_of(TINY)
    encoded = Encoded(corpus, corpus.parts["train"])
    config = config_of(TINY, "fp32", 1)
    ours = TranslationLearner(corpus, new_network(config, corpus, encoded), config, encoded).batches(0)
    given = np.split(content["rows"], content["bounds"])
    assert [part.tolist() for part in given] == [ours[number].rows.tolist() for number in range(len(ours))]
    assert tasks_joeynmt.padded([[1, 2], [3]]).tolist() == [[1, 2], [3, tasks_joeynmt.PAD]]


def test_both_sides_train_and_the_rows_compare_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real processes on a tiny case: losses agree, and medians, units and peers are where they belong."""
    monkeypatch.setattr(tasks.Bench, "translator", replace(TINY, pairs=200))
    notes: list[str] = []
    bench = tasks.Bench(tmp_path, 1, Effort(1, 0.0, 0), 3, True, None, notes.append)
    fp32, bf16 = tasks.trained(bench)
    assert fp32.unit == "target tokens/s"
    assert fp32.peer == "PyTorch loop, fp32"
    assert fp32.facts["ours_loss"] == pytest.approx(fp32.facts["peer_loss"], rel=1e-2)
    assert fp32.theirs is not None
    assert fp32.ratio == pytest.approx(fp32.ours.median / fp32.theirs.median)
    assert ("float32" in fp32.facts["engine"], "bf16" in bf16.facts["engine"]) == (True, True)
    (alone, _) = tasks.beside_joeynmt(bench)
    assert (alone.peer, alone.theirs, alone.ratio) == ("JoeyNMT", None, None)
    assert any("joeynmt: is not installed" in note for note in notes)
    (row,) = tasks.sentences(
        bench, "beam", [("beam", replace(TINY, pairs=8), {"precision": "fp32", "rows": 4}, "five")]
    )
    assert (row.case, row.unit, row.what) == ("beam", "sentences/s", "five, 1 thread")
    assert row.ours.median > 0


def test_a_side_can_be_run_by_another_interpreter() -> None:
    """What it sees of ours is serve.py; a JoeyNMT that is not there is told with its reason."""
    told: dict[str, Any] = {"case": asdict(TINY), "pairs": "none", "batches": "own", "seed": 1, "threads": 1}
    with Worker("tasks_joeynmt", told, 1, python=sys.executable) as worker:
        assert worker.command[0] == sys.executable
        if tasks.found(None) is None:
            with pytest.raises(DataError, match="joeynmt"):
                worker.ask(updates=1)
    for python in (str(Path(sys.executable).parent / "no-such-python"), "/bin/false"):
        with pytest.raises(ConfigError, match="cannot import joeynmt"):
            tasks.found(python)


def test_the_command_names_its_cases(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from ostinato.bench.measure import Row, Sample
    from ostinato.cli.app import run as cli

    asked: list[Any] = []

    def fake(*given: Any) -> Any:
        asked.append(given[:-1])
        yield Row("train", "fp32", "target tokens/s", Sample((3.0, 4.0, 5.0)), Sample((2.0,)), "PyTorch loop, fp32")

    monkeypatch.setattr(tasks, "run", fake)
    assert cli(["bench", "tasks", "--case", "train", "beam", "--quick", "--json"]) == 0
    assert asked == [(("train", "beam"), 1, None, None, True)]
    said = json.loads(capsys.readouterr().out)
    assert (said["bench"], said["ratio"], said["ours"], said["peer"]) == ("tasks", 2.0, 4.0, 2.0)
