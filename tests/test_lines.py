"""Lines scored many at a time: the same numbers as one after another, for every way to cut text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpus import lines as sentences
from ostinato.core.errors import DataError
from ostinato.core.vocabulary import Vocabulary
from ostinato.mix import Mixture
from ostinato.ngram.compact import CompactTable
from ostinato.ngram.compact_model import CompactModel
from ostinato.ngram.counts import count
from ostinato.ngram.lines import LineEncoder, LineScorer
from ostinato.ngram.model import NGramModel
from ostinato.ngram.smoothing import smoothings
from ostinato.runs import RunDir
from ostinato.tasks.language import evaluate as task
from ostinato.tasks.language.load import Loaded
from ostinato.text.normalise import BY_LETTER, Normaliser
from ostinato.text.pipeline import Pipeline
from ostinato.text.scan import Encoder
from ostinato.text.stream import encode
from ostinato.text.tokenise import make_tokeniser


def fitted(pipeline: Pipeline, order: int = 3) -> NGramModel:
    """A model of the made-up corpus that knows most of its pieces."""
    text = [*sentences(150), "Éa é Σας ß ﬁ \u00a0 天 地"]
    known = sorted({piece for line in text for piece in pipeline.pieces(line)} - {"<unk>", "</s>", "dog", "o"})
    vocabulary = Vocabulary(known)
    return NGramModel(
        smoothings["modified-kneser-ney"]().fit(count(encode([text], pipeline, vocabulary).ids, vocabulary, order)),
        vocabulary,
    )


def loaded(model: object, pipeline: Pipeline) -> Loaded:
    return Loaded(RunDir(Path("somewhere")), "ngram", model, pipeline, "sentence", {})


PIPELINES = {
    "+".join((name, *changes)): Pipeline(Normaliser(changes), make_tokeniser(name))
    for name, changes in [
        ("blank", ()),
        ("blank", ("nfc",)),
        ("blank", ("nfkc", "casefold")),
        ("blank", ("lower",)),
        ("blank", ("stem:english",)),
        ("word", ("nfc", "lower")),
        ("char", ()),
    ]
}
MODELS = {name: loaded(fitted(pipeline), pipeline) for name, pipeline in PIPELINES.items()}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)

words = st.sampled_from(
    ["the", "cat", "dog", "天", "é", "e\u0301", "ΣΑΣ", "ﬁ", "zebra", "<unk>", "</s>", "<s>", "\u0301"]
)
gaps = st.sampled_from([" ", "  ", "\t", "\u00a0", "\u2028", "\r", "\x0b", "\x1c", "\u3000"])
lines_of_text = st.lists(st.tuples(gaps, words, gaps), max_size=6).map(lambda parts: "".join(map("".join, parts)))
odd_lines = st.one_of(lines_of_text, st.sampled_from(["", " ", "a\nb", "a\0b", "\r", "the \ud800 cat"]))


def slowly(model: Loaded, lines: list[str]) -> list[np.ndarray]:
    """The log-probs of each line, read alone, one token after the other."""
    found = []
    for line in lines:
        ids = [*model.vocabulary.ids(model.pipeline.pieces(line)), model.vocabulary.stop]
        inputs = np.array([[model.vocabulary.start, *ids[:-1]]], np.int64)
        found.append(model.model.score(model.model.init_state(1), inputs, np.array([ids]))[0][0])
    return found


@models
@given(st.lists(odd_lines, max_size=40), st.sampled_from([1, 3]))
@settings(deadline=None, max_examples=60)
def test_many_lines_score_as_each_does_alone(model: Loaded, lines: list[str], threads: int) -> None:
    found = LineScorer(model.model, model.pipeline).score(lines, threads)
    assert len(found) == len(lines)
    wanted = slowly(model, lines)
    np.testing.assert_array_equal(found.log_probs, np.concatenate([np.empty(0, np.float32), *wanted]))
    np.testing.assert_array_equal(found.ends, np.cumsum([len(line) for line in wanted], dtype=np.int64))
    assert found.log_probs.dtype == np.float32


@models
@given(st.lists(odd_lines, max_size=40))
@settings(deadline=None, max_examples=60)
def test_the_sums_of_lines_are_those_of_the_plain_way(model: Loaded, lines: list[str]) -> None:
    found, wanted = LineScorer(model.model, model.pipeline).score(lines), task.score_group(model, lines)
    np.testing.assert_allclose(found.nats, [line.nats for line in wanted], rtol=1e-12, atol=0)
    assert found.tokens.tolist() == [line.count for line in wanted]
    assert found.unknown.tolist() == [line.unknown for line in wanted]


@models
@given(st.lists(lines_of_text, max_size=30), st.booleans(), st.sampled_from(["\n", "\r\n"]))
@settings(deadline=None, max_examples=60)
def test_bytes_are_the_lines_they_hold(model: Loaded, lines: list[str], ended: bool, feed: str) -> None:
    ends = [feed] * len(lines)
    if not ended and lines and lines[-1]:
        ends[-1] = ""
    scorer = LineScorer(model.model, model.pipeline)
    found = scorer.score("".join(map("".join, zip(lines, ends, strict=True))).encode())
    kept = [(line + end.strip("\n")).removesuffix("\r") for line, end in zip(lines, ends, strict=True)]
    np.testing.assert_array_equal(found.ids, scorer.score(kept).ids)
    np.testing.assert_array_equal(found.ends, scorer.score(kept).ends)


@given(st.lists(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"])), max_size=6))
@settings(deadline=None, max_examples=300)
def test_lines_may_be_normalised_as_one_text(lines: list[str]) -> None:
    for name in sorted(BY_LETTER):
        change = Normaliser([name])
        assert change("\n".join(lines)) == "\n".join(map(change, lines))


def test_kernels_read_what_is_only_cut_at_white_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole pipelines are not called for plain text, or all this would be for nothing."""
    for name, model in MODELS.items():
        plain = name.startswith("blank") and "stem" not in name
        assert model.pipeline.plain == plain
        if plain:
            encoder = LineEncoder(model.pipeline, model.vocabulary, Encoder(model.vocabulary))
            with monkeypatch.context() as patch:
                patch.delattr(Pipeline, "pieces")
                assert len(encoder.ids(["the cat", "É"])[1]) == 2


