"""N-gram models beside KenLM [Heafield2011]: estimating, scoring, stepping, opening, sizes, growth.

Whole processes by turns, ours and KenLM's, medians. Equal work is checked: the ARPA files must hold as many
n-grams, the scores must be the same.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from typing import get_args

from ostinato.bench.measure import TOUCHED, Note, Process, Row, Rows, Sample, in_time
from ostinato.bench.names import NGramCaseName as CaseName
from ostinato.bench.ngram_sides import Bench, KenLM
from ostinato.core.errors import ConfigError, MismatchError
from ostinato.text.embedded import python_docs

QUICK: tuple[CaseName, ...] = ("arpa", "score", "step", "size")
GROWTH = (1_000_000, 4_000_000, 17_000_000)


def run(
    text: Path | None = None,
    heldout: Path | None = None,
    cases: tuple[CaseName, ...] = (),
    kenlm: KenLM | None = None,
    runs: int | None = None,
    scratch: Path | None = None,
    quick: bool = False,
    note: Note = lambda text: None,
) -> Rows:
    """The rows of the named cases as they come; of all if none is named, or of some if it must be quick.

    text, heldout: the embedded corpus if None. kenlm: what is installed if None. runs: 5, or 1 if quick.
    scratch: where scratch files go, removed at the end; the system's temporary folder if None.
    Raises ConfigError for files or programs that are not there, DataError for a command that fails,
    MismatchError if the two sides do not give the same model.
    """
    if (text is None) != (heldout is None):
        raise ConfigError("a text needs a held-out text beside it; give both, or neither for the embedded corpus")
    for path in (text, heldout):
        if path is not None and not path.is_file():
            raise ConfigError(f"{path}: there is no such file; a benchmark needs a text and a held-out text")
    kenlm = KenLM.found() if kenlm is None else kenlm
    kenlm.check()
    say_missing(kenlm, note)
    with tempfile.TemporaryDirectory(prefix="ostinato-bench-", dir=scratch) as folder:
        if text is None or heldout is None:
            text, heldout = embedded(Path(folder))
        files, effort = (text.resolve(), heldout.resolve()), runs or (1 if quick else 5)
        bench = Bench(*files, effort, kenlm, Path(folder), note, TOUCHED // 16 if quick else TOUCHED)
        for name in in_time(cases or (QUICK if quick else get_args(CaseName)), quick, note):
            for row in CASES[name](bench):
                yield replace(row, peer="KenLM")


def say_missing(kenlm: KenLM, note: Note) -> None:
    """Name what ours will not stand beside."""
    if kenlm.folder is None:
        note("KenLM's programs were not found (bench/kenlm_build.py builds them): estimating measures ours alone")
    if kenlm.python is None:
        note("KenLM's Python module was not found (pip install kenlm): score, step, next and open measure ours alone")


def embedded(folder: Path) -> tuple[Path, Path]:
    """The embedded corpus as a text and a held-out text, a paragraph a line."""
    docs, paths = python_docs(), (folder / "text", folder / "heldout")
    for path, documents in zip(paths, (docs.train, [*docs.valid, *docs.test]), strict=True):
        path.write_text("".join(f"{line}\n" for lines in documents for line in lines), "utf8")
    return paths


def header(arpa: Path) -> list[str]:
    """The numbers of n-grams that an ARPA file states."""
    with arpa.open("rb") as file:
        return [line.decode().strip() for line in islice(file, 20) if line.startswith(b"ngram ")]


def text_to_arpa(bench: Bench, case: str, text: Path, order: int, what: str) -> Row:
    """Text to an ARPA file. Raises MismatchError if the two hold different numbers of n-grams."""
    mine, others = bench.scratch("ours.arpa"), bench.scratch("theirs.arpa")
    ours, theirs = bench.estimate(text, order, "--arpa", str(mine)), bench.lmplz(text, order, others)
    row = bench.processes(case, what, ours, theirs)
    if theirs is not None and header(mine) != header(others):
        raise MismatchError(f"{case}: ours holds {header(mine)}, KenLM's {header(others)}")
    return row


def text_to_model(bench: Bench, case: str, text: Path, what: str, *more: str) -> Row:
    """Text to a model that can be queried."""
    arpa, mine, others = bench.scratch("theirs.arpa"), bench.scratch("ours.model"), bench.scratch("theirs.model")
    after = [bench.build_binary(arpa, others, "probing")] if bench.kenlm.folder else []
    ours = bench.estimate(text, 5, "--out", str(mine), *more)
    return bench.processes(case, what, ours, bench.lmplz(text, 5, arpa, *after))


def arpa(bench: Bench) -> Rows:
    """Text to ARPA, order 5."""
    yield text_to_arpa(bench, "arpa", bench.text, 5, "text to ARPA, order 5")


def model(bench: Bench) -> Rows:
    """Text to a model that can be queried, order 5."""
    yield text_to_model(bench, "model", bench.text, "text to a model to query, order 5")


def order3(bench: Bench) -> Rows:
    """Text to ARPA, order 3."""
    yield text_to_arpa(bench, "order3", bench.text, 3, "text to ARPA, order 3")


def short(bench: Bench) -> Rows:
    """Short texts, where starting counts: ours to a model, KenLM's to ARPA, which is the least it can do."""
    for tokens in (100_000, 1_000_000):
        text, arpa = bench.head(tokens), bench.scratch("theirs.arpa")
        ours = bench.estimate(text, 5, "--out", str(bench.scratch("ours.model")))
        what = f"text to a model (KenLM: to ARPA), order 5, {tokens:,} tokens"
        yield bench.processes("short", what, ours, bench.lmplz(text, 5, arpa))


