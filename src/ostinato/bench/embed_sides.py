"""Both sides of the benchmark of word vectors: where text and gensim are, what is asked, how answers become rows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import ostinato
from ostinato.bench.blocks import QUIET, Block, Worker, disturbance, one_block
from ostinato.bench.measure import TOUCHED, Note, Process, Row, Rows, Sample, Usage, settle
from ostinato.core.errors import MismatchError
from ostinato.text.embedded import cache_folder

Blocks: TypeAlias = list[list[Block]]
"""What ours answered, and what gensim did if it is there."""

SPEED_CORPUS = "speed.txt"

SETS = {
    "wordsim353.tsv": ("WordSim-353", "spearman"),
    "simlex999.txt": ("SimLex-999", "spearman"),
    "questions-words.txt": ("analogies", "accuracy"),
}
"""What gensim ships to judge vectors by: the names, and the units of the scores."""

SAME, SAME_KEPT = 0.001, 0.02
"""How far the words of the text that have a vector may differ, as a share, and the share that subsampling keeps."""


@dataclass(frozen=True)
class Size:
    """How much is measured.

    head, part: bytes of the text that is trained on, and by slow processors. runs: how often; long_runs: of gensim, on
    the whole text. epochs: of the head with one thread, and of the whole text. vectors: words and dimensions of a file.
    touched: bytes of memory made ready before a process.
    """

    quick: bool
    head: int
    part: int
    runs: int
    long_runs: int
    epochs: tuple[int, int]
    vectors: tuple[int, int]
    touched: int

    @classmethod
    def of(cls, runs: int | None, quick: bool) -> Size:
        """What the user asked for; gensim takes minutes for the whole text, so there once must do."""
        if quick:
            return cls(True, 3_000_000, 1_000_000, runs or 1, runs or 1, (3, 3), (2_000, 300), TOUCHED // 16)
        return cls(False, 20_000_000, 5_000_000, runs or 3, runs or 1, (1, 3), (20_000, 300), TOUCHED)


class Quality(Row):
    """A row of scores, of which more is better."""

    @property
    def ratio(self) -> float | None:
        """Our score as a multiple of the peer's, if both are above 0."""
        if self.theirs is None or min(self.ours.median, self.theirs.median) <= 0:
            return None
        return self.ours.median / self.theirs.median


