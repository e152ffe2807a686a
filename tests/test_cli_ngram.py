"""The commands `ostinato ngram ...` from end to end: results, files, and one line for everything that goes wrong."""

from __future__ import annotations

import gzip
import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corpus import lines, write
from ostinato.cli.app import run as cli
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.arpa import read_arpa
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import count
from ostinato.ngram.files import open_any
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.ngram.store import open_counts, open_model
from ostinato.tasks.language.ngrams import lower_order
from ostinato.tasks.language.reshape import plain


class Answer:
    """What a command said and returned."""

    def __init__(self, code: int, out: str, err: str):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def ngram(capsys: pytest.CaptureFixture[str]) -> Any:
    """A function that runs `ostinato ngram ...` in this process."""

    def call(*words: object) -> Answer:
        capsys.readouterr()
        code = cli(["ngram", *map(str, words)])
        return Answer(code, *capsys.readouterr())

    return call


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with texts, a trigram model, its counts, and a packed model."""
    home = tmp_path_factory.mktemp("home")
    write(home / "text.txt")
    write(home / "other.txt", 60, seed=5)
    for words in (
        ("estimate", home / "text.txt", "--order", "3", "--out", home / "kn.ngram"),
        ("count", home / "text.txt", "--order", "3", "--out", home / "text.counts"),
        ("quantise", home / "kn.ngram", "--out", home / "small.ngram"),
    ):
        assert cli(["ngram", *map(str, words), "-q"]) == 0
    return home


def model_of(path: Path) -> NGramModel:
    return plain(open_any(path))


def log_probs(model: NGramModel, text: list[str]) -> np.ndarray:
    """What a model gives each token of some lines."""
    ids = [[*model.vocabulary.ids(line.split()).tolist(), model.vocabulary.stop] for line in text]
    ends = np.cumsum([len(line) for line in ids])
    return model.score_lines(np.concatenate(ids).astype(np.int32), ends)


def same_models(first: NGramModel, second: NGramModel) -> None:
    text = [*lines(40, seed=3), "", "never seen", "天 天 the"]
    np.testing.assert_allclose(log_probs(first, text), log_probs(second, text), rtol=1e-5, atol=1e-6)


def counted(path: Path, order: int) -> tuple[Any, Vocabulary]:
    """The counts of a text by the Python interface, its words numbered by frequency."""
    words = [line.split() for line in path.read_text("utf8").splitlines()]
    frequency: dict[str, int] = {}
    for word in (word for line in words for word in line):
        frequency[word] = frequency.get(word, 0) + 1
    vocabulary = Vocabulary(sorted(frequency, key=lambda word: -frequency[word]))
    ids = np.concatenate([[*vocabulary.ids(line), vocabulary.stop] for line in words])
    return count(ids.astype(np.int64), vocabulary, order), vocabulary


# estimate


def test_estimate_is_what_the_python_interface_gives(ngram: Any, home: Path, tmp_path: Path) -> None:
    for smoothing in ("modified-kneser-ney", "witten-bell", "absolute-backoff"):
        out = tmp_path / smoothing
        answer = ngram("estimate", home / "text.txt", "--order", 3, "--smoothing", smoothing, "--out", out, "--json")
        counts, vocabulary = counted(home / "text.txt", 3)
        table = smoothings[smoothing]().fit(counts)
        assert model_of(out).vocabulary == vocabulary
        np.testing.assert_array_equal(model_of(out).table.rows, table.rows)
        assert answer.json["ngrams"] == list(table.ngrams)
        assert answer.json["smoothing"] == smoothing
        assert answer.json["files"] == {str(out): out.stat().st_size}
        assert answer.json["tokens"] == sum(len(line.split()) + 1 for line in lines(400))


def test_estimate_shows_ngrams_and_discounts_by_order(ngram: Any, home: Path, tmp_path: Path) -> None:
    answer = ngram("estimate", home / "text.txt", "--order", 3, "--out", tmp_path / "m")
    table = model_of(tmp_path / "m").table
    rows = [line.split() for line in answer.out.splitlines()]
    assert rows[0] == ["order", "n-grams", "discounts"]
    for order, values in enumerate(table.discounts, 1):
        assert rows[order] == [str(order), f"{table.ngrams[order - 1]:,}", *(f"{value:.4f}" for value in values)]
    assert "wrote" in answer.out


def test_notes_go_to_standard_error(ngram: Any, tmp_path: Path) -> None:
    (tmp_path / "tiny.txt").write_text("a b\nb c\n")
    answer = ngram("estimate", tmp_path / "tiny.txt", "--order", 2, "--out", tmp_path / "m")
    assert answer.code == 0
    assert "stood in" in answer.err
    assert "stood in" not in answer.out


def test_an_arpa_file_and_a_model_file_say_the_same(ngram: Any, home: Path, tmp_path: Path) -> None:
    words = ("estimate", home / "text.txt", "--order", 3, "-q")
    assert ngram(*words, "--out", tmp_path / "m", "--arpa", tmp_path / "both.arpa.gz").code == 0
    assert ngram(*words, "--arpa", tmp_path / "alone.arpa").code == 0
    assert gzip.decompress((tmp_path / "both.arpa.gz").read_bytes()) == (tmp_path / "alone.arpa").read_bytes()
    same_models(model_of(tmp_path / "m"), model_of(tmp_path / "alone.arpa"))


def test_standard_input_to_standard_output(home: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ostinato", "ngram", "estimate", "-", "--order", "3", "--arpa", "-"]
    with (home / "text.txt").open("rb") as text:
        answer = subprocess.run(words, stdin=text, capture_output=True, timeout=120, cwd=tmp_path)
    (tmp_path / "out.arpa").write_bytes(answer.stdout)
    same_models(model_of(tmp_path / "out.arpa"), model_of(home / "kn.ngram"))
    assert b"discounts" in answer.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.arpa"]


def test_empty_lines_are_sentences_as_for_kenlm(ngram: Any, tmp_path: Path) -> None:
    (tmp_path / "gaps.txt").write_text("a b\n\nb a\n\n\n")
    kept = ngram("estimate", tmp_path / "gaps.txt", "--order", 1, "--out", tmp_path / "kept", "--json").json
    words = ("--empty-lines", "skip", "--json")
    left = ngram("estimate", tmp_path / "gaps.txt", "--order", 1, "--out", tmp_path / "left", *words).json
    assert (kept["lines"], left["lines"]) == (5, 2)


def test_pruned_ngrams_are_left_out(ngram: Any, home: Path, tmp_path: Path) -> None:
    words = ("estimate", home / "text.txt", "--order", 3, "--out", tmp_path / "m", "--prune", 0, 1, 2, "--json")
    counts, _ = counted(home / "text.txt", 3)
    kept = [int((counts.count[counts.trie.level(order)] > limit).sum()) for order, limit in ((2, 1), (3, 2))]
    assert ngram(*words).json["ngrams"][1:] == kept


def test_the_vocabulary_can_be_limited(ngram: Any, home: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("the\ncat\nzebra\n")
    words = (
        "estimate",
        home / "text.txt",
        "--order",
        2,
        "--out",
        tmp_path / "m",
        "--vocabulary",
        tmp_path / "words.txt",
    )
    assert ngram(*words).code == 0
    assert model_of(tmp_path / "m").vocabulary.pieces[2:-2] == ("the", "cat", "zebra")
    assert ngram("estimate", home / "text.txt", "--limit", 3, "--out", tmp_path / "three").code == 0
    assert model_of(tmp_path / "three").outputs == 5


def test_the_unknown_word_gets_what_is_asked_for(ngram: Any, home: Path, tmp_path: Path) -> None:
    """By hand on "a a b" with D = n1 / (n1 + 2 n2): of a, b, </s> (2, 1, 1), D = 2 / (2 + 2) = 1/2; 3 / 2 is left."""
    (tmp_path / "text.txt").write_text("a a b\n")
    words = ("estimate", tmp_path / "text.txt", "--order", 1, "--smoothing", "absolute", "--force", "--out")
    left = 3 / 2 / 4
    for unknown, share in (("kenlm", left / 4), ("srilm", left), ("closed", 0.0)):
        assert ngram(*words, tmp_path / "m", "--unknown", unknown).code == 0
        found = np.exp(model_of(tmp_path / "m").table.log_prob()[1])
        assert found == pytest.approx(share, rel=1e-6)


def test_heldout_text_chooses_the_numbers(ngram: Any, home: Path, tmp_path: Path) -> None:
    words = ("estimate", home / "text.txt", "--order", 2, "--smoothing", "jelinek-mercer", "--out", tmp_path / "m")
    answer = ngram(*words, "--heldout", home / "other.txt")
    assert "on the held-out text" in answer.err


# count


def test_an_estimate_from_counts_is_that_from_the_text(ngram: Any, home: Path, tmp_path: Path) -> None:
    words = ("estimate", home / "text.counts", "--memory", "500M", "--threads", 1, "--out", tmp_path / "m")
    assert ngram(*words).code == 0
    np.testing.assert_array_equal(model_of(tmp_path / "m").table.rows, model_of(home / "kn.ngram").table.rows)


def test_a_lower_order_is_cut_out_of_counts(home: Path) -> None:
    whole, label = open_counts(home / "text.counts")
    for order in (1, 2, 3):
        direct, vocabulary = counted(home / "text.txt", order)
        cut = lower_order(whole, order)
        assert label.vocabulary == vocabulary
        for name in ("word", "first_child", "suffix"):
            np.testing.assert_array_equal(getattr(cut.trie, name), getattr(direct.trie, name))
        np.testing.assert_array_equal(cut.count, direct.count)
        assert (cut.tokens, cut.lines, cut.trie.ngrams) == (direct.tokens, direct.lines, direct.trie.ngrams)


texts = st.lists(st.lists(st.sampled_from("abcdefg"), max_size=5), min_size=2, max_size=8).filter(
    lambda found: len({word for line in found for word in line}) > 1
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts, texts)
def test_counts_added_are_those_of_the_texts_together(tmp_path: Path, first: Any, second: Any) -> None:
    def text(name: str, content: Any) -> str:
        (tmp_path / name).write_text("".join(" ".join(line) + "\n" for line in content))
        return str(tmp_path / name)

    parts = text("1.txt", first), text("2.txt", second), text("12.txt", first + second)
    one, both, whole = (str(tmp_path / name) for name in ("one", "both", "whole"))
    for words in (
        ("count", parts[0], "--out", one, "--order", "3"),
        ("count", parts[1], "--add", one, "--out", both),
        ("count", parts[2], "--out", whole, "--order", "3"),
        ("estimate", both, "--out", both + ".ngram"),
        ("estimate", whole, "--out", whole + ".ngram"),
    ):
        assert cli(["ngram", *words, "--force", "-q"]) == 0
    together, direct = model_of(Path(both + ".ngram")), model_of(Path(whole + ".ngram"))
    assert set(together.vocabulary.pieces) == set(direct.vocabulary.pieces)
    assert together.table.ngrams == direct.table.ngrams
    lines_of = [" ".join(line) for line in first + second] + ["g f e d c b a", "never"]
    np.testing.assert_allclose(log_probs(together, lines_of), log_probs(direct, lines_of), rtol=1e-5, atol=1e-6)


def test_count_tells_what_it_counted(ngram: Any, home: Path, tmp_path: Path) -> None:
    answer = ngram("count", home / "other.txt", "--add", home / "text.counts", "--out", tmp_path / "c", "--json").json
    words = sum(len(line.split()) + 1 for line in lines(400) + lines(60, 5))
    assert (answer["tokens"], answer["lines"], len(answer["ngrams"])) == (words, 460, 3)
    text = ngram("count", home / "other.txt", "--out", tmp_path / "d")
    assert "60 lines" in text.out


# compare-smoothing


def test_every_smoothing_is_scored_as_evaluate_scores_it(ngram: Any, home: Path, tmp_path: Path, capsys: Any) -> None:
    words = ("compare-smoothing", home / "text.txt", "--valid", home / "other.txt", "--orders", 2, 3, "--json", "-q")
    rows = ngram(*words).json["rows"]
    assert {(row["smoothing"], row["order"]) for row in rows} == {
        (name, order) for name in smoothings for order in (2, 3)
    }
    for name in ("kneser-ney", "good-turing", "additive", "jelinek-mercer"):
        out = tmp_path / name
        tuned = ("--order", 3, "--smoothing", name, "--heldout", home / "other.txt", "-q")
        assert ngram("estimate", home / "text.txt", *tuned, "--out", out).code == 0
        capsys.readouterr()
        assert cli(["evaluate", str(out), str(home / "other.txt"), "--json", "-q"]) == 0
        alone = json.loads(capsys.readouterr().out)
        row = next(row for row in rows if (row["smoothing"], row["order"]) == (name, 3))
        assert row["valid"]["perplexity"] == pytest.approx(alone["perplexity"], rel=1e-6)
        assert row["valid"]["signature"] == alone["signature"]


def test_scores_tuned_and_impossible_ones_are_marked(ngram: Any, home: Path, tmp_path: Path) -> None:
    (tmp_path / "valid.txt").write_text("the cat sees zebras .\n")
    words = ("compare-smoothing", home / "text.txt", "--valid", tmp_path / "valid.txt", "--test", home / "text.txt")
    chosen = ("--smoothings", "mle", "additive", "stupid-backoff", "kneser-ney", "--orders", 3)
    answer = ngram(*words, *chosen)
    valid, test = answer.out.split("perplexity, test")
    assert "additive †" in valid
    assert "stupid-backoff ‡" in valid
    assert "scores, not probabilities" in answer.out
    assert [line.split()[-1] for line in valid.splitlines() if " mle " in line] == ["inf"]
    assert [line.split()[:2] for line in test.splitlines() if " mle " in line] == [["mle", "*"]]  # it was trained on it
    found = ngram(*words, *chosen, "--json").json
    assert found["best"]["smoothing"] in ("additive", "kneser-ney")
    assert next(row for row in found["rows"] if row["smoothing"] == "mle")["valid"]["perplexity"] is None


def test_state_of_the_union_gives_the_reference_perplexity(shared: Path, ngram: Any) -> None:
    """KenLM's modified Kneser-Ney on this text with the words seen three times."""
    folder = shared / "lm-sotu"
    texts = (folder / "train.txt.gz", "--valid", folder / "valid.txt", "--test", folder / "test.txt")
    chosen = ("--min-count", 3, "--orders", 3, 5, "--smoothings", "modified-kneser-ney")
    rows = ngram("compare-smoothing", *texts, *chosen, "--json", "-q").json["rows"]
    for row, valid, test in zip(rows, (104.58, 98.03), (94.28, 87.60), strict=True):
        assert row["valid"]["perplexity"] == pytest.approx(valid, rel=1e-3)
        assert row["test"]["perplexity"] == pytest.approx(test, rel=1e-3)


