"""What a user of the `kenlm` Python module does, timed: `python kenlm_user.py MODULE CASE MODEL TEXT [WORDS]`.

MODULE is `kenlm` or one with the same interface. Runs in any interpreter that has it, so it imports nothing of
ours; prints one JSON object.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPEATS = 3
CONTEXTS = 5
"""After which the whole vocabulary is scored."""


def lines_of(path: str) -> list[str]:
    """The lines of a text."""
    return Path(path).read_text("utf8").rstrip("\n").split("\n")


def usual_seconds(work: Callable[[], object]) -> float:
    """Seconds that the work takes: the median of some runs after one that does not count."""
    took = []
    for _ in range(1 + REPEATS):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return statistics.median(took[1:])


def score(kenlm: Any, model_path: str, text: str) -> dict[str, float]:
    """Every line scored, one call a line."""
    model, lines = kenlm.Model(model_path), lines_of(text)
    tokens = sum(len(line.split()) + 1 for line in lines)
    seconds = usual_seconds(lambda: [model.score(line) for line in lines])
    return {"tokens/s": tokens / seconds, "log10": sum(model.score(line) for line in lines)}


def step(kenlm: Any, model_path: str, text: str) -> dict[str, float]:
    """Every line walked word by word, two states taking turns."""
    model, lines = kenlm.Model(model_path), [[*line.split(), "</s>"] for line in lines_of(text)]

    def walk() -> float:
        state, after, total = kenlm.State(), kenlm.State(), 0.0
        for line in lines:
            model.BeginSentenceWrite(state)
            for word in line:
                total += model.BaseScore(state, word, after)
                state, after = after, state
        return total

    return {"tokens/s": sum(map(len, lines)) / usual_seconds(walk), "log10": walk()}


def next_word(kenlm: Any, model_path: str, text: str, words_path: str) -> dict[str, float]:
    """The scores of all words after a context."""
    model, words = kenlm.Model(model_path), lines_of(words_path)
    state, after = kenlm.State(), kenlm.State()
    contexts = [line.split()[:3] for line in lines_of(text)[:CONTEXTS]]

    def distributions() -> float:
        total = 0.0
        for context in contexts:
            model.BeginSentenceWrite(state)
            before = state
            for word in context:
                then = kenlm.State()
                model.BaseScore(before, word, then)
                before = then
            total += max([model.BaseScore(before, word, after) for word in words])
        return total

    return {"distributions/s": len(contexts) / usual_seconds(distributions), "log10": distributions()}


def opening(kenlm: Any, model_path: str, text: str) -> dict[str, float]:
    """Milliseconds from the imported module to the open model, and to its first score."""
    line = lines_of(text)[0]
    begin = time.perf_counter()
    model = kenlm.Model(model_path)
    opened = time.perf_counter()
    model.score(line)
    return {"open": 1e3 * (opened - begin), "first": 1e3 * (time.perf_counter() - begin)}


CASES: dict[str, Callable[..., dict[str, float]]] = {
    "score": score,
    "step": step,
    "next": next_word,
    "open": opening,
}

if __name__ == "__main__":
    module, case, *paths = sys.argv[1:]
    print(json.dumps(CASES[case](importlib.import_module(module), *paths)))
