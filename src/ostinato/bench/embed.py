"""Word vectors beside gensim: training, whole processes, reading, formats, analogies, and how good the vectors are.

Both sides read the same file with the same options. That they train on as many words, read the same numbers and answer
the same is checked. gensim with more than one worker does not lower its learning rate to the end, so vectors are
compared after one thread's training.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from ostinato.bench.embed_case import CASES as TRAINED
from ostinato.bench.embed_case import RESTRICT, VectorCase, keep
from ostinato.bench.embed_sides import SPEED_CORPUS, Bench, Size, close, gensim, speed_corpus, work_of
from ostinato.bench.measure import Note, Process, Row, Rows, Sample, in_time
from ostinato.bench.names import EmbedCaseName as CaseName
from ostinato.bench.ngram import embedded
from ostinato.core.errors import ConfigError, MismatchError

QUICK: tuple[CaseName, ...] = ("skip-gram", "vocabulary", "format", "analogies", "cbow", "process", "tree")
THREADS = (1, 2)
SEEDS = range(1, 4)
"""Of our vectors of the whole text, to see how far their scores spread."""

SAME_ACCURACY = 0.01
"""How far the answers to the same questions from the same vectors may differ: gensim rounds its norms otherwise."""

PROCESSORS = {
    "AVX2": (8, "haswell", "+avx,+avx2,+fma"),
    "4 numbers a register, fused products": (4, "haswell", "+avx,+fma"),
    "SSE": (4, "nehalem", "+sse4.2"),
}
"""Processors that ours is compiled for: numbers a register holds, LLVM's name of one, and what it can."""

OURS = """import sys
from pathlib import Path
from ostinato.embed.options import VectorOptions
from ostinato.embed.training import train_vectors
text, threads, folder = sys.argv[1:]
train_vectors(Path(text), VectorOptions(epochs=1, threads=int(threads))).save(Path(folder), force=True)
"""
THEIRS = """import sys
from gensim.models import Word2Vec
text, threads, path = sys.argv[1:]
Word2Vec(corpus_file=text, vector_size=100, sg=1, workers=int(threads), epochs=1).save(path)
"""


def run(
    cases: tuple[CaseName, ...] = (),
    text: Path | None = None,
    runs: int | None = None,
    quick: bool = False,
    note: Note = lambda text: None,
) -> Rows:
    """The rows of the named cases as they come; of all if none is named, or of some if it must be quick.

    text: a sentence a line; the speed corpus if None and it is there, else the embedded corpus.
    Raises ConfigError for a text that is not there, DataError for a side that fails, MismatchError if the two do not
    do the same work.
    """
    if text is not None and not text.is_file():
        raise ConfigError(f"{text}: there is no such file; leave --text out for the embedded corpus")
    with tempfile.TemporaryDirectory(prefix="ostinato-bench-") as folder, ExitStack() as stack:
        text = text or speed_corpus()
        if text is None:
            note(f"{SPEED_CORPUS} is not beside the checkout: the embedded corpus, so small that starting weighs much")
            text, _ = embedded(Path(folder))
        peer, data = gensim()
        if data is None:
            note("gensim was not found (pip install gensim): ours alone is measured, and no vectors are judged")
        bench = Bench(text.resolve(), Size.of(runs, quick), peer, data, Path(folder), note, stack)
        for name in in_time(cases or (QUICK if quick else get_args(CaseName)), quick, note):
            yield from CASES[name](bench)


def in_threads(number: int) -> str:
    """1 thread, 2 threads."""
    return f"{number} thread{'s' if number > 1 else ''}"