@models
def test_bytes_that_are_no_text_are_told_with_their_line(model: Loaded) -> None:
    scorer = LineScorer(model.model, model.pipeline)
    for fault in (b"\xff", b"\0"):
        with pytest.raises(DataError, match="the text:2: "):
            scorer.score(b"the cat\nthe " + fault + b"\nthe end\n")


def test_nothing_has_no_scores() -> None:
    for model in MODELS.values():
        for nothing in ([], b""):
            found = LineScorer(model.model, model.pipeline).score(nothing)
            assert len(found) == len(found.ids) == len(found.nats) == len(found.unknown) == 0


def test_models_of_other_kinds_are_scored_side_by_side() -> None:
    """A compact table and a mixture have no such kernels; lines of all lengths, more than are read together."""
    plain = MODELS["blank"]
    lines = [" ".join(sentences(1 + number % 4, number)) for number in range(70)] + [""] * 3 + ["the zebra " * 200]
    compact = CompactModel(CompactTable.from_table(plain.model.table), plain.vocabulary)
    mixture = Mixture([plain.model, fitted(plain.pipeline, 1)], [0.5, 0.5])
    for model in (compact, mixture):
        found = task.line_scorer(loaded(model, plain.pipeline)).score(lines)
        wanted = slowly(loaded(model, plain.pipeline), lines)
        np.testing.assert_allclose(found.log_probs, np.concatenate(wanted), rtol=0, atol=1e-6)
        assert found.unknown.tolist() == task.line_scorer(plain).score(lines).unknown.tolist()


@pytest.mark.parametrize("regime", ["sentence", "stream"])
@pytest.mark.parametrize("part", [1, 7, 10**6])
def test_a_text_scores_as_in_padded_batches(monkeypatch: pytest.MonkeyPatch, regime: str, part: int) -> None:
    """However it is cut into parts; documents too, as long as they are whole."""
    model = MODELS["char"]
    text = [sentences(40, 1), [""], sentences(25, 2), ["x", "", "zebra " * 60]]
    stream = encode(text, model.pipeline, model.vocabulary)
    monkeypatch.setattr(task, "PART", part)
    batches = task.evaluation_batches(regime, stream, model.vocabulary)
    wanted = [found[batch.weight > 0] for batch, found in task.batch_log_probs(model.model, batches)]
    parts = list(task.line_log_probs(model.model, stream, 2))
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.sort(np.concatenate(wanted)))
    told: list[float] = []
    score = task.evaluate_stream(
        model.model, stream, model.pipeline, regime, lambda progress: told.append(progress.share), threads=2
    )
    assert score.nats == pytest.approx(-np.concatenate(wanted).sum(dtype=np.float64), rel=1e-12)
    assert (score.count, told[-1], len(told)) == (len(stream), 1.0, len(parts))
    assert told == sorted(told)


def test_the_lines_of_a_text_are_scored_in_their_order() -> None:
    model = MODELS["word+nfc+lower"]
    lines = sentences(30, 3)
    stream = encode([lines], model.pipeline, model.vocabulary)
    found = np.concatenate(list(task.line_log_probs(model.model, stream, 1)))
    np.testing.assert_array_equal(found, np.concatenate(slowly(model, lines)))


def test_cut_documents_are_scored_in_batches() -> None:
    """Where a document is cut the state is fresh, so an n-gram model, too, says something else."""
    model = MODELS["char"]
    stream = encode([sentences(40, 4)], model.pipeline, model.vocabulary)
    whole, cut = (
        task.evaluate_stream(model.model, stream, model.pipeline, "stream", split=split) for split in (False, True)
    )
    assert cut.count == whole.count
    assert cut.nats > whole.nats


def test_speed_is_a_number_also_for_a_short_text() -> None:
    model = MODELS["char"]
    stream = encode([["the cat"]], model.pipeline, model.vocabulary)
    assert task.speed(model.model, stream, "sentence", 0.01) > 0