def bounded(bench: Bench) -> Rows:
    """The same as `model`, in less memory than the model takes."""
    what = "text to a model, order 5, --memory 500M"
    yield text_to_model(bench, "bounded", bench.text, what, "--memory", "500M")


def cold(bench: Bench) -> Rows:
    """Once, with nothing compiled yet."""
    bench.note("cold: once")
    made = bench.estimate(bench.head(1_000_000), 5, "--arpa", str(bench.scratch("ours.arpa")))
    with tempfile.TemporaryDirectory(dir=bench.folder) as empty:
        used = Process(made.commands, {"NUMBA_CACHE_DIR": empty}).timed()
    yield Row("cold", "text to ARPA, order 5, 1,000,000 tokens, nothing compiled", "s", Sample.of([used]))


def fit(bench: Bench) -> Rows:
    """Ids in memory to a table in memory; KenLM's side is the whole of lmplz, which cannot do less."""
    what = "counts and smoothing in memory, order 5, against lmplz"
    made, theirs = bench.inside("fit", bench.text, 5), bench.lmplz(bench.text, 5, bench.scratch("theirs.arpa"))
    said, used = bench.by_turns(
        "fit", what, lambda: made.asked()["s"], (lambda: theirs.timed().wall) if theirs else None
    )
    yield Row("fit", what, "s", Sample(tuple(said)), Sample(tuple(used)) if used else None)


def score(bench: Bench) -> Rows:
    """Lines scored from Python."""
    theirs = bench.their_inside("score")
    for threads, name in ((1, "one thread"), (2, "two threads")):
        keys = {"tokens/s": (f"lines scored from Python, {name}", "tokens/s")}
        yield from bench.answers("score", keys, bench.inside("score", bench.model, bench.heldout, threads), theirs)
    keys = {"tokens/s": ("one line a call through ostinato.kenlm", "tokens/s")}
    yield from bench.answers("score", keys, bench.drop_in("score"), theirs)


def step(bench: Bench) -> Rows:
    """Lines walked word by word: running text, and words drawn at random, which have short contexts."""
    for text, kind in ((bench.heldout, "running text"), (random_words(bench), "random words")):
        theirs = bench.their_inside("step", text=text)
        keys = {"tokens/s": (f"128 states a call, a word each, {kind}", "tokens/s")}
        yield from bench.answers("step", keys, bench.inside("step", bench.model, text), theirs)
    keys = {"tokens/s": ("one state a call through ostinato.kenlm, running text", "tokens/s")}
    yield from bench.answers("step", keys, bench.drop_in("step"), bench.their_inside("step"))