@dataclass(frozen=True)
class Bench:
    """A benchmark: on which text, how much, against what; `folder` is scratch room, `stack` ends the processes.

    data: the folder of gensim's test data; None if gensim is not installed.
    """

    text: Path
    size: Size
    peer: str
    data: Path | None
    folder: Path
    note: Note
    stack: ExitStack

    @cached_property
    def sides(self) -> tuple[Worker, ...]:
        """Ours and, if it is installed, gensim's, started."""
        modules = ("embed_ours",) if self.data is None else ("embed_ours", "embed_peer")
        return tuple(self.stack.enter_context(Worker(module, {}, 1)) for module in modules)

    @cached_property
    def sets(self) -> dict[str, tuple[str, str]]:
        """The files that vectors are judged by, with names and units; none without gensim, which brings them."""
        if self.data is None:
            return {}
        return {str(self.data / file): about for file, about in SETS.items() if (self.data / file).is_file()}

    @property
    def head(self) -> str:
        """The beginning of the text, which is trained on again and again."""
        return self.beginning(self.size.head)

    @property
    def whole(self) -> str:
        """All of the text, or its head if it must be quick."""
        return self.head if self.size.quick else str(self.text)

    def beginning(self, size: int) -> str:
        """The first lines of the text, about so many bytes, as a file."""
        if self.text.stat().st_size <= size:
            return str(self.text)
        path = self.folder / f"beginning-{size}"
        if not path.exists():
            with self.text.open("rb") as source, path.open("wb") as target:
                target.writelines(source.readlines(size))
        return str(path)

    def scratch(self, name: str) -> str:
        """A file to write."""
        return str(self.folder / name)

    def ask(self, side: int, what: str, run: int, **request: Any) -> Block:
        """What one side answers in one run."""
        self.note(f"{what}: {'gensim' if side else 'ours'}, run {run}")
        return one_block(self.sides[side], **request)

    def by_turns(self, what: str, request: Callable[[int, int], dict[str, Any]]) -> Blocks:
        """What the sides answer in turns, so often as `size` has it; `request(side, run)` is what each is asked."""
        turns = [
            [self.ask(side, what, run, **request(side, run)) for side in range(len(self.sides))]
            for run in range(1, self.size.runs + 1)
        ]
        return [list(blocks) for blocks in zip(*turns, strict=True)]

    def same(self, what: str, **request: Any) -> Blocks:
        """What both answer to the same request; ours was asked once before, since it may have to be compiled."""
        self.sides[0].ask(**request)
        return self.by_turns(what, lambda side, run: request)

    def row(self, case: str, what: str, unit: str, blocks: Blocks, **facts: Any) -> Row:
        """One number of what the sides answered, with processor seconds; its unit, which is its key there.

        cpu_ratio, for the JSON: of the processor seconds, which other programs disturb less.
        """
        ours, *others = (
            Sample(tuple(block.answer[unit] for block in side), statistics.median(b.answer["cpu_s"] for b in side))
            for side in blocks
        )
        foreign = disturbance(*blocks)
        if foreign > QUIET:
            self.note(f"{case}: others had up to {foreign:.0%} of the processor: measure again when it is quiet")
        theirs = others[0] if others else None
        spent = {"foreign": foreign, "cpu_ratio": theirs and theirs.cpu and theirs.cpu / max(ours.cpu or 0, 1e-9)}
        return Row(case, what, unit, ours, theirs, self.peer, {**spent, **facts})

    def processes(self, what: str, ours: Process, theirs: Process) -> list[list[Usage]]:
        """What whole processes take by turns; ours once more before, since it may have to be compiled."""
        self.note(f"{what}: warming up")
        ours.timed()
        found: list[list[Usage]] = [[] for _ in self.sides]
        for run in range(1, self.size.long_runs + 1):
            self.note(f"{what}: run {run} of {self.size.long_runs}")
            for side, mine in zip((ours, theirs), found, strict=False):
                settle(self.size.touched)
                mine.append(side.timed())
        return found

    def scores(self, case: str, what: str, saved: Sequence[Sequence[str]]) -> Rows:
        """How good saved vectors are, of each side over its seeds; without gensim, which brings the sets, nothing.

        what: what they were trained on. A set of which fewer than two pairs are known is left out.
        """
        self.note(f"{case}: scores")
        files = list(self.sets)
        found = [
            [self.sides[0].ask(do="score", vectors=path, files=files)["scores"] for path in some] for some in saved
        ]
        for file, (name, unit) in self.sets.items():
            sides = [[scores[file] for scores in side] for side in found]
            if all(math.isfinite(score) for side in sides for score, _, _ in side):
                _, used, known = sides[0][0]
                ours, theirs = (Sample(tuple(score for score, _, _ in side)) for side in sides)
                facts = {"used": used, "of": known, "spread": max(ours.values) - min(ours.values)}
                yield Quality(case, f"{name} ({used:,} of {known:,}), {what}", unit, ours, theirs, self.peer, facts)


def speed_corpus() -> Path | None:
    """The speed corpus, if it lies beside the checkout or in the user's cache folder."""
    beside = Path(ostinato.__file__).resolve().parents[2].parent
    found = [place / SPEED_CORPUS for place in (beside, cache_folder()) if (place / SPEED_CORPUS).is_file()]
    return found[0] if found else None


def gensim() -> tuple[str, Path | None]:
    """gensim's name with its version, and the folder of its test data; the folder is None if it is not installed."""
    found = find_spec("gensim")
    if found is None or found.origin is None:
        return "gensim", None
    return f"gensim {version('gensim')}", Path(found.origin).parent / "test" / "test_data"


def work_of(blocks: Blocks) -> dict[str, Any]:
    """What was trained on: words with a vector, those that subsampling kept, our loss in nats a pair.

    Raises MismatchError if the sides do not know as many words of the text, or do not keep the same share of them.
    """
    ours, *others = (side[0].answer for side in blocks)
    for theirs in others:
        wanted = ours["words"] * theirs["kept"] / theirs["words"]
        most = max(SAME_KEPT * wanted, 5 * math.sqrt(wanted))
        if not close(ours["known"], theirs["known"]) or abs(ours["kept"] - wanted) > most:
            raise MismatchError(
                f"of {ours['known']:,} words ours keeps {ours['kept'] / ours['words']:.2%}, of {theirs['known']:,} "
                f"gensim {theirs['kept'] / theirs['words']:.2%}; they do not do the same work"
            )
    kept = {f"{side}_kept": answer["kept"] for side, answer in zip(("ours", "peer"), (ours, *others), strict=False)}
    return {"words": ours["words"], **kept, "ours_loss": ours["loss"]}


def close(ours: float, theirs: float) -> bool:
    """Whether both counted the same, but for odd white space."""
    return abs(ours - theirs) <= SAME * theirs
