"""Sequence tasks: training a translator beside a straightforward PyTorch loop and JoeyNMT, its beam, and tagging.

That ours and the loop do the same work is checked: from the same weights, in float32, their losses after the same
updates must agree.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ostinato.bench.blocks import Block, Effort, Worker, by_blocks, disturbance, sample
from ostinato.bench.measure import Note, Row, Rows, in_time
from ostinato.bench.names import TasksCaseName as CaseName
from ostinato.bench.tasks_case import TagCase, TranslateCase
from ostinato.bench.train import check_losses
from ostinato.bench.train_case import SEED
from ostinato.core.errors import ConfigError

PEER, JOEYNMT = "PyTorch loop", "JoeyNMT"
QUICK: tuple[CaseName, ...] = ("train", "beam", "tag")
PRECISIONS = ("fp32", "bf16")
LENGTHS, TOKENS, ROWS = (8, 15, 30, 60), (500, 1000, 2000, 4000), (1, 8, 32, 128)
"""What growth is measured over: pieces of a source, tokens of a batch in training, sources of a batch in search."""


@dataclass(frozen=True)
class Bench:
    """With how many threads, how much; `folder` is scratch room; joeynmt: a Python that has it, if there is one."""

    folder: Path
    threads: int
    effort: Effort
    updates: int
    quick: bool
    joeynmt: str | None
    note: Note

    @cached_property
    def translator(self) -> TranslateCase:
        """What is trained: smaller batches where it must be quick."""
        return TranslateCase(tokens=800, pairs=400) if self.quick else TranslateCase()

    def ours(self, kind: str, case: Any, **more: Any) -> Worker:
        """Our side, started."""
        threads = self.threads if kind == "train" else 1
        return Worker("tasks_ours", {"kind": kind, "case": asdict(case), "threads": threads, **more}, threads)

    def theirs(self, case: TranslateCase, hoisted: bool) -> Worker:
        """The PyTorch loop in one of its forms, started."""
        told = {"case": asdict(case), "threads": self.threads, "hoisted": hoisted}
        return Worker("tasks_peer", told, self.threads)

    def joey(self, case: TranslateCase, batches: str) -> Worker:
        """JoeyNMT, started."""
        told = {"case": asdict(case), "pairs": str(self.pairs(case)), "batches": batches, "seed": SEED}
        return Worker("tasks_joeynmt", {**told, "threads": self.threads}, self.threads, python=self.joeynmt)

    def pairs(self, case: TranslateCase) -> Path:
        """A file with the pairs and our batches of them, for another interpreter."""
        from ostinato.bench.tasks_case import config_of, corpus_of, drawn_pairs
        from ostinato.tasks.translation.encoding import Encoded
        from ostinato.tasks.translation.learner import TranslationLearner, new_network

        path = self.folder / "pairs.npz"
        if not path.exists():
            config, corpus = config_of(case, "fp32", 1), corpus_of(case)
            encoded = Encoded(corpus, corpus.parts["train"])
            listed = TranslationLearner(corpus, new_network(config, corpus, encoded), config, encoded).batches(0)
            rows = [listed[number].rows for number in range(len(listed))]
            sides = dict(zip(("sources", "targets"), zip(*drawn_pairs(case), strict=True), strict=True))
            arrays: dict[str, Any] = {name: np.concatenate(side) for name, side in sides.items()}
            arrays |= {f"{name}_lengths": np.array([len(ids) for ids in side]) for name, side in sides.items()}
            bounds = np.cumsum([len(part) for part in rows])[:-1]
            np.savez(path, rows=np.concatenate(rows), bounds=bounds, **arrays)
        return path


def run(
    cases: tuple[CaseName, ...] = (),
    threads: int = 1,
    joeynmt: str | None = None,
    runs: int | None = None,
    quick: bool = False,
    note: Note = lambda text: None,
) -> Rows:
    """The rows of the named cases as they come; of all if none is named, or of three short ones if it must be quick.

    threads: of all sides in training; search and tagging have one. joeynmt: a Python interpreter that can import it;
    this one if None and it can. Raises ConfigError if it cannot, MismatchError if ours and the loop do not learn the
    same, DataError if a side fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        effort, updates = Effort.of(runs, quick), 3 if quick else 15
        bench = Bench(Path(folder), threads, effort, updates, quick, found(joeynmt), note)
        measures = {"train": trained, "joeynmt": beside_joeynmt, "beam": searched, "tag": tagged, "growth": growth}
        for name in in_time(cases or (QUICK if quick else get_args(CaseName)), quick, note):
            yield from measures[name](bench)