def random_words(bench: Bench) -> Path:
    """Lines of twenty words, each of the text's words as likely as any other."""
    with bench.text.open(encoding="utf8") as source:
        known = sorted({word for line in islice(source, 200_000) for word in line.split()})
    chosen, path = Random(0), bench.scratch("random-words")
    path.write_text("".join(" ".join(chosen.choices(known, k=20)) + "\n" for _ in range(8000)), "utf8")
    return path


def next_word(bench: Bench) -> Rows:
    """Whole distributions."""
    keys = {"distributions/s": ("all words after a context", "distributions/s")}
    theirs = bench.their_inside("next", words(bench)) if bench.kenlm.python else None
    yield from bench.answers("next", keys, bench.inside("next", bench.model, bench.heldout), theirs)


def words(bench: Bench) -> Path:
    """The words of KenLM's model that can be predicted, a line each."""
    path = bench.scratch("words")
    with bench.their_arpa.open(encoding="utf8", newline="\n") as source, path.open("w", encoding="utf8") as target:
        for line in source:
            fields = line.split("\t")
            if line.startswith("\\2-grams:"):
                break
            if len(fields) > 1 and fields[1].rstrip("\n") != "<s>":
                target.write(fields[1].rstrip("\n") + "\n")
    return path


def opening(bench: Bench) -> Rows:
    """A saved model opened by a new process."""
    keys = {"open": ("opening a model", "ms"), "first": ("opening a model and scoring a line", "ms")}
    theirs = bench.their_inside("open") if bench.kenlm.folder else None  # an ARPA file is not what its users open
    yield from bench.answers("open", keys, bench.inside("open", bench.model, bench.heldout), theirs)


def size(bench: Bench) -> Rows:
    """Bytes on disk an n-gram."""
    small = bench.scratch("compact")
    ngrams = bench.inside("compact", bench.model, small).asked()["n-grams"]

    def of(path: Path) -> Sample:
        return Sample((path.stat().st_size / ngrams,))

    def theirs(*options: str) -> Sample | None:
        if bench.kenlm.folder is None:
            return None
        binary = bench.scratch("theirs.model")
        bench.note(f"size: build_binary {' '.join(options)}")
        Process((bench.build_binary(bench.their_arpa, binary, *options),)).timed()
        return of(binary)

    plain, packed = of(bench.model), of(small)
    yield Row("size", "model file, against probing", "bytes/n-gram", plain, theirs("probing"))
    yield Row("size", "model file, against trie", "bytes/n-gram", plain, theirs("-S", "1G", "trie"))
    quantised = theirs("-S", "1G", "-q", "8", "-b", "8", "-a", "22", "trie")
    yield Row("size", "compact, against trie -q 8 -b 8 -a 22", "bytes/n-gram", packed, quantised)


def growth(bench: Bench) -> Rows:
    """Time and memory as the text grows."""
    whole = tokens_of(bench.text)
    for wanted in GROWTH:
        tokens = min(wanted, whole)
        text = bench.text if tokens == whole else bench.head(tokens)
        row = text_to_arpa(bench, "growth", text, 5, f"text to ARPA, order 5, {tokens:,} tokens")
        yield row
        what = f"most memory, {tokens:,} tokens"
        yield Row("growth", what, "bytes/token", a_token(row.ours, tokens), row.theirs and a_token(row.theirs, tokens))
        if tokens == whole:
            return


def a_token(sample: Sample, tokens: int) -> Sample:
    """The memory of a process, a token."""
    assert sample.memory is not None
    return Sample((sample.memory / tokens,))


def tokens_of(path: Path) -> int:
    """How many words a file has, cut at blanks."""
    with path.open("rb") as file:
        return sum(len(line.split()) for line in file)


CASES: dict[CaseName, Callable[[Bench], Rows]] = {
    "arpa": arpa,
    "model": model,
    "order3": order3,
    "short": short,
    "bounded": bounded,
    "cold": cold,
    "fit": fit,
    "score": score,
    "step": step,
    "next": next_word,
    "open": opening,
    "size": size,
    "growth": growth,
}
