"""What KenLM's lmplz makes of a small text, every n-gram with its numbers, for tests/test_ngram_kenlm.py.

    python tests/make_lmplz_values.py FOLDER      # a folder with lmplz of kenlm 0.3.0, see bench/kenlm_build.py

writes tests/data/lmplz_*.tsv: words, log10 probability, log10 back-off (empty where there is none).
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from references.arpa import SlowArpa

DATA = Path(__file__).parent / "data"
WORDS = 300


@dataclass(frozen=True)
class Case:
    """A model: its order, the thresholds of --prune, how many lines of the text, whether discounts may fall back."""

    order: int
    prune: tuple[int, ...] = ()
    lines: int | None = None
    fallback: bool = False

    @property
    def name(self) -> str:
        """What its file is called."""
        marks = ["fallback"] * self.fallback + ["prune", *map(str, self.prune)] * bool(self.prune)
        return "_".join(["lmplz", str(self.order), *marks])

    @property
    def options(self) -> list[str]:
        """The same for lmplz."""
        given = ["-o", str(self.order), *(["--prune", *map(str, self.prune)] if self.prune else [])]
        return [*given, *["--discount_fallback"] * self.fallback]


CASES = (
    *(Case(order) for order in (2, 3, 4, 5)),
    Case(4, (0, 0, 1)),
    Case(3, (0, 1, 2)),
    Case(5, (0, 1, 2)),
    Case(3, lines=4, fallback=True),
)


def text(count: int | None = None) -> list[list[str]]:
    """Lines of words: frequent and rare ones, phrases that come again, and a last word seen only there.

    lmplz counts the n-gram that it sorts last (by its last word, words in the order they first come) with its
    occurrences where the words before it are meant; the last word makes that one and the same.
    """
    chance = random.Random(8)

    def word() -> str:
        return str(int(WORDS ** chance.random()))

    phrases = [[word() for _ in range(3 + number % 4)] for number in range(12)]
    lines = []
    for _ in range(count or 225):
        pieces = [
            phrases[int(len(phrases) * chance.random() ** 2)] if chance.random() < 0.55 else [word()]
            for _ in range(int(1 + 4 * chance.random()))
        ]
        lines.append([word for piece in pieces for word in piece])
    return [*lines, [], ["1", "2", "3", "1", "once"]]


def run_lmplz(folder: Path, lines: list[list[str]], options: list[str], arpa: Path) -> None:
    """Have lmplz write an ARPA file."""
    spelled = "".join(" ".join(line) + "\n" for line in lines)
    command = [str(folder / "lmplz"), *options, "-S", "200M", "-T", str(arpa.parent) + "/", "--arpa", str(arpa)]
    done = subprocess.run(command, input=spelled.encode(), capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode("utf8", "replace"))


def row(gram: tuple[str, ...], prob: float, backoff: float) -> str:
    """A line of a file."""
    return "\t".join([" ".join(gram), f"{prob:.5f}", *([f"{backoff:.5f}"] if backoff else [])])


def main(folder: Path) -> None:
    """Write every file."""
    for case in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            arpa = Path(scratch) / "arpa"
            run_lmplz(folder, text(case.lines), case.options, arpa)
            found = SlowArpa(arpa.read_text("utf8"))
        rows = [row(gram, prob, found.backoff[gram]) for gram, prob in sorted(found.prob.items())]
        (DATA / f"{case.name}.tsv").write_text("\n".join(rows) + "\n", "utf8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