def training(bench: Bench, case: VectorCase) -> Rows:
    """Training alone on the head of the text, a run a seed; then how good the vectors of one thread are."""
    epochs, _ = bench.size.epochs
    seeds = range(1, bench.size.runs + 1)
    paths = [[bench.scratch(f"{case.name}-{side}-{seed}") for seed in seeds] for side in range(2)]
    asked = {**case.request(), "text": bench.head}

    def one(side: int, run: int) -> dict[str, Any]:
        return {**asked, "threads": 1, "epochs": epochs, "seed": run, "save": paths[side][run - 1]}

    def two(side: int, run: int) -> dict[str, Any]:
        return {**asked, "threads": 2, "epochs": 1, "seed": run}

    what = f"{case.what}, 1 thread"
    blocks = bench.by_turns(f"{case.name}: {what}", one)
    facts = work_of(blocks)
    yield bench.row(case.name, what, "words/s", blocks, **facts)
    yield from bench.scores(case.name, trained_on(epochs, facts["words"]), paths)
    what = f"{case.what}, 2 threads"
    blocks = bench.by_turns(f"{case.name}: {what}", two)
    yield bench.row(case.name, what, "words/s", blocks, **work_of(blocks))


def trained_on(epochs: int, words: int) -> str:
    """How much text vectors have seen; words: of all epochs."""
    return f"{epochs} epoch{'s' if epochs > 1 else ''} of {words / epochs / 1e6:.2g} M words"


def quality(bench: Bench) -> Rows:
    """Skip-gram on the whole text, several epochs, one thread; our vectors of several seeds."""
    case, name = TRAINED["skip-gram"], "quality"
    _, epochs = bench.size.epochs
    paths, blocks = [], []
    for side, seeds in zip(range(len(bench.sides)), (SEEDS, range(1, bench.size.long_runs + 1)), strict=False):
        paths.append([bench.scratch(f"{name}-{side}-{seed}") for seed in seeds])
        more = {"text": bench.whole, "threads": 1, "epochs": epochs}
        asked = [{**case.request(), **more, "seed": seed, "save": paths[-1][seed - 1]} for seed in seeds]
        blocks.append([bench.ask(side, name, seed, **one) for seed, one in zip(seeds, asked, strict=True)])
    facts = work_of(blocks)
    what = f"skip-gram, {trained_on(epochs, facts['words'])}"
    yield bench.row(name, f"{what}, 1 thread", "words/s", blocks, **facts)
    yield from bench.scores(name, what, paths)


def process(bench: Bench) -> Rows:
    """Whole processes on the whole text: start, vocabulary, training, saving; and the memory they take."""
    for threads in THREADS[:1] if bench.size.quick else THREADS:
        sides = (OURS, bench.scratch("ours")), (THEIRS, bench.scratch("peer.model"))
        commands = [[sys.executable, "-c", code, bench.whole, str(threads), path] for code, path in sides]
        used = bench.processes(f"process: {in_threads(threads)}", *(Process((command,)) for command in commands))
        ours, *others = (Sample.of(some) for some in used)
        what = f"text to saved skip-gram vectors, d = 100, 1 epoch, {in_threads(threads)}"
        yield Row("process", what, "s", ours, others[0] if others else None, bench.peer)
        ours, *others = (Sample(tuple(usage.memory / 1e6 for usage in some)) for some in used)
        yield Row("process", f"most memory, {what}", "MB", ours, others[0] if others else None, bench.peer)


def vocabulary(bench: Bench) -> Rows:
    """The text read and its words counted: ours is then ready to train on, gensim reads the text again."""
    for threads in THREADS:
        what = f"reading and vocabulary, {in_threads(threads)}{'; gensim has one' if threads > 1 else ''}"
        blocks = bench.same(f"vocabulary: {what}", do="vocabulary", text=bench.whole, threads=threads)
        ours, *others = (side[0].answer for side in blocks)
        for theirs in others:
            if not all(close(ours[key], theirs[key]) for key in ("words", "distinct")):
                raise MismatchError(
                    f"vocabulary: ours reads {ours['words']:,} words, {ours['distinct']:,} of them different, gensim "
                    f"{theirs['words']:,} and {theirs['distinct']:,}; they do not cut the text alike"
                )
        yield bench.row("vocabulary", what, "words/s", blocks, words=ours["words"], distinct=ours["distinct"])


