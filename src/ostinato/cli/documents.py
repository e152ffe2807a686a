"""What `score --jsonl` writes: numbers or whole objects, those that are wanted, with their buckets."""

from __future__ import annotations

import json
import math
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ostinato.core.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from ostinato.cli.score import DocumentOptions, LineOptions
    from ostinato.tasks.language.documents import Document

LN10 = math.log(10)
BUCKETS = ("head", "middle", "tail")
TOGETHER = 1 << 12  # rows


def make_writer(options: DocumentOptions, lines: LineOptions, named: bool) -> DocumentWriter:
    """The writer for these options; named: the name of each document's file is written too.

    Raises ConfigError if they make no sense.
    """
    if lines.tokens:
        raise ConfigError("--tokens is for lines of text; leave out --jsonl")
    if options.buckets and options.thresholds:
        raise ConfigError("--buckets finds the perplexities that --thresholds names; give one of them")
    low, high = options.buckets or (0.0, 0.0)
    if not 0 <= low <= high <= 100:
        raise ConfigError(f"--buckets must be two percentiles from 0 to 100, the lower first, got {low:g} {high:g}")
    check_perplexities("--thresholds", options.thresholds or ())
    check_perplexities("--min-ppl and --max-ppl", (options.min_ppl, options.max_ppl))
    return DocumentWriter(options, lines.log10, named)


def check_perplexities(names: str, values: Iterable[float | None]) -> None:
    """Raise ConfigError unless the perplexities that are given rise."""
    given = [value for value in values if value is not None]
    if not all(value > 0 for value in given) or given != sorted(given):
        shown = " ".join(f"{value:g}" for value in given)
        raise ConfigError(f"{names} must be perplexities above 0, the lower first, got {shown}")


class DocumentWriter:
    """Turns documents into rows of JSON; with --buckets rows wait in a temporary file for the last document."""

    def __init__(self, options: DocumentOptions, log10: bool, named: bool):
        self.options = options
        self._log10, self._named = log10, named
        self._seen = self._written = 0
        self._all, self._kept = array("d"), array("d")  # perplexities, of all and of the rows that wait
        self._waiting = tempfile.TemporaryFile("w+", encoding="utf8", newline="\n") if options.buckets else None  # noqa: SIM115, see __exit__
        self._cuts: tuple[float, float] | None = options.thresholds

    def __enter__(self) -> DocumentWriter:
        return self

    def __exit__(self, *fault: object) -> None:
        if self._waiting is not None:
            self._waiting.close()

    def rows(self, documents: Sequence[Document]) -> list[str]:
        """The rows that can be printed now."""
        found = []
        self._seen += len(documents)
        for document in documents:
            perplexity = document.perplexity
            if self._waiting is not None:
                self._all.append(math.nan if perplexity is None else perplexity)
            if not self._wanted(perplexity):
                continue
            self._written += 1
            row = self._whole(document) if self.options.keep else packed(self._numbers(document))
            if self._waiting is not None:
                self._kept.append(math.nan if perplexity is None else perplexity)
            elif self._cuts is not None:
                row = with_bucket(row, perplexity, self._cuts)
            found.append(row)
        if self._waiting is None:
            return found
        self._put_aside(found)
        return []

    def _wanted(self, perplexity: float | None) -> bool:
        least, most = self.options.min_ppl, self.options.max_ppl
        if least is None and most is None:
            return True
        return perplexity is not None and (least or 0.0) <= perplexity <= (math.inf if most is None else most)

    def _numbers(self, document: Document) -> dict[str, Any]:
        place = {"file": document.name} if self._named else {}
        key = {} if document.key is None else {"id": document.key}
        log10 = {"log10": -document.nats / LN10} if self._log10 else {}
        return {
            **place,
            "line": document.line,
            **key,
            "nats": document.nats,
            **log10,
            "tokens": document.tokens,
            "unknown": document.unknown,
            "lines": document.lines,
            "perplexity": document.perplexity,
        }

    def _whole(self, document: Document) -> str:
        """The object as it stood, byte for byte, with fields added; those of an earlier time go."""
        more = {"perplexity": document.perplexity} | ({"log10": -document.nats / LN10} if self._log10 else {})
        source = document.source.decode().strip()
        names = [*more, "bucket"]
        if any(f'"{name}"' in source for name in names):
            content = {name: value for name, value in json.loads(source).items() if name not in names}
            source = json.dumps(content, ensure_ascii=False)
        return f"{source[:-1].rstrip()}, {packed(more)[1:]}"

    def _put_aside(self, rows: Iterable[str]) -> None:
        assert self._waiting is not None
        try:
            self._waiting.writelines(row + "\n" for row in rows)
            self._waiting.flush()
        except OSError as fault:
            raise StorageError(
                f"the temporary file for --buckets in {tempfile.gettempdir()}: {fault.strerror}; set TMPDIR to a "
                "folder with more room, or give --thresholds"
            ) from None

    def late(self) -> Iterator[list[str]]:
        """The rows that waited, with their buckets, some at a time."""
        if self._waiting is None:
            return
        assert self.options.buckets is not None
        self._cuts = percentiles(self._all, self.options.buckets)
        self._waiting.seek(0)
        found = []
        for row, perplexity in zip(self._waiting, self._kept, strict=True):
            found.append(with_bucket(row.rstrip("\n"), None if math.isnan(perplexity) else perplexity, self._cuts))
            if len(found) >= TOGETHER:
                yield found
                found = []
        yield found

    def summary(self, tokens: int, skipped: int) -> str:
        """What happened, in a line."""
        written = "" if self._written == self._seen else f"{self._written:,} of "
        passed = f", {skipped:,} bad lines passed over" if self.options.skip_bad else ""
        cuts = ""
        if self._waiting is not None and self._cuts is not None:
            cuts = "; the same buckets at once: --thresholds " + " ".join(f"{cut:.6g}" for cut in self._cuts)
        return f"{written}{self._seen:,} documents, {tokens:,} tokens{passed}{cuts}"


def percentiles(perplexities: array[float], shares: tuple[float, float]) -> tuple[float, float]:
    """The perplexities at two percentiles: of documents that there are, never between two. NaN is none."""
    values = np.array(perplexities)
    values = values[~np.isnan(values)]
    if not len(values):
        return (math.inf, math.inf)
    low, high = np.percentile(values, shares, method="inverted_cdf").tolist()
    return low, high


def with_bucket(row: str, perplexity: float | None, cuts: tuple[float, float]) -> str:
    """A row with the bucket of its perplexity: head up to the first cut, middle up to the second, else tail."""
    name = None if perplexity is None else BUCKETS[sum(perplexity > cut for cut in cuts)]
    return f'{row[:-1]}, "bucket": {json.dumps(name)}}}'


def packed(content: dict[str, Any]) -> str:
    """An object as JSON; numbers of ours that are not finite become null."""
    return json.dumps({name: finite(value) for name, value in content.items()}, ensure_ascii=False)


def finite(value: Any) -> Any:
    """The value, but null for an infinite number."""
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
