"""The benchmark beside gensim: both sides do the same work with the same options, and what they say becomes rows."""

from __future__ import annotations

import json
import random
from contextlib import ExitStack
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from ostinato.bench import embed, embed_case, embed_ours, embed_sides
from ostinato.bench.blocks import Block
from ostinato.bench.embed_case import CASES, answer, keep, kept
from ostinato.bench.embed_sides import Bench, Quality, Size, work_of
from ostinato.bench.measure import Row, Sample
from ostinato.core.errors import ConfigError, MismatchError
from ostinato.embed.options import VectorOptions

FAMILY = [
    "boy",
    "girl",
    "brother",
    "sister",
    "dad",
    "mom",
    "father",
    "mother",
    "he",
    "she",
    "his",
    "her",
    "king",
    "queen",
]
TINY = Size(True, 1 << 20, 1 << 20, 1, 1, (3, 1), (50, 8), 0)


def write(path: Path, lines: int = 3000) -> Path:
    """A text of the words that the family section of the analogies asks for."""
    chance = random.Random(1)
    path.write_text("".join(" ".join(chance.choices(FAMILY, k=8)) + "\n" for _ in range(lines)), "utf8")
    return path


def make(folder: Path, text: Path, **more: object) -> Bench:
    """A benchmark of ours alone."""
    fields = {"peer": "gensim", "data": None, "note": str, "stack": ExitStack()} | more
    return Bench(text=text, size=TINY, folder=folder, **fields)  # type: ignore[arg-type]


def block(**said: object) -> list[Block]:
    """One answer of a side."""
    return [Block({"cpu_s": 0.1, "loss": 1.0, **said}, 0.0)]


def test_every_case_has_its_name_and_every_thing_asked_of_gensim_is_asked_of_us():
    pytest.importorskip("gensim")
    from ostinato.bench import embed_peer

    assert list(embed.CASES) == list(get_args(embed.CaseName))
    assert set(CASES) | set(embed.QUICK) <= set(embed.CASES)
    assert set(embed_peer.ACTIONS) < set(embed_ours.ACTIONS)


def test_what_is_over_too_soon_is_done_again_and_the_median_counts():
    """By hand: 0.1 + 0.3 + 0.2 is the first sum above 0.5, and 0.2 its median; 0.9 is enough at once."""
    took = iter([0.1, 0.3, 0.2, 0.9])
    actions = {"work": lambda times: {"s": next(took), "times": times}, "look": lambda: {"seen": 1}}
    first, second = (answer(actions, {"do": "work", "times": 3}) for _ in range(2))
    assert (first["s"], first["times"], second["s"]) == (0.2, 3, 0.9)
    assert first["cpu"] >= 0
    assert first["peak_bytes"] > 1e6
    assert answer(actions, {"do": "look"})["seen"] == 1


def test_vectors_reach_the_other_side_bit_for_bit(tmp_path):
    array = np.random.default_rng(0).standard_normal((2, 5)).astype(np.float32)
    keep(str(tmp_path / "v"), ("a", "ü b"), array)
    words, found = kept(str(tmp_path / "v"))
    assert words == ["a", "ü b"]
    assert found.tobytes() == array.tobytes()


def test_the_beginning_of_a_text_is_whole_lines(tmp_path):
    text = write(tmp_path / "text", 100)
    bench = make(tmp_path, text)
    lines = text.read_bytes().splitlines(keepends=True)
    size = len(lines[0]) + 1  # ends inside the second line
    assert Path(bench.beginning(size)).read_bytes() == lines[0] + lines[1]
    assert bench.head == bench.whole == str(text)


def test_sides_that_do_not_do_the_same_work_are_not_compared():
    """A thousandth of the words may differ (odd white space), and of the share kept by chance a fiftieth, or 5 sigma.

    That one side reads some words twice does not matter: both are measured by what they read.
    """
    ours = block(words=2_000_000, known=1_000_000, kept=1_500_000)
    facts = work_of([ours, block(words=2_200_000, known=1_000_500, kept=1_640_000)])
    assert facts == {"words": 2_000_000, "ours_kept": 1_500_000, "peer_kept": 1_640_000, "ours_loss": 1.0}
    assert "peer_kept" not in work_of([ours])
    for known, kept_words in ((1_100_000, 1_500_000), (1_000_000, 1_400_000)):
        with pytest.raises(MismatchError, match="do not do the same work"):
            work_of([ours, block(words=2_000_000, known=known, kept=kept_words)])
    few = block(words=1000, known=1000, kept=100)
    work_of([few, block(words=1000, known=1000, kept=130)])


def test_more_is_better_in_a_score_and_nothing_is_said_of_scores_below_zero():
    def row(ours: float, theirs: float | None) -> Row:
        return Quality("skip-gram", "set", "spearman", Sample((ours,)), theirs and Sample((theirs,)), "gensim")

    assert row(0.3, 0.2).ratio == 0.3 / 0.2
    assert row(0.3, None).ratio is row(0.3, -0.1).ratio is row(-0.3, -0.1).ratio is None
    assert row(0.3, 0.2).to_json("embed")["ratio"] == 0.3 / 0.2


def test_a_row_has_the_processor_seconds_of_both_sides(tmp_path):
    bench = make(tmp_path, write(tmp_path / "text", 10))
    row = bench.row("cbow", "what", "words/s", [[Block({"words/s": 8.0, "cpu_s": 2.0}, 0.0)]] * 2, words=3)
    assert (row.ratio, row.facts) == (1.0, {"foreign": 0.0, "cpu_ratio": 1.0, "words": 3})
    alone = bench.row("cbow", "what", "words/s", [[Block({"words/s": 8.0, "cpu_s": 2.0}, 0.5)]])
    assert (alone.theirs, alone.facts) == (None, {"foreign": 0.5, "cpu_ratio": None})


