"""Text out of a language model, as it is produced."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ostinato.core.errors import DataError, DivergedError
from ostinato.core.model import LanguageModel
from ostinato.core.vocabulary import STOP, UNKNOWN
from ostinato.decode.diversity import distinct, repeated
from ostinato.decode.prompt import read_prompts
from ostinato.decode.sample import Sample
from ostinato.decode.strategy import Hypothesis, Strategy
from ostinato.tasks.language.load import Loaded
from ostinato.text.pipeline import Pipeline

SAMPLES, SAMPLE_TOKENS, SAMPLE_SEED = 2, 40, 1


def prompt_ids(loaded: Loaded, prompt: str, allow_unknown: bool = False) -> tuple[Any, list[str]]:
    """The ids of a prompt and the pieces of it that the vocabulary does not have.

    Raises DataError if there are such pieces and they are not allowed.
    """
    pieces = loaded.pipeline.pieces(prompt)
    missing = [piece for piece in pieces if piece not in loaded.vocabulary and piece not in (UNKNOWN, STOP)]
    if missing and not allow_unknown:
        shown = ", ".join(repr(piece) for piece in missing[:5])
        raise DataError(
            f"the prompt has {len(missing)} of {len(pieces)} {loaded.pipeline.unit}s outside the vocabulary of "
            f"{loaded.run}: {shown}; change them, or give --allow-unknown to read them as <unk>"
        )
    ids = loaded.vocabulary.ids(pieces)
    ids[[piece == STOP for piece in pieces]] = loaded.vocabulary.stop  # a line end within the prompt
    return ids, missing


def stream_text(
    loaded: Loaded, prompt: Any, strategy: Strategy, max_tokens: int, seed: int, through_stops: bool
) -> Iterator[str]:
    """The text of the prompt and one continuation, piece by piece as soon as it is certain.

    through_stops: a stop symbol is a line end and does not end the text.
    """
    stop = None if through_stops else loaded.vocabulary.stop
    state, tokens = read_prompts(loaded.model, [prompt])
    writer = loaded.pipeline.writer()
    for piece in loaded.vocabulary.pieces_of(prompt):
        yield writer.feed(piece)
    for (token,) in strategy.stream(
        loaded.model, state, tokens, stop=stop, max_tokens=max_tokens, seed=seed, history=[prompt]
    ):
        if token is None:
            break
        yield writer.feed(loaded.vocabulary.pieces[token])
    yield writer.end()


def hypotheses(
    loaded: Loaded, prompt: Any, strategy: Strategy, max_tokens: int, seed: int, through_stops: bool
) -> list[tuple[str, Hypothesis]]:
    """The n-best continuations with their text (the prompt included)."""
    stop = None if through_stops else loaded.vocabulary.stop
    state, tokens = read_prompts(loaded.model, [prompt])
    found = strategy.decode(loaded.model, state, tokens, stop=stop, max_tokens=max_tokens, seed=seed, history=[prompt])
    return [(text_of(loaded, [*prompt, *hypothesis.tokens]), hypothesis) for hypothesis in found[0]]


def text_of(loaded: Loaded, ids: Sequence[int]) -> str:
    """The text of ids."""
    return loaded.pipeline.text(loaded.vocabulary.pieces_of(ids))


def sample_event(model: LanguageModel, pipeline: Pipeline, regime: str) -> dict[str, Any]:
    """A few texts drawn with a fixed seed, and how much they repeat themselves (means; None if all are short).

    A model so broken that it offers nothing to draw gives no text.
    """
    vocabulary = model.vocabulary
    state, tokens = read_prompts(model, [vocabulary.ids([])] * SAMPLES)
    stop = vocabulary.stop if regime == "sentence" else None
    try:
        found = Sample().decode(model, state, tokens, stop=stop, max_tokens=SAMPLE_TOKENS, seed=SAMPLE_SEED)
    except DivergedError:
        found = []
    ids = [row[0].tokens for row in found]
    long = [row for row in ids if len(row) >= 8]
    return {
        "text": [pipeline.text(vocabulary.pieces_of(row)) for row in ids],
        "repeated": mean([repeated(row, 4) for row in long]),
        "distinct": mean([distinct(row, 2) for row in long]),
    }


def mean(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return sum(values) / len(values) if values else None
