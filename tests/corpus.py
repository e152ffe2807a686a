"""A small text with structure, made up: enough for a model to learn something from in seconds."""

from __future__ import annotations

import random
from pathlib import Path

NOUNS = ["cat", "dog", "bird", "fish", "天", "地"]
VERBS = ["sees", "likes", "follows"]


def lines(count: int, seed: int = 0) -> list[str]:
    """Sentences such as `the cat sees a dog .`, where verbs depend on the first noun."""
    chance = random.Random(seed)
    made = []
    for _ in range(count):
        noun = chance.randrange(len(NOUNS))
        words = ["the", NOUNS[noun], VERBS[noun % len(VERBS)], chance.choice(["a", "the"]), chance.choice(NOUNS), "."]
        made.append(" ".join(words if chance.random() < 0.8 else [*words[:3], "."]))
    return made


def write(path: Path, count: int = 400, seed: int = 0) -> Path:
    """The text as a file."""
    path.write_text("\n".join(lines(count, seed)) + "\n", "utf8")
    return path
