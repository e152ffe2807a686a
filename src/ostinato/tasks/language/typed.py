"""A text that somebody types: what a model makes of each token, and what it expects next."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ostinato.core.errors import ConfigError
from ostinato.core.score import Score
from ostinato.core.vocabulary import STOP, Ids, LogProbs
from ostinato.ngram.model import NGramModel
from ostinato.stream.session import top_k
from ostinato.tasks.language.evaluate import final_stream, line_scorer, score_wide, stream_score
from ostinato.tasks.language.load import Loaded
from ostinato.text.stream import TokenStream, encode
from ostinato.text.tokenise import JOINER

NAME = "typed"
"""What stands for the name of the text in signatures."""

LONGEST = 10_000
"""Characters of a text; a longer one is better scored from a file."""


@dataclass(frozen=True, eq=False)
class Typed:
    """A text as a model reads it.

    pieces: as they were written, each line end `</s>`. ids: [T], of the same. log_probs: [T], nats. score: what
    `evaluate` says of the text; None without a line. place: of the token that is still to be typed; T after a line
    end, else that of the last `</s>`, which is not written yet.
    """

    pieces: tuple[str, ...]
    ids: Ids
    log_probs: LogProbs
    score: Score | None
    place: int


def read_typed(loaded: Loaded, text: str) -> Typed:
    """A text read the way the model was trained, each line on its own or the state carried over lines.

    Line by line the log-probs are those of `score`; the total is that of `evaluate`, whose signature it has. Lines of
    white space alone are left out as there. Raises ConfigError if the text is longer than LONGEST.
    """
    lines = lines_of(loaded, text)
    if not lines:
        return Typed((), np.zeros(0, np.int64), np.zeros(0, np.float32), None, 0)
    stream = encode([lines], loaded.pipeline, loaded.vocabulary, name=NAME)
    pieces = tuple(piece for line in lines for piece in (*loaded.pipeline.pieces(line), STOP))
    ids = np.asarray(stream.ids, np.int64)
    log_probs = log_probs_of(loaded, lines, ids)
    return Typed(pieces, ids, log_probs, score_of(loaded, stream, log_probs), len(ids) - (not text.endswith("\n")))


def lines_of(loaded: Loaded, text: str) -> list[str]:
    """The lines of a text that the model is to read. Raises ConfigError if it is longer than LONGEST."""
    if len(text) > LONGEST:
        raise ConfigError(
            f"a text of {len(text):,} characters is longer than {LONGEST:,}; score it from a file with `ostinato score`"
        )
    keep = loaded.about.get("empty_lines", "skip") == "keep"
    return [line for line in text.removesuffix("\n").split("\n") if line.strip() or (keep and text)]


def log_probs_of(loaded: Loaded, lines: list[str], ids: Ids) -> LogProbs:
    """The log-probs [T] of a text's tokens in their order."""
    if loaded.regime == "sentence" or isinstance(loaded.model, NGramModel):  # an n-gram forgets at a line's end anyway
        return line_scorer(loaded).score(lines).log_probs
    log_probs: LogProbs = score_wide(loaded.model, heard(loaded, ids, len(ids) - 1)[None], ids[None])[0]
    return log_probs


def score_of(loaded: Loaded, stream: TokenStream, log_probs: LogProbs) -> Score:
    """The sum of log-probs as `evaluate` tells it."""
    nats = -float(log_probs.sum(dtype=np.float64))
    return stream_score(loaded.model, stream, loaded.pipeline, loaded.regime, nats, len(log_probs))


def heard(loaded: Loaded, ids: Ids, place: int) -> Ids:
    """What a model that comes to token `place` of a text has read since it last forgot: the start symbol, then ids."""
    stops = np.flatnonzero(ids[:place] == loaded.vocabulary.stop)
    begin = int(stops[-1]) + 1 if loaded.regime == "sentence" and len(stops) else 0
    return np.append(loaded.vocabulary.start, ids[begin:place]).astype(np.int64)


def expected(loaded: Loaded, ids: Ids, place: int) -> LogProbs:
    """The log-probs [outputs], nats, of what comes at a place of a text, from 0 to T."""
    inputs = heard(loaded, ids, place)
    model, before = loaded.model, inputs[None, :-1]
    state = model.init_state(1)
    if before.size:
        _, state = model.score(state, before, np.full_like(before, loaded.vocabulary.stop))
    log_probs: LogProbs = model.step(state, inputs[-1:])[0][0]
    return log_probs


def likeliest(loaded: Loaded, log_probs: LogProbs, count: int) -> list[tuple[str, float]]:
    """The likeliest tokens as they are shown, with their probabilities, best first."""
    best = top_k(log_probs, count)
    return [(shown(piece), float(np.exp(log_probs[token]))) for piece, token in pairs(loaded, best)]


def pairs(loaded: Loaded, ids: Ids) -> list[tuple[str, int]]:
    """Ids with their pieces."""
    return list(zip(loaded.vocabulary.pieces_of(ids), ids.tolist(), strict=True))


def shown(piece: str) -> str:
    """A piece as it is shown: a line end as one, and without the joiner."""
    if piece == STOP:
        return "\n"
    return piece[1:] if len(piece) > 1 and piece[0] == JOINER else piece


def sample(loaded: Loaded, characters: int) -> str:
    """The first lines of what a run is measured on that it knows every piece of, or the beginning if there are none.

    The text is cut after a line, or inside its first if that is longer. Raises DataError for a run without one.
    """
    stream, vocabulary = final_stream(loaded), loaded.vocabulary
    ids = stream.ids[: 20 * characters].astype(np.int64)
    lines = np.split(ids, np.flatnonzero(ids == vocabulary.stop) + 1)
    known = [line for line in lines if len(line) and vocabulary.unknown not in line]
    chosen = np.concatenate(known) if known else ids
    text = loaded.pipeline.text(vocabulary.pieces_of(chosen[:characters])).lstrip("\n")
    cut = text[:characters].rfind("\n")
    return text[:cut] if cut > 0 else text[:characters]
