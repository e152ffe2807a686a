"""A claim from its first seed to its page. Seeds that are done are kept, so that a run that was stopped goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from ostinato.claims import draw, page, results
from ostinato.claims.claim import Claim, Size
from ostinato.claims.evidence import Evidence, Finding
from ostinato.claims.results import Result
from ostinato.core.errors import Interrupted, OstinatoError
from ostinato.core.files import read_json, write_json, write_text
from ostinato.core.progress import Progress, Watch, unwatched

Note = Callable[[str], None]


def run(claim: Claim, size: Size, folder: Path, watch: Watch = unwatched, note: Note = lambda text: None) -> Result:
    """Measure a claim with all its seeds, judge it, and write ID.json, ID.svg and ID.md into `folder`.

    note: told of seeds that an earlier run, stopped before its end, left. Raises StorageError.
    """
    seeds = list(range(1, claim.seeds[size] + 1))
    unfinished = folder / f"{claim.id}.{size}.unfinished.json"
    kept = Kept(unfinished, results.source_digest())
    environment = results.environment()
    if kept.findings:
        note(f"{claim.id}: {len(kept.findings)} of {len(seeds)} seeds were done before; going on with the others")
    for place, seed in enumerate(seeds):
        if str(seed) not in kept.findings:
            began = time.perf_counter()
            finding = measured(claim, size, seed, shared(watch, claim.id, place, len(seeds)))
            kept.put(seed, finding, time.perf_counter() - began)
    watch(Progress(claim.id, 0, 1.0))
    evidence = Evidence.of([kept.findings[str(seed)] for seed in seeds])
    made = {"seconds": round(kept.seconds, 1), "began": kept.began, "environment": environment}
    result = Result.judged(claim, size, seeds, evidence, made)
    results.save(folder, result)
    write_views(claim, folder)
    unfinished.unlink(missing_ok=True)
    return result


def write_views(claim: Claim, folder: Path) -> None:
    """Make the figure and the page anew from the stored results. Raises FormatError, StorageError."""
    found = results.load(folder, claim.id)
    shown = results.best(found)
    if shown is not None:
        draw.draw(claim, shown, folder / f"{claim.id}.svg")
        write_text(folder / f"{claim.id}.md", page.page(claim, found))


def measured(claim: Claim, size: Size, seed: int, watch: Watch) -> Finding:
    """What one seed gives, checked to be what the claim announces, and in its order.

    Raises KeyboardInterrupt where training inside it was stopped by one.
    """
    try:
        finding = claim.measure(size, seed, watch)
    except Interrupted:  # it names a run to resume, whose folder is gone by now
        raise KeyboardInterrupt from None
    names = [quantity.name for quantity in claim.quantities]
    assert finding.numbers.keys() == set(names), f"{claim.id}: other quantities"
    assert finding.curves.keys() <= claim.figures.keys(), f"{claim.id}: an unknown figure"
    return Finding({name: finding.numbers[name] for name in names}, finding.curves)


def shared(watch: Watch, label: str, done: int, of: int) -> Watch:
    """The watch of one seed among several."""

    def told(progress: Progress) -> None:
        share = (done + (progress.share or 0.0)) / of
        watch(Progress(label, progress.tokens, share, f"seed {done + 1} of {of}  {progress.note}".rstrip()))

    return told


class Kept:
    """Findings of a run on disk as they come; those that other source made are not gone on with."""

    def __init__(self, path: Path, source: str):
        self.path, self.source = path, source
        self.findings: dict[str, Finding] = {}
        self.seconds, self.began = 0.0, datetime.now(UTC).date().isoformat()
        if path.exists():
            self._read()

    def _read(self) -> None:
        try:
            content = read_json(self.path)
            if content["source"] != self.source:
                return
            findings = {seed: Finding.from_json(one) for seed, one in content["findings"].items()}
            self.findings, self.seconds, self.began = findings, float(content["seconds"]), str(content["began"])
        except (OstinatoError, KeyError, TypeError, ValueError, AttributeError):
            return  # it can be measured again

    def put(self, seed: int, finding: Finding, seconds: float) -> None:
        """Keep what a seed gave. Raises StorageError."""
        self.findings[str(seed)] = finding
        self.seconds += seconds
        findings = {name: one.to_json() for name, one in self.findings.items()}
        about = {"source": self.source, "seconds": self.seconds, "began": self.began}
        write_json(self.path, {**about, "findings": findings})


def failures(found: Sequence[tuple[Claim, Result]]) -> list[str]:
    """The IDs of provable claims that do not hold."""
    return [claim.id for claim, result in found if claim.level == "provable" and result.verdict != "holds"]