# looking into models


def test_explain_adds_up_to_what_score_says(ngram: Any, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = "the cat sees zebras 天 ."
    answer = ngram("explain", home / "kn.ngram", sentence, "--counts", home / "text.counts", "--json").json
    (home / "one.txt").write_text(sentence + "\n", "utf8")
    assert cli(["score", str(home / "kn.ngram"), str(home / "one.txt"), "--json"]) == 0
    scored = json.loads(capsys.readouterr().out)
    assert -answer["log_prob"] == pytest.approx(scored["nats"], rel=1e-5)
    assert [word["word"] for word in answer["words"]] == [*sentence.split(), "</s>"]
    assert [word["known"] for word in answer["words"]] == [True, True, True, False, True, True, True]
    assert answer["words"][0]["behind"]["context_count"] == 400  # lines of the text
    assert "zebras" in answer["remark"]


def test_explained_columns_are_aligned_in_chinese(ngram: Any, home: Path) -> None:
    from rich.cells import cell_len

    for more in ((), ("--counts", home / "text.counts")):
        out = ngram("explain", home / "kn.ngram", "the 天 follows 飛龍在天 .", *more).out.splitlines()
        assert out[4].startswith("飛龍在天 (unknown)")
        place = cell_len(out[0][: out[0].index("back-offs")])
        for row in out[1:7]:
            column = next(at for at in range(len(row)) if cell_len(row[:at]) == place)
            assert row[column - 2 : column] == "  "
            assert row[column].isdigit()
        assert "p(the | <s>)" in out[1]
        assert out[7].startswith("total ")
        assert "not in the vocabulary: 飛龍在天" in out[8]


def test_next_words_are_the_most_probable_ones(ngram: Any, home: Path) -> None:
    for name in ("kn.ngram", "small.ngram"):
        answer = ngram("next", home / name, "the cat", "-k", 3, "--json").json
        model = model_of(home / name)
        state, found = model.init_state(1), None
        for token in (model.vocabulary.start, *model.vocabulary.ids(["the", "cat"])):
            found, state = model.step(state, np.array([token]))
        assert found is not None
        best = sorted(range(model.outputs), key=lambda word: -found[0, word])[:3]
        assert [row["word"] for row in answer["next"]] == model.vocabulary.pieces_of(best)
        assert [row["probability"] for row in answer["next"]] == pytest.approx(np.exp(found[0, best]), rel=1e-4)
    answer = ngram("next", home / "kn.ngram", "zebra", "-k", 1)
    assert "read as <unk>: zebra" in answer.err
    assert len(answer.out.split("\t")) == 3
    assert ngram("next", home / "kn.ngram", "the", "-k", 0).code == 2


def test_check_reads_everything(ngram: Any, home: Path, tmp_path: Path) -> None:
    for name in ("kn.ngram", "small.ngram"):
        facts = ngram("check", home / name, "--json").json
        assert facts["order"] == 3
        assert facts["sum_off"] < 1e-4
        assert "sound" in ngram("check", home / name).out
    damaged = bytearray((home / "kn.ngram").read_bytes())
    damaged[-2000] ^= 0xFF
    (tmp_path / "damaged.ngram").write_bytes(damaged)
    answer = ngram("check", tmp_path / "damaged.ngram")
    assert answer.code == 1
    assert answer.err.count("\n") == 1
    assert "damaged.ngram" in answer.err


# making models of models


def test_pruning_keeps_what_is_missed_most(ngram: Any, home: Path, tmp_path: Path) -> None:
    counts = ("--counts", home / "text.counts")
    answer = ngram("prune", home / "kn.ngram", "--ngrams", 40, *counts, "--out", tmp_path / "forty.ngram", "--json")
    assert sum(answer.json["ngrams"]) == 40
    assert sum(model_of(tmp_path / "forty.ngram").table.ngrams) == 40
    warned = ngram("prune", home / "kn.ngram", "--threshold", "1e-2", "--out", tmp_path / "p.ngram")
    assert "with --counts" in warned.err
    pruned = model_of(tmp_path / "p.ngram").table
    assert sum(pruned.ngrams) < sum(model_of(home / "kn.ngram").table.ngrams)
    rare = ngram("prune", home / "kn.ngram", "--min-counts", 0, 1, 2, *counts, "--out", tmp_path / "c.ngram", "--json")
    known, _ = counted(home / "text.txt", 3)
    expected = [int((known.count[known.trie.level(order)] > order - 1).sum()) for order in (2, 3)]
    assert rare.json["ngrams"][1:] == expected
    assert ngram("check", tmp_path / "c.ngram", "--json").json["sum_off"] < 1e-5


def test_a_packed_model_is_smaller_and_still_one(ngram: Any, home: Path, tmp_path: Path) -> None:
    assert isinstance(open_model(home / "small.ngram").model, CompactModel)
    whole, packed = model_of(home / "kn.ngram"), model_of(home / "small.ngram")
    text = lines(30, seed=9)
    np.testing.assert_allclose(log_probs(packed, text), log_probs(whole, text), atol=0.3)
    assert ngram("prune", home / "small.ngram", "--threshold", "1e-3", "--out", tmp_path / "p").code == 0
    assert ngram("quantise", home / "kn.ngram", "--prob-bits", 99, "--out", tmp_path / "q").code == 2


def test_filtered_models_know_the_listed_words_only(ngram: Any, home: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("the cat\nsees .\n")
    words = ("filter", home / "kn.ngram", "--words", tmp_path / "words.txt")
    assert ngram(*words, "--out", tmp_path / "kept.ngram").code == 0
    kept = model_of(tmp_path / "kept.ngram")
    assert set(kept.vocabulary.pieces[2:-2]) == {"the", "cat", "sees", "."}
    text = ["the cat sees the cat .", "the ."]
    np.testing.assert_allclose(log_probs(kept, text), log_probs(model_of(home / "kn.ngram"), text), rtol=1e-5)
    assert ngram(*words, "--unknown", "renormalise", "--out", tmp_path / "new.ngram").code == 0
    assert ngram("check", tmp_path / "new.ngram", "--json").json["sum_off"] < 1e-5


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two models of different words."""
    folder = tmp_path_factory.mktemp("pair")
    (folder / "1.txt").write_text("".join(f"{line} one\n" for line in lines(80, 1)), "utf8")
    (folder / "2.txt").write_text("".join(f"two {line}\n" for line in lines(80, 2)), "utf8")
    for name in "12":
        words = ("estimate", folder / f"{name}.txt", "--order", "3", "--out", folder / f"{name}.ngram", "-q")
        assert cli(["ngram", *map(str, words)]) == 0
    return folder / "1.ngram", folder / "2.ngram"


def test_interpolated_models_are_weighted_sums(ngram: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "mix.ngram"
    answer = ngram("interpolate", *pair, "--weights", 0.25, 0.75, "--out", out, "--json")
    assert [member["weight"] for member in answer.json["members"]] == [0.25, 0.75]
    first, second, mixed = model_of(pair[0]), model_of(pair[1]), model_of(out)
    assert set(mixed.vocabulary.pieces) == {*first.vocabulary.pieces, *second.vocabulary.pieces}
    one, two, both = (math.exp(log_probs(model, ["the cat sees"])[1]) for model in (first, second, mixed))
    # <s> the cat: in both texts; the word that only the other knows shares no probability with it
    assert both == pytest.approx(0.25 * one + 0.75 * two, rel=1e-4)
    assert ngram("check", out, "--json").json["sum_off"] < 1e-5


def test_the_best_weights_favour_the_model_of_the_text(ngram: Any, pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "held.txt").write_text("".join(f"two {line}\n" for line in lines(50, 7)), "utf8")
    answer = ngram("interpolate", *pair, "--text", tmp_path / "held.txt", "--out", tmp_path / "m", "--json")
    assert answer.json["members"][1]["weight"] > 0.8
    assert "weights:" in answer.err


def test_formats_turn_into_each_other(ngram: Any, home: Path, tmp_path: Path) -> None:
    for first, second in (("kn.ngram", "a.arpa.gz"), ("a.arpa.gz", "b.arpa.zst"), ("b.arpa.zst", "c.ngram")):
        source = home / first if first == "kn.ngram" else tmp_path / first
        assert ngram("convert", source, tmp_path / second, "--json").json["file"] == str(tmp_path / second)
        same_models(model_of(tmp_path / second), model_of(home / "kn.ngram"))
    assert ngram("convert", home / "small.ngram", tmp_path / "small2").code == 0
    assert isinstance(open_model(tmp_path / "small2").model, CompactModel)
    read_arpa(tmp_path / "a.arpa.gz")


def test_what_a_model_is_made_from_leaves_no_seal(
    ngram: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file has none, and that of the small one it was made from would not fit it."""
    monkeypatch.setattr("ostinato.ngram.store.CHECKED", 0)
    assert ngram("convert", home / "kn.ngram", tmp_path / "large").code == 0
    assert "digest" not in open_model(tmp_path / "large").about
    assert open_model(tmp_path / "large").about["tokens"] == open_model(home / "kn.ngram").about["tokens"]


def test_counts_that_were_changed_are_refused(ngram: Any, home: Path, tmp_path: Path) -> None:
    content = (home / "text.counts").read_bytes()
    (tmp_path / "changed.counts").write_bytes(content.replace(b"cat\n", b"rat\n", 1))
    answer = ngram("estimate", tmp_path / "changed.counts", "--out", tmp_path / "m")
    assert (answer.code, answer.err.count("\n")) == (1, 1)
    assert "changed after saving" in answer.err


def test_a_run_directory_is_a_model_too(ngram: Any, home: Path, tmp_path: Path) -> None:
    words = ("--text", home / "text.txt", "--data.tokeniser", "blank", "--model.kind", "ngram", "--model.order", "2")
    assert cli(["train", "--run-dir", str(tmp_path / "run"), *map(str, words), "-q"]) == 0
    assert ngram("convert", tmp_path / "run", tmp_path / "run.arpa").code == 0
    assert model_of(tmp_path / "run.arpa").table.order == 2


# what goes wrong


def test_everything_wrong_is_one_line(ngram: Any, home: Path, pair: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "words.txt").write_text("zebra giraffe")
    (tmp_path / "few.counts").write_bytes((home / "text.counts").read_bytes()[:-64])
    text, model, out = home / "text.txt", home / "kn.ngram", ("--out", tmp_path / "out")
    cases: list[tuple[int, str, tuple[object, ...]]] = [
        (1, "missing.txt: no such file", ("estimate", tmp_path / "missing.txt", *out)),
        (1, "empty", ("estimate", tmp_path / "empty.txt", *out)),
        (2, 'Did you mean "witten-bell"', ("estimate", text, *out, "--smoothing", "witten-bel")),
        (2, "name a file to write", ("estimate", text)),
        (2, "not a size", ("estimate", text, *out, "--memory", "lots")),
        (2, "order", ("estimate", text, *out, "--order", 0)),
        (2, "leave it out", ("estimate", text, *out, "--smoothing", "mle", "--unknown", "srilm")),
        (2, "begin with 0", ("estimate", text, *out, "--prune", 1)),
        (2, "min_count", ("estimate", text, *out, "--min-count", 0)),
        (2, "--min-count has no use", ("estimate", home / "text.counts", *out, "--min-count", 2)),
        (2, "--order 5: the counts have the orders 1 to 3", ("estimate", home / "text.counts", *out, "--order", 5)),
        (2, "holds counts and others do not", ("estimate", home / "text.counts", text, *out)),
        (2, "holds a model", ("estimate", model, *out)),
        (1, "few.counts", ("count", text, "--add", tmp_path / "few.counts", *out)),
        (2, "name a text", ("count", *out)),
        (1, "of order", ("count", text, "--add", home / "text.counts", "--order", 2, *out)),
        (1, "missing.txt", ("compare-smoothing", text, "--valid", tmp_path / "missing.txt")),
        (2, "--orders 0", ("compare-smoothing", text, "--valid", text, "--orders", 0)),
        (1, "missing.ngram: no such file", ("explain", tmp_path / "missing.ngram", "a")),
        (1, "holds counts, not a model", ("next", home / "text.counts", "a")),
        (1, "text.txt", ("check", text)),
        (2, "give one of", ("prune", model, *out)),
        (2, "give one of", ("prune", model, *out, "--ngrams", 50, "--threshold", 1e-3)),
        (2, "needs --counts", ("prune", model, *out, "--min-counts", 0, 1)),
        (1, "counts lack", ("prune", pair[0], *out, "--ngrams", 30, "--counts", home / "text.counts")),
        (2, "ARPA file cannot hold", ("quantise", model, "--out", tmp_path / "q.arpa")),
        (1, "none of the listed words", ("filter", model, "--words", tmp_path / "words.txt", *out)),
        (2, "at least two", ("interpolate", model, *out, "--weights", 1)),
        (2, "either --text", ("interpolate", *pair, *out)),
        (2, "sum to 1", ("interpolate", *pair, *out, "--weights", 0.5, 0.9)),
        (2, "cannot both go", ("estimate", text, "--arpa", "-", "--json")),
        (2, "cannot both go", ("convert", model, "-", "--json")),
        (2, "not packed", ("convert", model, tmp_path / "m.gz")),
        (2, 'Did you mean "check"', ("chek", model)),
    ]
    for code, message, words in cases:
        answer = ngram(*words, "-q")
        assert (answer.code, answer.err.count("\n")) == (code, 1), (words, answer.err)
        assert message in answer.err, words
        assert "Traceback" not in answer.err
        assert answer.out == ""
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["empty.txt", "few.counts", "words.txt"]


def test_no_file_is_replaced_without_force(ngram: Any, home: Path, tmp_path: Path) -> None:
    out = tmp_path / "precious"
    (tmp_path / "words.txt").write_text("the cat")
    commands = [
        ("estimate", home / "text.txt", "--out", out),
        ("estimate", home / "text.txt", "--arpa", out),
        ("count", home / "text.txt", "--out", out),
        ("prune", home / "kn.ngram", "--ngrams", 40, "--out", out),
        ("quantise", home / "kn.ngram", "--out", out),
        ("filter", home / "kn.ngram", "--words", tmp_path / "words.txt", "--out", out),
        ("interpolate", home / "kn.ngram", home / "kn.ngram", "--weights", 0.5, 0.5, "--out", out),
        ("convert", home / "kn.ngram", out),
    ]
    for words in commands:
        out.write_text("precious")
        answer = ngram(*words, "-q")
        assert answer.code == 1
        assert "--force" in answer.err
        assert out.read_text() == "precious"
        assert ngram(*words, "--force", "-q").code == 0, words
        assert out.read_bytes() != b"precious"


def test_a_run_of_another_kind_is_refused(ngram: Any, home: Path, tmp_path: Path) -> None:
    small = ("--model.hidden", "4", "--train.epochs", "1", "--train.threads", "1")
    assert (
        cli(
            [
                "train",
                "--text",
                str(home / "other.txt"),
                "--run-dir",
                str(tmp_path / "gru"),
                "--model.kind",
                "gru",
                *small,
                "-q",
            ]
        )
        == 0
    )
    answer = ngram("check", tmp_path / "gru")
    assert answer.code == 1
    assert "kind gru" in answer.err


# what starting costs


def modules_after(*words: object) -> str:
    told = [str(word) for word in words]
    code = f"import sys; from ostinato.cli.app import run; run({told!r}); print(sorted(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return answer.stdout


def test_a_small_text_is_estimated_without_a_compiler(tmp_path: Path) -> None:
    """100,000 tokens: loading Numba would take longer than everything else."""
    text = write(tmp_path / "text.txt", 17_000)
    assert len(text.read_text("utf8").split()) + 17_000 > 100_000
    modules = modules_after("ngram", "estimate", text, "--out", tmp_path / "m", "-q")
    for heavy in ("'torch'", "'numba'", "'matplotlib'", "'tokenizers'", "'rich'"):
        assert heavy not in modules


def test_no_command_imports_torch(home: Path, tmp_path: Path) -> None:
    model = home / "kn.ngram"
    for words in (
        ("--help",),
        ("estimate", "--help"),
        ("explain", model, "the cat"),
        ("prune", model, "--ngrams", "40", "--out", tmp_path / "p"),
        ("interpolate", model, model, "--text", home / "other.txt", "--out", tmp_path / "i"),
        ("compare-smoothing", home / "text.txt", "--valid", home / "other.txt", "--orders", "2"),
    ):
        assert "'torch'" not in modules_after("ngram", *words, "-q")


def test_numba_is_not_needed_to_be_helped() -> None:
    assert "'numba'" not in modules_after("ngram", "--help")


# documentation

GUIDE = (Path(__file__).parent.parent / "docs" / "ngram.md").read_text("utf8")


def test_the_python_of_the_guide_runs(
    ngram: Any, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ngram("convert", home / "kn.ngram", "kn5.ngram", "-q").code == 0
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(block, names)
    total, word, parameters = capsys.readouterr().out.split()
    assert float(total) < 0
    assert word in model_of(home / "kn.ngram").vocabulary
    # words <unk>, </s>, a, b, c; pairs <s>a, ab, ba, a</s>, ac, c</s>; back-offs of <s>, a, b and c
    assert int(parameters) == 5 + 6 + 4


def test_every_command_has_two_examples_that_can_be_parsed() -> None:
    from ostinato.cli.app import app, load_commands

    load_commands()
    reference = (Path(__file__).parent.parent / "docs" / "cli.md").read_text("utf8")
    sections = reference.split("\n### ostinato ngram ")[1:]
    assert len(sections) == 11
    for section in sections:
        name = section.split("\n", 1)[0]
        block = section.split("**Examples**", 1)[1].split("```")[1]
        examples = [line.split("ostinato ", 1)[1] for line in block.strip().splitlines()]
        assert len(examples) == 2, name
        for example in examples:
            assert app.parse_args(shlex.split(example), exit_on_error=False, print_error=False)[0].__doc__, example