def formats(bench: Bench) -> Rows:
    """Writing and reading word2vec's text; both read the same file, to the same bits."""
    words, dimensions = bench.size.vectors
    array = (np.random.default_rng(1).standard_normal((words, dimensions)) / dimensions).astype(np.float32)
    vectors, what = bench.scratch("vectors"), f"word2vec's text, {words:,} x {dimensions}"
    keep(vectors, [f"word{number}" for number in range(words)], array)
    written = bench.same("format: writing", do="write", vectors=vectors, folder=str(bench.folder))
    yield bench.row("format", f"writing {what}", "s", written)
    file = bench.scratch("ours.txt" if bench.data is None else "peer.txt")
    found = bench.same("format: reading", do="read", path=file)
    if len({block.answer["digest"] for side in found for block in side}) > 1:
        raise MismatchError("format: the two sides read different numbers from the same file")
    yield bench.row("format", f"reading {what}", "s", found)


def analogies(bench: Bench) -> Rows:
    """A file of analogies answered from the same vectors."""
    questions = next((path for path, (_, unit) in bench.sets.items() if unit == "accuracy"), None)
    if questions is None:
        bench.note("analogies: left out, since gensim brings the questions and was not found")
        return
    bench.note("analogies: training vectors")
    case, path = TRAINED["skip-gram"], bench.scratch("for-analogies")
    bench.sides[0].ask(**case.request(), text=bench.whole, threads=max(THREADS), epochs=1, save=path)
    blocks = bench.same("analogies", do="analogies", vectors=path, questions=questions)
    ours, *others = (side[0].answer for side in blocks)
    if not ours["answered"]:
        bench.note("analogies: left out, since no question has all its words in the text")
        return
    for theirs in others:
        if ours["answered"] != theirs["answered"] or abs(ours["accuracy"] - theirs["accuracy"]) > SAME_ACCURACY:
            raise MismatchError(
                f"analogies: of {ours['answered']:,} ours answers {ours['accuracy']:.3f} rightly, gensim of "
                f"{theirs['answered']:,} {theirs['accuracy']:.3f}; with the same vectors that must be the same"
            )
    what = f"{ours['answered']:,} analogies among {RESTRICT:,} words at most, d = {case.dimensions}, 1 thread"
    yield bench.row("analogies", what, "questions/s", blocks, accuracy=ours["accuracy"])


def registers(bench: Bench) -> Rows:
    """Skip-gram compiled for processors with narrower registers, which are really not used, beside gensim as it is."""
    case = TRAINED["skip-gram"]
    asked = {**case.request(), "text": bench.beginning(bench.size.part), "threads": 1, "epochs": 1}
    sides: dict[str, Callable[[], dict[str, Any]]] = {}
    for name, (lanes, processor, features) in PROCESSORS.items():
        changes = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": features, "OSTINATO_LANES": str(lanes)}
        command = [sys.executable, "-m", "ostinato.bench.embed_ours", json.dumps({**asked, "do": "registers"})]
        sides[name] = Process((command,), changes).asked
    if bench.data is not None:
        sides[bench.peer] = partial(bench.sides[1].ask, **asked)
    said: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for run in range(1, bench.size.runs + 1):
        for name, side in sides.items():
            bench.note(f"registers: {name}, run {run}")
            said[name].append(side())
    speeds = {name: Sample(tuple(answer["words/s"] for answer in answers)) for name, answers in said.items()}
    for name, wanted in PROCESSORS.items():
        facts = {key: said[name][0][key] for key in ("lanes", "processor", "features", "loss")}
        if tuple(facts.values())[:3] != wanted:
            raise MismatchError(f"registers: ours was compiled for {facts}, not for {name}")
        what = f"skip-gram, 1 thread, {name}"
        yield Row("registers", what, "words/s", speeds[name], speeds.get(bench.peer), bench.peer, facts)


CASES: dict[CaseName, Callable[[Bench], Rows]] = {
    "skip-gram": lambda bench: training(bench, TRAINED["skip-gram"]),
    "skip-gram-300": lambda bench: training(bench, TRAINED["skip-gram-300"]),
    "cbow": lambda bench: training(bench, TRAINED["cbow"]),
    "tree": lambda bench: training(bench, TRAINED["tree"]),
    "process": process,
    "vocabulary": vocabulary,
    "format": formats,
    "analogies": analogies,
    "registers": registers,
    "quality": quality,
}
