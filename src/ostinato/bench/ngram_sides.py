"""Both sides of the n-gram benchmark: how each is started, and the models that are made once."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from ostinato.bench.measure import Command, Process, Row, Sample, by_turns
from ostinato.core.errors import ConfigError, DataError, MismatchError

Rows: TypeAlias = Iterator[Row]

PROGRAMS = ("lmplz", "build_binary")
WORDWISE = Path(__file__).with_name("kenlm_user.py")
SAME = 1e-4
"""How far summed scores may differ, as a share: KenLM adds in float32."""


@dataclass(frozen=True)
class KenLM:
    """Where KenLM's programs lie, and a Python interpreter that can import its module."""

    folder: Path
    python: Path | None = None

    def check(self) -> None:
        """Raise ConfigError if a program is missing or the interpreter has no kenlm."""
        missing = [name for name in PROGRAMS if not os.access(self.folder / name, os.X_OK)]
        if missing:
            raise ConfigError(f"{self.folder} has no {' and no '.join(missing)}; bench/kenlm_build.py builds them")
        if self.python is not None:
            try:
                Process(([str(self.python), "-c", "import kenlm; print('{}')"],)).asked()
            except (DataError, OSError) as fault:
                raise ConfigError(f"{self.python} cannot import kenlm ({fault}); bench/kenlm_build.py") from None


@dataclass(frozen=True)
class Bench:
    """A benchmark: on which texts, how often, against what; `folder` is scratch room."""

    text: Path
    heldout: Path
    runs: int
    kenlm: KenLM | None
    folder: Path
    note: Callable[[str], None]

    def scratch(self, name: str) -> Path:
        """A file to write."""
        return self.folder / name

    def processes(self, case: str, what: str, ours: Process, theirs: Process | None) -> Row:
        """Whole processes: seconds, with processor time and memory."""
        used, their_used = by_turns(self.runs, self.saying(case, what), ours.timed, theirs.timed if theirs else None)
        return Row(case, what, "s", Sample.of(used), Sample.of(their_used) if their_used else None)

    def answers(self, case: str, keys: Mapping[str, tuple[str, str]], ours: Process, theirs: Process | None) -> Rows:
        """What processes say of themselves; keys: what to call each number, and its unit.

        Raises MismatchError if both give their scores, and these are not the same.
        """
        what = next(iter(keys.values()))[0]
        said, their_said = by_turns(self.runs, self.saying(case, what), ours.asked, theirs.asked if theirs else None)
        if their_said and "log10" in said[0]:
            check_same(case, said[0]["log10"], their_said[0]["log10"])
        for key, (what, unit) in keys.items():
            mine, others = (tuple(answer[key] for answer in found) for found in (said, their_said))
            yield Row(case, what, unit, Sample(mine), Sample(others) if others else None)

    def saying(self, case: str, what: str) -> Callable[[str], None]:
        """What tells the user which run of which case this is."""
        return lambda text: self.note(f"{case}: {what}: {text}")

    def head(self, tokens: int) -> Path:
        """The first lines of the text that hold about so many tokens, as a file."""
        path = self.scratch(f"head-{tokens}")
        if not path.exists():
            with self.text.open("rb") as source, path.open("wb") as target:
                for line in source:
                    if tokens <= 0:
                        break
                    target.write(line)
                    tokens -= len(line.split())
        return path

    def estimate(self, text: Path, order: int, *more: str) -> Process:
        """Our command."""
        command = ostinato("ngram", "estimate", str(text), "--order", str(order), "--force", *more)
        return Process((command,), makes=tuple(Path(word) for word in more if word.startswith(str(self.folder))))

    def lmplz(self, text: Path, order: int, arpa: Path, *after: Command) -> Process | None:
        """KenLM's command, and others after it; None without KenLM."""
        if self.kenlm is None:
            return None
        files = ["--text", str(text), "--arpa", str(arpa), "-T", f"{self.folder}/"]
        program = str(self.kenlm.folder / "lmplz")
        commands = [program, "-o", str(order), "-S", "1G", *files, "--discount_fallback"], *after
        return Process(commands, makes=(arpa, *(Path(command[-1]) for command in after)))

    def build_binary(self, arpa: Path, binary: Path, *options: str) -> Command:
        """KenLM's command that makes a model from an ARPA file."""
        assert self.kenlm is not None
        return [str(self.kenlm.folder / "build_binary"), "-T", f"{self.folder}/", *options, str(arpa), str(binary)]

    @cached_property
    def model(self) -> Path:
        """Our 5-gram model of the whole text."""
        self.note("making our model")
        path = self.scratch("model")
        self.estimate(self.text, 5, "--out", str(path)).timed()
        return path

    @cached_property
    def their_arpa(self) -> Path:
        """KenLM's 5-gram model of the whole text."""
        self.note("making KenLM's model")
        path = self.scratch("kenlm.arpa")
        made = self.lmplz(self.text, 5, path)
        assert made is not None
        made.timed()
        return path

    @cached_property
    def probing(self) -> Path:
        """The same as KenLM reads it fastest."""
        path = self.scratch("kenlm.probing")
        Process((self.build_binary(self.their_arpa, path, "probing"),)).timed()
        return path

    def inside(self, case: str, *arguments: str | Path | int) -> Process:
        """Our side of what is timed inside a process."""
        return Process(([sys.executable, "-m", "ostinato.bench.ngram_inside", case, *map(str, arguments)],))

    def their_inside(self, case: str, *more: Path, text: Path | None = None) -> Process | None:
        """KenLM's side of it, on the held-out text if no other is given; None without its module."""
        if self.kenlm is None or self.kenlm.python is None:
            return None
        script = [str(self.kenlm.python), str(WORDWISE), "kenlm", case, str(self.probing), str(text or self.heldout)]
        return Process(([*script, *map(str, more)],))

    def drop_in(self, case: str) -> Process:
        """The same script with our module in the place of KenLM's."""
        script = [sys.executable, str(WORDWISE), "ostinato.kenlm", case, str(self.model), str(self.heldout)]
        return Process((script,))


def ostinato(*words: str) -> Command:
    """A command of ours, as this interpreter starts it."""
    return [sys.executable, "-m", "ostinato", "-q", *words]


def check_same(case: str, ours: float, theirs: float) -> None:
    """Raise MismatchError for sums of log-probs that differ."""
    if not math.isclose(ours, theirs, rel_tol=SAME):
        raise MismatchError(
            f"{case}: ours sums to {ours:.6g} log10, KenLM's to {theirs:.6g}; the models are not the same"
        )
