"""The command that scores lines and documents: score."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ostinato.cli.app import app
from ostinato.cli.talk import say, watching

if TYPE_CHECKING:
    from ostinato.cli.documents import DocumentWriter
    from ostinato.tasks.language.documents import ScoredLines
    from ostinato.tasks.language.load import Loaded


@dataclass(frozen=True)
class LineOptions:
    """How lines are shown."""

    json: bool = False
    """Print one JSON object a line (with --jsonl that is always so)."""
    tokens: bool = False
    """Show every token too: rows `log-prob, token` and an empty row after each line; in JSON a list of pairs."""
    log10: bool = False
    """Totals as KenLM gives them: log-probs to base 10 in place of nats, in JSON under `log10` beside them."""


@dataclass(frozen=True)
class DocumentOptions:
    """How documents are read, chosen and shown."""

    jsonl: bool = False
    """Each line is a JSON object and one of its fields a document; one JSON object out for each."""
    field: str = "text"
    """--jsonl: the field that holds the document."""
    keep: bool = False
    """--jsonl: print the whole object with `perplexity` (and `bucket`) added, in place of the numbers alone."""
    skip_bad: bool = False
    """--jsonl: pass over lines that are not such objects, and count them."""
    min_ppl: float | None = None
    """--jsonl: leave out documents of a lower perplexity."""
    max_ppl: float | None = None
    """--jsonl: leave out documents of a higher perplexity."""
    buckets: tuple[float, float] | None = None
    """--jsonl: add `bucket`, head, middle or tail, cut at these percentiles of the input's perplexities, as 30 60;
    all is written after the last document was read."""
    thresholds: tuple[float, float] | None = None
    """--jsonl: add `bucket`, cut at these two perplexities; written as documents come."""


FLAT = Parameter(name="*")


@app.command
def score(
    model: Path,
    /,
    *text: Annotated[str, Parameter(allow_leading_hyphen=True)],
    lines: Annotated[LineOptions, FLAT] = LineOptions(),
    documents: Annotated[DocumentOptions, FLAT] = DocumentOptions(),
    threads: int | None = None,
) -> None:
    """Score every line of a text on its own, one line out for each line in, or documents with --jsonl.

    Columns, tab-separated: nats, words, perplexity (`</s>` counted), unknown words, the line. What comes from a
    slow writer is answered at once.

    With --jsonl the lines of each document are scored each on its own and summed, those of white space only left
    out: `line` (and `id`, if the object has one), `nats`, `tokens`, `unknown`, `lines`, `perplexity`.

    **Examples**

    ```
    ostinato score runs/kn5 speech.txt
    ostinato score runs/kn5 --jsonl crawl.jsonl.gz --keep --buckets 30 60
    ```

    Parameters
    ----------
    model:
        A run directory or a model file.
    text:
        Files, .gz and .zst too; - or none is standard input.
    threads:
        Threads of an n-gram model. One a core if left out.
    """
    from ostinato.tasks.language.load import load

    paths = text or ("-",)
    require_no_options(paths)
    if documents.jsonl:
        from ostinato.cli.documents import make_writer

        with make_writer(documents, lines, len(paths) > 1) as writer:
            score_objects(load(model), paths, writer, threads)
        return
    require_nothing_for_documents(documents)
    from ostinato.tasks.language.documents import score_files

    loaded = load(model)
    for group in score_files(loaded, paths, threads):
        emit(rows(loaded, group, lines))


def require_no_options(paths: tuple[str, ...], command: str = "score") -> None:
    """Raise ConfigError for an unknown option, which the parser takes for a file, as it must take `-`."""
    from ostinato.core.errors import ConfigError

    for path in paths:
        if path.startswith("-") and path != "-":
            known = f"see `ostinato {command} --help`"
            raise ConfigError(f"unknown option {path} ({known}); a file of that name is ./{path}")


def require_nothing_for_documents(options: DocumentOptions) -> None:
    """Raise ConfigError if an option is named that only --jsonl gives a meaning."""
    from dataclasses import fields

    from ostinato.core.errors import ConfigError

    for field in fields(options):
        if getattr(options, field.name) != field.default:
            raise ConfigError(f"--{field.name.replace('_', '-')} is for documents; add --jsonl")


def emit(rows: Iterable[str]) -> None:
    """Print rows at once."""
    sys.stdout.writelines(row + "\n" for row in rows)
    sys.stdout.flush()


def rows(loaded: Loaded, group: ScoredLines, options: LineOptions) -> Iterable[str]:
    """What is printed for some lines."""
    from ostinato.cli.documents import LN10, packed
    from ostinato.tasks.language.evaluate import LineScore

    text, scores = group
    pieces = loaded.vocabulary.pieces if options.tokens else ()
    unit = LN10 if options.log10 else 1.0
    numbers = zip(text, scores.nats.tolist(), scores.tokens.tolist(), scores.unknown.tolist(), strict=True)
    end = 0
    for line, nats, count, unknown in numbers:
        found = LineScore(nats, count, unknown, line)
        begin, end = end, end + count
        tokens = []
        if options.tokens:
            log_probs = (scores.log_probs[begin:end].astype("float64") / unit).tolist()
            tokens = [(pieces[piece], value) for piece, value in zip(scores.ids[begin:end], log_probs, strict=True)]
        if options.json:
            more = {"log10": -nats / LN10} if options.log10 else {}
            yield packed({**found.to_json(), **more} | ({"tokens": tokens} if options.tokens else {}))
            continue
        total = -nats / LN10 if options.log10 else nats
        if options.tokens:
            yield from (f"{value:.4f}\t{piece}" for piece, value in tokens)
            yield ""
        else:
            yield f"{total:.4f}\t{count - 1}\t{found.perplexity:.4f}\t{unknown}\t{line}"


def score_objects(loaded: Loaded, paths: tuple[str, ...], writer: DocumentWriter, threads: int | None) -> None:
    """Score documents and write what is wanted of them; tell in the end how many there were."""
    from ostinato.core.progress import Progress, unwatched
    from ostinato.tasks.language.documents import score_documents

    options = writer.options
    tokens = skipped = 0
    with nullcontext(unwatched) if sys.stdout.isatty() else watching() as watch:
        for part in score_documents(loaded, paths, options.field, options.skip_bad, threads):
            emit(writer.rows(part.documents))
            tokens += sum(document.tokens for document in part.documents)
            for note in part.skipped:
                say(f"passed over: {note}", 2)
            skipped += len(part.skipped)
            watch(Progress("score", tokens, part.share))
        for late in writer.late():
            emit(late)
    say(writer.summary(tokens, skipped))
