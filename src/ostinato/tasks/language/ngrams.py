"""Count-based models from text files, and everything that can be done with one: the work behind `ostinato ngram`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import reduce
from pathlib import Path
from typing import IO, Any

from numpy.typing import NDArray

from ostinato.core.config import build
from ostinato.core.errors import ConfigError, MismatchError, StorageError
from ostinato.core.progress import Watch, unwatched
from ostinato.core.vocabulary import Vocabulary
from ostinato.ngram.counts import Counts, UnknownMass, count
from ostinato.ngram.estimate import write_arpa_only, write_model
from ostinato.ngram.merge import grow, merge_counts, unite_vocabularies
from ostinato.ngram.options import NGramOptions
from ostinato.ngram.smoothing import Smoothing, smoothings
from ostinato.ngram.smoothing.discounts import Discounted
from ostinato.ngram.store import Label, is_counts_file, is_model_file, open_counts, save_counts
from ostinato.ngram.trie import Trie
from ostinato.ngram.workspace import Workspace, parse_memory
from ostinato.text.corpora import prepare_whole
from ostinato.text.options import DataOptions
from ostinato.text.pipeline import Pipeline
from ostinato.text.read import STDIN
from ostinato.text.stream import encode_files

AS_IT_STANDS = DataOptions(normalise=(), tokeniser="blank", min_count=1, empty_lines="keep")
"""How text is read unless the user says otherwise: as KenLM reads it."""

ORDER = NGramOptions().order


@dataclass(frozen=True)
class Estimate:
    """What to count and how.

    data: texts, or files of counts, and how text is cut. order: None for that of the counts, 5 for a text.
    prune: as `thresholds` of `Smoothing.fit`. memory: as `parse_memory` takes it. unknown: as in Counts. heldout: texts
    for a smoothing that has numbers to choose. note is told what the table's notes say.
    """

    data: DataOptions = AS_IT_STANDS
    order: int | None = None
    smoothing: str = NGramOptions().smoothing
    prune: tuple[int, ...] = ()
    memory: str | None = None
    unknown: UnknownMass = "kenlm"
    heldout: tuple[str, ...] = ()
    threads: int | None = None
    note: Callable[[str], None] = lambda text: None
    watch: Watch = unwatched

    def check(self) -> None:
        """Raise ConfigError for a smoothing that is not known, an order or a threshold that cannot be."""
        assert smoothings[self.smoothing]
        order = ORDER if self.order is None else self.order
        build(NGramOptions, {"order": order, "prune": self.prune}, "ngram")
        parse_memory(self.memory)


@dataclass(frozen=True)
class Counted:
    """Counts, and what their text was read with."""

    counts: Counts
    label: Label


@dataclass(frozen=True)
class Estimated:
    """What an estimation made: n-grams by order, what was discounted, and what the user should know."""

    ngrams: tuple[int, ...]
    tokens: int
    lines: int
    smoothing: str
    discounts: tuple[tuple[float, ...], ...]
    notes: tuple[str, ...]


def counted(wanted: Estimate, folder: Path) -> Counted:
    """The counts of texts, or of files of counts added up; scratch files go to `folder`.

    Raises as `prepare_whole`, `count` and `open_counts` do; ConfigError for texts and counts together.
    """
    stored = [path for path in wanted.data.text if path != STDIN and is_counts_file(Path(path))]
    if not stored:
        return count_text(wanted, folder)
    if len(stored) < len(wanted.data.text):
        raise ConfigError(f"{stored[0]} holds counts and others do not; count the texts first, with --add {stored[0]}")
    check_unused(wanted.data, stored[0])
    total = added_up([Counted(*open_counts(Path(path))) for path in stored])
    counts = replace(total.counts, space=Workspace(parse_memory(wanted.memory), folder))
    return Counted(counts if wanted.order is None else lower_order(counts, wanted.order), total.label)


def check_unused(data: DataOptions, path: str) -> None:
    """Raise ConfigError for an option about text that has no use, since counts are given."""
    for field in fields(data):
        if field.name != "text" and getattr(data, field.name) != getattr(AS_IT_STANDS, field.name):
            name = field.name.replace("_", "-")
            raise ConfigError(f"--{name} has no use: {path} holds counts, whose text was read already; leave it out")


def count_text(wanted: Estimate, folder: Path) -> Counted:
    """Read and count a text; scratch files go to `folder`. Raises as `prepare_whole` and `count` do."""
    for path in wanted.data.text:
        if path != STDIN and is_model_file(Path(path)):
            raise ConfigError(f"{path}: holds a model or something else of ours, not a text or counts")
    space = Workspace(parse_memory(wanted.memory), folder)
    whole = prepare_whole(wanted.data, folder / "text", wanted.watch, space.empty)
    order = ORDER if wanted.order is None else wanted.order
    counts = count(whole.ids, whole.vocabulary, order, wanted.watch, wanted.threads, space)
    more = {"regime": "sentence", "empty_lines": wanted.data.empty_lines, "data": whole.data, "tokens": len(whole.ids)}
    return Counted(counts, Label(whole.vocabulary, whole.pipeline, more))


def lower_order(counts: Counts, order: int) -> Counts:
    """The counts of the n-grams up to that order: what counting with it gives. Raises ConfigError for a higher one."""
    if not 1 <= order <= counts.order:
        raise ConfigError(f"--order {order}: the counts have the orders 1 to {counts.order}; count the text again")
    if order == counts.order:
        return counts
    end, inner = counts.trie.level(order).stop, counts.trie.level(order).start
    whole = counts.trie
    trie = Trie(whole.word[:end], whole.first_child[: inner + 1], whole.suffix[:end], whole.ngrams[:order])
    return Counts(trie, counts.count[:end], counts.tokens, counts.lines, counts.space)


def added_up(parts: Sequence[Counted]) -> Counted:
    """The counts of several texts together, over the words of all; those of the first come first.

    Raises MismatchError for orders that differ, or texts that were not cut alike.
    """
    first = parts[0].label
    if len(parts) == 1:
        return parts[0]
    for part in parts:
        if part.label.pipeline.signature != first.pipeline.signature:
            raise MismatchError(
                f"counts of pieces {first.pipeline.signature} and {part.label.pipeline.signature} cannot be added; "
                "count all texts with the same tokeniser and normalisers"
            )
    vocabulary = unite_vocabularies(part.label.vocabulary for part in parts)
    counts = reduce(merge_counts, (grow(part.counts, part.label.vocabulary, vocabulary) for part in parts))
    data = "+".join(dict.fromkeys(str(part.label.more.get("data", "?")) for part in parts))
    return Counted(counts, Label(vocabulary, first.pipeline, {**first.more, "data": data, "tokens": counts.tokens}))


def count_files(wanted: Estimate, added: Sequence[str], out: Path) -> Counted:
    """Count texts, add them to earlier counts if any are named, and write the sum; return it.

    An order of None is that of the earlier counts. Raises as `counted` and `added_up` do, StorageError.
    """
    wanted.check()
    if not wanted.data.text and not added:
        raise ConfigError("name a text to count")
    parts = [Counted(*open_counts(Path(path))) for path in added]
    if parts and wanted.order is None:
        wanted = replace(wanted, order=parts[0].counts.order)
    with scratch(out) as folder:
        if wanted.data.text:
            parts.append(counted(wanted, folder))
        total = added_up(parts)
        save_counts(out, total.counts, total.label)
    return total


def estimate(wanted: Estimate, out: Path | None, arpa: str | IO[bytes] | None = None) -> Estimated:
    """Estimate a model and write it: a model file, an ARPA file (or an open binary file), or both.

    Raises ConfigError, DataError, MismatchError, StorageError; nothing is left behind then.
    """
    wanted.check()
    if out is None and arpa is None:
        raise ConfigError("name a file to write: --out MODEL, --arpa FILE, or both")
    beside = out or (Path(arpa) if isinstance(arpa, str) else Path(tempfile.gettempdir()) / "model")
    with scratch(beside) as folder:
        part = counted(wanted, folder)
        heldout = heldout_ids(wanted, part.label.pipeline, part.label.vocabulary)
        made = smooth(wanted, part, heldout, out, folder, arpa)
    for note in made.notes:
        wanted.note(note)
    return made


def smooth(
    wanted: Estimate,
    part: Counted,
    heldout: NDArray[Any] | None,
    out: Path | None,
    folder: Path,
    arpa: str | IO[bytes] | None,
) -> Estimated:
    """Write the model of these counts, through a file in `folder` if only an ARPA file was asked for."""
    smoothing: Smoothing = smoothings[wanted.smoothing]()
    counts, label = replace(part.counts, unknown=wanted.unknown), part.label
    sizes = counts.tokens, counts.lines, wanted.smoothing
    if out is None and isinstance(smoothing, Discounted) and smoothing.interpolated and not any(wanted.prune):
        assert arpa is not None
        found = write_arpa_only(counts, smoothing, label, arpa, wanted.watch)
        return Estimated(counts.trie.ngrams, *sizes, tuple(found.values), tuple(found.notes))
    target = out or folder / "model"
    table = write_model(counts, smoothing, label, target, heldout, wanted.prune, arpa, wanted.watch).table
    return Estimated(table.ngrams, *sizes, table.discounts, table.notes)


def heldout_ids(wanted: Estimate, pipeline: Pipeline, vocabulary: Vocabulary) -> NDArray[Any] | None:
    """The ids of the held-out text, if one is named."""
    if not wanted.heldout:
        return None
    return encode_files(wanted.heldout, pipeline, vocabulary, None, wanted.watch, wanted.data.empty_lines).ids


@contextmanager
def scratch(target: Path) -> Iterator[Path]:
    """A folder for large files beside the target, gone afterwards. Raises StorageError if there can be none."""
    beside = target.resolve().parent
    try:
        beside.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(prefix=".ostinato-", dir=beside)
    except OSError as fault:
        raise StorageError(f"{target}: cannot be written ({fault.strerror or fault}); choose another place") from None
    with folder as name:
        yield Path(name)


def check_new(path: Path, force: bool) -> None:
    """Raise StorageError if a file stands there already and is not to be replaced."""
    if path.is_dir() or (path.exists() and not force):
        raise StorageError(f"{path}: already exists; choose another name, or --force to replace a file")
