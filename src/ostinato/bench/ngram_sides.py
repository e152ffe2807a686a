"""Both sides of the n-gram benchmark: how each is started, and the models that are made once."""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from ostinato.bench.measure import TOUCHED, Command, Found, Note, Process, Row, Rows, Sample, by_turns
from ostinato.core.errors import ConfigError, DataError, MismatchError
from ostinato.text.embedded import cache_folder

PROGRAMS = ("lmplz", "build_binary")
WORDWISE = Path(__file__).with_name("kenlm_user.py")
SAME = 1e-4
"""How far summed scores may differ, as a share: KenLM adds in float32."""


@dataclass(frozen=True)
class KenLM:
    """Where KenLM's programs lie, and a Python interpreter that can import its module; either may be missing."""

    folder: Path | None = None
    python: Path | None = None

    @classmethod
    def found(cls) -> KenLM:
        """What is installed: the programs on the PATH or where bench/kenlm_build.py puts them, and the module here."""
        program = shutil.which(PROGRAMS[0])
        places = [Path(program).parent] if program else sorted(cache_folder().glob("kenlm-*/bin"))
        whole = [place for place in places if all(os.access(place / name, os.X_OK) for name in PROGRAMS)]
        return cls(whole[-1] if whole else None, Path(sys.executable) if find_spec("kenlm") else None)

    def check(self) -> None:
        """Raise ConfigError if a program is missing or the interpreter has no kenlm."""
        if self.folder is not None:
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
    kenlm: KenLM
    folder: Path
    note: Note
    touched: int = TOUCHED

    def scratch(self, name: str) -> Path:
        """A file to write."""
        return self.folder / name

    def processes(self, case: str, what: str, ours: Process, theirs: Process | None) -> Row:
        """Whole processes: seconds, with processor time and memory."""
        used, their_used = self.by_turns(case, what, ours.timed, theirs.timed if theirs else None)
        return Row(case, what, "s", Sample.of(used), Sample.of(their_used) if their_used else None)

    def answers(self, case: str, keys: Mapping[str, tuple[str, str]], ours: Process, theirs: Process | None) -> Rows:
        """What processes say of themselves; keys: what to call each number, and its unit.

        Raises MismatchError if both give their scores, and these are not the same.
        """
        what = next(iter(keys.values()))[0]
        said, their_said = self.by_turns(case, what, ours.asked, theirs.asked if theirs else None)
        if their_said and "log10" in said[0]:
            check_same(case, said[0]["log10"], their_said[0]["log10"])
        for key, (what, unit) in keys.items():
            mine, others = (tuple(answer[key] for answer in found) for found in (said, their_said))
            yield Row(case, what, unit, Sample(mine), Sample(others) if others else None)

    def by_turns(
        self, case: str, what: str, ours: Callable[[], Found], theirs: Callable[[], Found] | None
    ) -> tuple[list[Found], list[Found]]:
        """As `measure.by_turns`; the user is told which run of which case this is."""
        return by_turns(self.runs, lambda text: self.note(f"{case}: {what}: {text}"), ours, theirs, self.touched)

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
        """KenLM's command, and others after it; None without its programs."""
        if self.kenlm.folder is None:
            return None
        files = ["--text", str(text), "--arpa", str(arpa), "-T", f"{self.folder}/"]
        program = str(self.kenlm.folder / "lmplz")
        commands = [program, "-o", str(order), "-S", "1G", *files, "--discount_fallback"], *after
        return Process(commands, makes=(arpa, *(Path(command[-1]) for command in after)))

    def build_binary(self, arpa: Path, binary: Path, *options: str) -> Command:
        """KenLM's command that makes a model from an ARPA file."""
        assert self.kenlm.folder is not None
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
        """A 5-gram model of the whole text for KenLM: by its own programs, or by ours if they are not there."""
        self.note("making KenLM's model")
        path = self.scratch("kenlm.arpa")
        (self.lmplz(self.text, 5, path) or self.estimate(self.text, 5, "--arpa", str(path))).timed()
        return path

    @cached_property
    def probing(self) -> Path:
        """The same as KenLM reads it fastest; the ARPA file, which it reads slowly, without its programs."""
        if self.kenlm.folder is None:
            return self.their_arpa
        path = self.scratch("kenlm.probing")
        Process((self.build_binary(self.their_arpa, path, "probing"),)).timed()
        return path

    def inside(self, case: str, *arguments: str | Path | int) -> Process:
        """Our side of what is timed inside a process."""
        return Process(([sys.executable, "-m", "ostinato.bench.ngram_inside", case, *map(str, arguments)],))

    def their_inside(self, case: str, *more: Path, text: Path | None = None) -> Process | None:
        """KenLM's side of it, on the held-out text if no other is given; None without its module."""
        if self.kenlm.python is None:
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