def test_the_speed_corpus_is_looked_for_beside_the_checkout_and_in_the_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(embed_sides.ostinato, "__file__", str(tmp_path / "checkout" / "src" / "ostinato" / "x.py"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert embed_sides.speed_corpus() is None
    for folder in (tmp_path / "cache" / "ostinato", tmp_path):
        folder.mkdir(parents=True, exist_ok=True)
        write(folder / "speed.txt", 1)
        assert embed_sides.speed_corpus() == folder / "speed.txt"


def test_a_text_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        next(embed.run(text=tmp_path / "none"))


def test_without_gensim_ours_alone_is_measured_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(embed, "gensim", lambda: ("gensim", None))
    monkeypatch.setattr(Size, "of", lambda *given: TINY)
    said: list[str] = []
    rows = list(embed.run(("vocabulary", "format", "analogies"), write(tmp_path / "text"), note=said.append))
    assert [(row.case, row.unit) for row in rows] == [*[("vocabulary", "words/s")] * 2, *[("format", "s")] * 2]
    assert all(row.theirs is None and row.ratio is None and row.peer == "gensim" for row in rows)
    assert rows[0].facts["words"] == 8 * 3000
    assert "gensim was not found" in said[0]
    assert said[-1].startswith("analogies: left out")


def test_both_sides_do_the_same_in_processes_of_their_own(tmp_path, monkeypatch):
    pytest.importorskip("gensim")
    monkeypatch.setattr(Size, "of", lambda *given: TINY)
    text = write(tmp_path / "text")
    rows = list(embed.run(("skip-gram", "vocabulary", "format", "analogies"), text))
    units = [(row.case, row.unit) for row in rows]
    assert units[0] == units[-6] == ("skip-gram", "words/s")
    assert units[-5:] == [*[("vocabulary", "words/s")] * 2, *[("format", "s")] * 2, ("analogies", "questions/s")]
    assert ("skip-gram", "accuracy") in units
    assert rows[0].facts["words"] == 3 * 8 * 3000
    assert all(row.theirs is not None and row.peer.startswith("gensim 4") for row in rows)
    json.dumps([row.to_json("embed") for row in rows])


def test_gensim_gets_our_options():
    pytest.importorskip("gensim")
    from ostinato.bench.embed_peer import model_of

    cbow = model_of(VectorOptions(model="cbow-mean", window=7, epochs=2, dimensions=12), 2)
    assert (cbow.sg, cbow.cbow_mean, cbow.hs, cbow.negative, cbow.ns_exponent) == (0, 1, 0, 5, 0.75)
    assert (cbow.alpha, cbow.min_alpha, cbow.window, cbow.epochs, cbow.workers) == (0.05, 1e-4, 7, 2, 2)
    assert (cbow.vector_size, cbow.sample, cbow.min_count) == (12, 1e-3, 5)
    tree = model_of(VectorOptions(loss="hierarchical-softmax", seed=3), 1)
    assert (tree.sg, tree.hs, tree.negative, tree.alpha, tree.seed) == (1, 1, 0, 0.025, 3)


def test_vectors_are_scored_as_gensim_scores_them(tmp_path):
    """Drawn vectors for the words of its own sets: the same correlation, the same questions answered alike."""
    models = pytest.importorskip("gensim.models")
    _, data = embed_sides.gensim()
    pairs, questions = (str(data / name) for name in ("wordsim353.tsv", "questions-words.txt"))
    lines = [line.split("\t") for line in Path(pairs).read_text("utf8").splitlines() if not line.startswith("#")]
    words = list(dict.fromkeys([*(word.lower() for line in lines for word in line[:2]), *FAMILY]))
    array = np.random.default_rng(0).standard_normal((len(words), 8)).astype(np.float32)
    keep(str(tmp_path / "v"), words, array)
    theirs = models.KeyedVectors(8)
    theirs.add_vectors(words, array)
    scores = embed_ours.score(str(tmp_path / "v"), [pairs, questions])["scores"]
    _, (spearman, _), outside = theirs.evaluate_word_pairs(pairs)
    assert scores[pairs] == [pytest.approx(spearman, abs=1e-4), 353, 353]
    assert outside == 0
    accuracy, sections = theirs.evaluate_word_analogies(questions, restrict_vocab=embed_case.RESTRICT)
    answered = len(sections[-1]["correct"]) + len(sections[-1]["incorrect"])
    assert scores[questions][:2] == [pytest.approx(accuracy), answered]
    assert answered > 0


def test_the_command_says_what_was_asked_for(capsys, monkeypatch):
    from ostinato.cli import app

    asked = []

    def rows(*given):
        asked.append(given[:-1])
        yield Quality("cbow", "WordSim-353", "spearman", Sample((0.5,)), Sample((0.25,)), "gensim 4.4.0")

    monkeypatch.setattr(embed, "run", rows)
    assert app.run(["bench", "embed", "--case", "cbow", "tree", "--text", "speed.txt", "--runs", "2", "--json"]) == 0
    assert asked == [(("cbow", "tree"), Path("speed.txt"), 2, False)]
    line = json.loads(capsys.readouterr().out)
    assert (line["bench"], line["case"], line["unit"], line["ratio"]) == ("embed", "cbow", "spearman", 2.0)
    assert app.run(["bench", "embed", "--quick"]) == 0
    assert "WordSim-353" in capsys.readouterr().out
    assert app.run(["bench", "embed", "--case", "glove"]) == 2
