"""Commands that make something of word vectors: vectors map, convert."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from ostinato.cli.talk import loudness, say, show_json, size, watching
from ostinato.cli.vectors import Which, Words, opened, vectors_app

if TYPE_CHECKING:
    from ostinato.core.progress import Watch
    from ostinato.embed.files import Kind, Reading
    from ostinato.embed.vectors import Vectors


@vectors_app.command(name="map")
def draw_map(
    vectors: Path,
    chosen: Words = (),
    /,
    *,
    words: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    top: int | None = None,
    out: Path | None = None,
    which: Which = "input",
    json: bool = False,
) -> None:
    """Draw words on a map: the two directions in which their vectors of length one differ most (PCA).

    **Examples**

    ```
    ostinato vectors map speeches.vectors war peace law freedom tax debt --out map.svg
    ostinato vectors map speeches.vectors --top 200 --out map.png --json
    ```

    Parameters
    ----------
    vectors:
        The vectors.
    chosen:
        The words.
    words:
        A file with more words, white space between them; - is standard input. Those without a vector are left out.
    top:
        That many first words of the vectors too, the most frequent ones.
    out:
        The .svg or .png to draw; an existing file is replaced.
    which:
        The vectors of words as they are read (input), as they are predicted (output), or the mean of both.
    json:
        Print the points and the share of the variance on each axis as one JSON object; --out is not needed then.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.core.pictures import form_of
    from ostinato.embed.projection import WHAT, draw, project

    if out is None and not json:
        raise ConfigError("name the file to draw with --out, such as map.svg, or ask for the points with --json")
    if not chosen and words is None and top is None:
        raise ConfigError("name words, a file of words (--words), or how many of the first (--top)")
    if out is not None:
        form_of(out, WHAT)
    asked = opened(vectors, which)
    named = [*chosen, *listed(words, asked)]
    made = project(asked, named if top is None else [*named, *asked.top(top).words])
    if out is not None:
        draw(made, out)
        say(f"wrote {out}: {len(made.words)} words, {sum(made.variance):.1%} of their variance")
    if json:
        show_json({**made.to_json(), "file": None if out is None else str(out)})


def listed(path: str | None, vectors: Vectors) -> list[str]:
    """The words of a file that have a vector; how many have none is said."""
    from ostinato.text.read import read_lines

    if path is None:
        return []
    words = [word for line in read_lines(path) for word in line.split()]
    found = [word for word in words if vectors.get(word) is not None]
    if len(found) < len(words):
        say(f"{len(words) - len(found):,} of {len(words):,} words have no vector and are left out")
    return found


@vectors_app.command
def convert(
    source: Path,
    target: Path,
    /,
    *,
    to: Literal["word2vec-text", "word2vec-binary", "glove", "ostinato"] | None = None,
    dtype: Literal["float32", "float16"] | None = None,
    top: int | None = None,
    which: Which = "input",
    errors: Literal["strict", "replace", "keep"] = "strict",
    repeated: Literal["refuse", "first"] = "refuse",
    counts: Path | None = None,
    save_counts: Path | None = None,
    replace_blanks: str | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write vectors in another format; they may be larger than memory.

    **Examples**

    ```
    ostinato vectors convert crawl-300d-2M.vec.gz crawl --dtype float16 --top 500000
    ostinato vectors convert speeches.vectors speeches.bin
    ```

    Parameters
    ----------
    source:
        The vectors.
    target:
        The file or folder to write; files whose names end in .gz or .zst are packed.
    to:
        The format; by the ending of TARGET if left out: .txt and .vec are word2vec's text, .bin its binary, and a
        name without ending is a folder of ours.
    dtype:
        How a folder keeps numbers; float16 takes half the room for about three digits.
    top:
        Keep that many first words only, the most frequent ones.
    which:
        The vectors of words as they are read (input), as they are predicted (output), or the mean of both.
    errors:
        Words that are not UTF-8: refused (strict), with U+FFFD for bad bytes (replace), or kept as they are (keep).
    repeated:
        Words that come twice: refused, or the first vector counts.
    counts:
        A file of lines `word count` that belongs to SOURCE.
    save_counts:
        A file to write such lines to.
    replace_blanks:
        What becomes of white space inside words, which other programs' formats cannot hold.
    force:
        Replace a file or vectors that exist.
    json:
        Print one JSON object.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.embed.files import Reading, write_counts, write_vectors

    kind = to or kind_by_name(target)
    if dtype is not None and kind != "ostinato":
        raise ConfigError(f"--dtype is for a folder of ours; {kind} holds float32 only")
    check_new(target, force)
    reading = Reading(errors, repeated, counts)
    with watching() as watch, mapped(source, target, which, reading, watch) as whole:
        kept = whole if top is None else whole.top(top)
        if kind == "ostinato":
            kept.save(target, dtype, force=force)
            if save_counts is not None:
                write_counts(kept, save_counts, replace_blanks)
        else:
            write_vectors(kept, target, kind, counts=save_counts, replace_blanks=replace_blanks, watch=watch)
        words, dimensions = len(kept), kept.dimensions
    files = list(target.iterdir()) if target.is_dir() else [target]
    room = sum(file.stat().st_size for file in files)
    if json:
        show_json({"file": str(target), "kind": kind, "words": words, "dimensions": dimensions, "bytes": room})
    elif loudness.level >= 1:
        print(f"wrote {target} ({kind}, {size(room)}): {words:,} words, {dimensions} dimensions")


def kind_by_name(path: Path) -> Kind:
    """The format that the ending of a name stands for. Raises ConfigError for one that stands for none."""
    from ostinato.core.errors import ConfigError

    packed = path.suffix in (".gz", ".zst")
    known: dict[str, Kind] = {".txt": "word2vec-text", ".vec": "word2vec-text", ".bin": "word2vec-binary"}
    if not packed:
        known |= {"": "ostinato", ".vectors": "ostinato"}
    ending = (path.with_suffix("") if packed else path).suffix
    if ending not in known:
        raise ConfigError(f"{path}: its ending stands for no format of vectors; name one with --to")
    return known[ending]


def check_new(path: Path, force: bool) -> None:
    """Raise StorageError for a file or a folder with vectors that is not to be replaced."""
    from ostinato.core.errors import StorageError
    from ostinato.embed.folder import folder_in

    found = folder_in(path)
    if found not in (None, path):
        raise StorageError(f"{path} is a run directory; choose another name")
    if not force and (path.is_file() or found is not None):
        raise StorageError(f"{path} exists; choose another name or replace it with --force")


@contextmanager
def mapped(source: Path, target: Path, which: Which, reading: Reading, watch: Watch) -> Iterator[Vectors]:
    """The vectors, memory-mapped: a folder of ours as it lies, a file laid out beside the target meanwhile."""
    from ostinato.core.errors import ConfigError
    from ostinato.core.files import storage_error
    from ostinato.embed.files import convert_vectors
    from ostinato.embed.folder import folder_in

    if folder_in(source) is not None or which != "input":
        if reading.counts is not None:
            raise ConfigError(f"{source}: --counts is for files of other programs; a folder of ours has its own")
        yield opened(source, which)
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent)
    except OSError as fault:
        raise storage_error(target, fault) from fault
    with scratch as folder:
        yield convert_vectors(source, Path(folder) / "vectors", "ostinato", reading=reading, watch=watch)