def found(given: str | None) -> str | None:
    """The interpreter that has JoeyNMT, None if this one has it not. Raises ConfigError if the given one has it not."""
    python = given or sys.executable
    try:
        command = [python, "-c", "import joeynmt"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        fault = (done.stderr.strip().rpartition("\n")[2] or "it failed") if done.returncode else ""
    except OSError as refused:
        fault = refused.strerror or str(refused)
    if fault and given:
        raise ConfigError(f"--joeynmt {given}: cannot import joeynmt ({fault}); name an interpreter that can")
    return None if fault else python


def trained(bench: Bench) -> Rows:
    """Training in float32 and in bfloat16 beside the loop in float32, plain and hoisted."""
    case, name = bench.translator, "train"
    forms = {f"{PEER}, fp32": False, f"{PEER}, hoisted, fp32": True}
    peers = list(forms)[:1] if bench.quick else list(forms)
    with ExitStack() as stack:
        workers = [stack.enter_context(bench.ours("train", case, precision=one)) for one in PRECISIONS]
        workers += [stack.enter_context(bench.theirs(case, forms[peer])) for peer in peers]
        bench.note(f"{name}: {bench.updates} updates of each from the same weights")
        losses = [worker.ask(updates=bench.updates)["loss"] for worker in workers]
        for mine in losses:
            check_losses(case.name, mine, losses[2])
        blocks = by_blocks(workers, bench.effort, noting(bench, name), warm=1)
    for precision, mine, loss in zip(PRECISIONS, blocks, losses, strict=False):
        for peer, theirs, other in zip(peers, blocks[2:], losses[2:], strict=True):
            facts = {"ours_loss": loss, "peer_loss": other, "loss_after_updates": bench.updates}
            yield compared(bench, name, precision, mine, theirs, peer, facts)


def beside_joeynmt(bench: Bench) -> Rows:
    """Training in both precisions beside JoeyNMT on batches as it makes them, and on ours."""
    case, name = bench.translator, "joeynmt"
    with ExitStack() as stack:
        workers = [stack.enter_context(bench.ours("train", case, precision=one)) for one in PRECISIONS]
        kinds = ("own", "ours") if bench.joeynmt else ()
        workers += [stack.enter_context(bench.joey(case, kind)) for kind in kinds]
        bench.note(f"{name}: warming up" if kinds else f"{name}: is not installed; say where with --joeynmt PYTHON")
        said = [worker.ask(updates=2) for worker in workers]
        blocks = by_blocks(workers, bench.effort, noting(bench, name), warm=1)
    for precision, mine in zip(PRECISIONS, blocks, strict=False):
        if not kinds:
            yield compared(bench, name, precision, mine, None, JOEYNMT, {})
        for kind, answer, theirs in zip(kinds, said[2:], blocks[2:], strict=True):
            facts = {"ours_parameters": said[0]["parameters"], "peer_parameters": answer["parameters"]}
            peer = f"{JOEYNMT} {answer['version']}, {kind if kind == 'ours' else 'its own'} batches"
            yield compared(bench, name, precision, mine, theirs, peer.replace(" ours b", " our b"), facts)


def compared(
    bench: Bench,
    name: str,
    precision: str,
    mine: Sequence[Block],
    theirs: Sequence[Block] | None,
    peer: str,
    facts: dict[str, Any],
) -> Row:
    """The row of a training: target tokens a second."""
    case, both = bench.translator, [mine] if theirs is None else [mine, theirs]
    more = {
        "threads": bench.threads,
        "engine": mine[0].answer["engine"],
        "foreign": disturbance(*both),
        "tokens_a_batch": case.tokens,
        "model": case.what,
    }
    samples = [sample(side, "tokens/s", cpu="cpu_update") for side in both]
    what = f"{precision}, batches of {case.tokens:,}, {threads_of(bench)}"
    return Row(name, what, "target tokens/s", samples[0], None if theirs is None else samples[1], peer, facts | more)


def searched(bench: Bench) -> Rows:
    """Sentences a second with a beam of 5, one thread."""
    case = replace(bench.translator, pairs=96 if bench.quick else 512)
    specs: list[Spec] = [("beam", case, {"precision": one, "rows": 64}, f"width 5, {one}") for one in PRECISIONS]
    yield from sentences(bench, "beam", specs)


def tagged(bench: Bench) -> Rows:
    """Sentences a second that `predict` tags, from a file to lines, one thread."""
    case = TagCase(sentences=500 if bench.quick else 2000)
    specs: list[Spec] = [
        ("tag", replace(case, output=one), {}, f"LSTM 200 both ways, {one}") for one in ("softmax", "crf")
    ]
    yield from sentences(bench, "tag", specs)


Spec = tuple[str, Any, dict[str, Any], str]
"""Kind, case and more of a worker of ours, and what it is in a report."""


def sentences(bench: Bench, name: str, specs: Sequence[Spec]) -> Rows:
    """A row for each, measured by turns."""
    with ExitStack() as stack:
        workers = [stack.enter_context(bench.ours(kind, case, **more)) for kind, case, more, _ in specs]
        bench.note(f"{name}: warming up")
        blocks = by_blocks(workers, bench.effort, noting(bench, name))
    for (_, case, _, what), mine in zip(specs, blocks, strict=True):
        facts = {"threads": 1, "foreign": disturbance(mine), "mean_length": case.length}
        yield Row(
            name, f"{what}, 1 thread", "sentences/s", sample(mine, "sentences/s", cpu="cpu_sentence"), facts=facts
        )


def growth(bench: Bench) -> Rows:
    """Training over length and batch, search and tagging over length and rows; each by itself."""
    start = bench.translator
    plans = [(f"{length} pieces", replace(start, length=length)) for length in LENGTHS]
    plans += [(f"batches of {tokens:,}", replace(start, tokens=tokens)) for tokens in TOKENS]
    for what, case in plans:
        with bench.ours("train", case, precision="auto") as worker:
            worker.ask(updates=2)
            (mine,) = by_blocks([worker], bench.effort, noting(bench, f"growth, {what}"), warm=1)
        facts = {"threads": bench.threads, "engine": mine[0].answer["engine"]}
        yield Row(
            "growth", f"training, {what}", "target tokens/s", sample(mine, "tokens/s", cpu="cpu_update"), facts=facts
        )
    beam = replace(start, pairs=256)
    for length in LENGTHS:
        spec = (
            "beam",
            replace(beam, length=length),
            {"precision": "bf16", "rows": 64},
            f"beam 5, {length} pieces, bf16",
        )
        yield from sentences(bench, "growth", [spec])
    for rows in ROWS:
        spec = ("beam", beam, {"precision": "bf16", "rows": rows}, f"beam 5, {rows} together, bf16")
        yield from sentences(bench, "growth", [spec])
    for length in LENGTHS:
        yield from sentences(bench, "growth", [("tag", TagCase(length=length), {}, f"tagging, {length} words")])
    for rows in ROWS:
        yield from sentences(bench, "growth", [("tag", TagCase(rows=rows), {}, f"tagging, {rows} together")])


def noting(bench: Bench, name: str) -> Note:
    """Notes that begin with a name."""
    return lambda text: bench.note(f"{name}: {text}")


def threads_of(bench: Bench) -> str:
    """In a report."""
    return f"{bench.threads} thread{'s' if bench.threads > 1 else ''}"
