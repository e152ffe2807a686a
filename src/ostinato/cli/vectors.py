"""Commands that ask word vectors: vectors neighbors, analogy, similarity, evaluate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from ostinato.cli.app import LISTS
from ostinato.cli.talk import THRESHOLD_MISSED, loudness, say, show_json, show_table, watching
from ostinato.text.read import STDIN

if TYPE_CHECKING:
    from ostinato.embed.evaluate import AnalogyScore, Section, SimilarityScore
    from ostinato.embed.vectors import Neighbors, Vectors

HELP = """
Word vectors: ask what is near, solve analogies, judge them, draw them, convert them.

VECTORS is a folder of ours, a run directory that has one, or a file in the text or binary format of word2vec or in
GloVe's, packed with gzip or zstd or not.

**Examples**

```
ostinato vectors neighbors speeches.vectors freedom
ostinato vectors evaluate speeches.vectors wordsim353.tsv questions-words.txt
```
"""

vectors_app = App(name="vectors", help=HELP, help_format="markdown", default_parameter=LISTS)


Words = Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)]
Number = Annotated[int, Parameter(name=("--number", "-k"))]
Which = Literal["input", "output", "mean"]
Method = Literal["3cosadd", "3cosmul"]


def opened(path: Path, which: Which = "input") -> Vectors:
    """Word vectors in any form, see `embed.files.open_vectors`."""
    from ostinato.embed.files import open_vectors

    with watching() as watch:
        return open_vectors(path, which, watch)


@vectors_app.command
def neighbors(
    vectors: Path,
    words: Words,
    /,
    *,
    number: Number = 10,
    which: Which = "input",
    restrict: int | None = None,
    json: bool = False,
) -> None:
    """Show the words nearest to each word, with their cosines.

    **Examples**

    ```
    ostinato vectors neighbors speeches.vectors freedom liberty -k 5
    ostinato vectors neighbors speeches.vectors - --json < words.txt
    ```

    Parameters
    ----------
    vectors:
        The vectors.
    words:
        The words; - reads them from standard input, one a line, and answers each at once.
    number:
        How many neighbours.
    which:
        The vectors of words as they are read (input), as they are predicted (output), or the mean of both.
    restrict:
        Look among that many first words only, the most frequent ones.
    json:
        Print one JSON object; JSON Lines for standard input.
    """
    from ostinato.core.errors import ConfigError

    if not words:
        raise ConfigError("name at least one word, or - for standard input")
    asked = opened(vectors, which)
    if words == (STDIN,):
        answer_lines(asked, number, restrict, json)
        return
    found = asked.most_similar(words, number, restrict=restrict)
    if json:
        show_json({"queries": [as_json(word, near) for word, near in zip(words, found, strict=True)]})
        return
    for word, near in zip(words, found, strict=True):
        show_table((f"near {word}", "cosine"), [(other, f"{cosine:.4f}") for other, cosine in near])


def answer_lines(vectors: Vectors, number: int, restrict: int | None, json: bool) -> None:
    """Answer each word of standard input; one that has no vector gets no neighbours, and a remark."""
    from ostinato.core.errors import DataError
    from ostinato.text.read import read_lines

    for line in read_lines(STDIN):
        word = line.strip()
        try:
            near = vectors.most_similar([word], number, restrict=restrict)[0]
        except DataError as fault:
            if vectors.get(word) is not None:
                raise  # the fault is not the word's
            say(str(fault))
            near = None
        if json:
            show_json(as_json(word, near))
        else:
            shown = "-" if near is None else ", ".join(f"{other} {cosine:.4f}" for other, cosine in near)
            print(f"{word}\t{shown}", flush=True)


def as_json(word: str, near: Neighbors | None) -> dict[str, Any]:
    """The neighbours of a word as plain values, null if it has no vector."""
    plain = None if near is None else [{"word": other, "cosine": cosine} for other, cosine in near]
    return {"word": word, "neighbors": plain}


@vectors_app.command
def analogy(
    vectors: Path,
    a: Annotated[str, Parameter(allow_leading_hyphen=True)],
    b: Annotated[str, Parameter(allow_leading_hyphen=True)],
    c: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    number: Number = 5,
    method: Method = "3cosadd",
    which: Which = "input",
    restrict: int | None = None,
    json: bool = False,
) -> None:
    """Say what C is to as A is to B.

    **Examples**

    ```
    ostinato vectors analogy speeches.vectors man men woman
    ostinato vectors analogy speeches.vectors man men woman --method 3cosmul --json
    ```

    Parameters
    ----------
    vectors:
        The vectors.
    a:
        The first word of the pair that is known.
    b:
        Its second word.
    c:
        The first word of the pair that is asked for.
    number:
        How many answers, best first.
    method:
        3cosadd: the cosine with b - a + c; 3cosmul: the cosines with b and c multiplied, divided by that with a.
    which:
        The vectors of words as they are read (input), as they are predicted (output), or the mean of both.
    restrict:
        Look among that many first words only, the most frequent ones.
    json:
        Print one JSON object.
    """
    found = opened(vectors, which).analogy(a, b, c, number, method=method, restrict=restrict)
    if json:
        answers = [{"word": word, "score": score} for word, score in found]
        show_json({"a": a, "b": b, "c": c, "method": method, "answers": answers})
    else:
        show_table((f"{a} : {b} = {c} : ?", method), [(word, f"{score:.4f}") for word, score in found])


@vectors_app.command
def similarity(vectors: Path, words: Words, /, *, which: Which = "input", json: bool = False) -> None:
    """Print the cosine of two words, or of every pair in a file.

    **Examples**

    ```
    ostinato vectors similarity speeches.vectors war peace
    ostinato vectors similarity speeches.vectors pairs.tsv --json
    ```

    Parameters
    ----------
    vectors:
        The vectors.
    words:
        Two words; or one file with two words a line, - for standard input, each line answered at once.
    which:
        The vectors of words as they are read (input), as they are predicted (output), or the mean of both.
    json:
        Print one JSON object; JSON Lines for a file.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.embed.benchmarks import read_pairs

    if len(words) not in (1, 2):
        raise ConfigError(f"give two words, or one file of pairs, got {len(words)} words")
    asked = opened(vectors, which)
    if len(words) == 2:
        show_pair(words[0], words[1], float(asked.similarity([(words[0], words[1])])[0]), json)
        return
    if words[0] != "-" and not Path(words[0]).exists() and asked.get(words[0]) is not None:
        raise ConfigError(f"{words[0]} is a word and no file; name a second word")
    for left, right in read_pairs(words[0]):
        missing = [word for word in (left, right) if asked.get(word) is None]
        if missing:
            say(f"no vector for {' and '.join(map(repr, missing))}")
        show_pair(left, right, None if missing else float(asked.similarity([(left, right)])[0]), json)


def show_pair(left: str, right: str, cosine: float | None, json: bool) -> None:
    """One pair on one line; a dash or null without a vector."""
    if json:
        show_json({"words": [left, right], "cosine": cosine})
    else:
        print(f"{left}\t{right}\t{'-' if cosine is None else f'{cosine:.4f}'}", flush=True)


@vectors_app.command
def evaluate(
    vectors: Path,
    files: Words,
    /,
    *,
    which: Which = "input",
    restrict: int | None = None,
    exact_case: bool = False,
    method: Method = "3cosadd",
    min_spearman: float | None = None,
    min_analogies: float | None = None,
    json: bool = False,
) -> int:
    """Judge vectors by what people say about pairs of words, and by analogies; coverage is always shown.

    With -v every section of the analogies has its line.

    **Examples**

    ```
    ostinato vectors evaluate speeches.vectors wordsim353.tsv simlex999.txt
    ostinato vectors evaluate speeches.vectors questions-words.txt --restrict 30000 --min-analogies 0.1 --json
    ```

    Parameters
    ----------
    vectors:
        The vectors.
    files:
        Files with a pair of words and a score a line, or analogies as in questions-words.txt; which kind is found
        out. - is standard input.
    which:
        The vectors of words as they are read (input), as they are predicted (output), or the mean of both.
    restrict:
        Use that many first words only, the most frequent ones.
    exact_case:
        Tell capital letters from small ones.
    method:
        How analogies are solved: 3cosadd: the cosine with b - a + c; 3cosmul: the cosines multiplied and divided.
    min_spearman:
        Exit with code 3 if a rank correlation is lower.
    min_analogies:
        Exit with code 3 if a smaller share of a file's analogies that could be answered is right.
    json:
        Print one JSON object.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.embed.benchmarks import read_benchmark
    from ostinato.embed.evaluate import AnalogyScore, SimilarityScore
    from ostinato.embed.evaluate import evaluate as judge

    if not files:
        raise ConfigError("name at least one file of word pairs or analogies")
    benchmarks = [read_benchmark(path) for path in files]
    asked = opened(vectors, which)
    scores = [judge(asked, some, lower=not exact_case, restrict=restrict, method=method) for some in benchmarks]
    alike = [score for score in scores if isinstance(score, SimilarityScore)]
    solved = [score for score in scores if isinstance(score, AnalogyScore)]
    if json:
        show_json({"scores": [score.to_json() for score in scores]})
    else:
        show_similarities(alike)
        show_analogies(solved)
        show_conditions(asked, restrict, exact_case)
    missed = [
        below("--min-spearman", min_spearman, [(score.name, score.spearman) for score in alike]),
        below("--min-analogies", min_analogies, [(score.name, score.total.accuracy) for score in solved]),
    ]
    return THRESHOLD_MISSED if any(missed) else 0


def show_similarities(scores: list[SimilarityScore]) -> None:
    """One line a file of pairs."""
    if not scores:
        return
    rows = [
        (score.name, f"{score.pairs:,}", f"{score.coverage:.1%}", f"{score.composed:,}", rounded(score.spearman),
         rounded(score.pearson))
        for score in scores
    ]  # fmt: skip
    show_table(("word pairs", "pairs", "coverage", "by n-grams", "Spearman", "Pearson"), rows)


def show_analogies(scores: list[AnalogyScore]) -> None:
    """One line a file of analogies, and with -v one a section."""
    if not scores:
        return
    rows: list[tuple[str, ...]] = []
    for score in scores:
        parts = (score.semantic, score.syntactic, score.total)
        rows.append((score.name, *facts(score.total), *(share(part) for part in parts)))
        if loudness.level >= 2:
            rows += [(f"  {section.name}", *facts(section), "", "", share(section)) for section in score.sections]
    show_table((f"analogies, {scores[0].method}", "questions", "coverage", "semantic", "syntactic", "right"), rows)


def show_conditions(vectors: Vectors, restrict: int | None, exact_case: bool) -> None:
    """What the numbers hold for."""
    used = f"{min(restrict or len(vectors), len(vectors)):,} of {len(vectors):,} words"
    print(f"{used}, {vectors.dimensions} dimensions, case {'kept' if exact_case else 'ignored'}; only what is covered")


def facts(section: Section) -> tuple[str, str]:
    """How many questions, and the share that could be answered."""
    return f"{section.questions:,}", f"{section.coverage:.1%}"


def share(section: Section) -> str:
    """The share of right answers, a dash if nothing could be answered."""
    return f"{section.accuracy:.1%}" if section.answered else "-"


def rounded(number: float) -> str:
    """A correlation, a dash if there is none."""
    return f"{number:.4f}" if number == number else "-"


def below(option: str, least: float | None, values: Iterable[tuple[str, float]]) -> bool:
    """Say which values are below a threshold, or cannot be computed. Raises ConfigError if there is no such value."""
    from ostinato.core.errors import ConfigError

    if least is None:
        return False
    found = list(values)
    if not found:
        raise ConfigError(f"{option} was given, but no file that it is for")
    missed = [(name, value) for name, value in found if not value >= least]
    for name, value in missed:
        say(f"{name}: {rounded(value)} is below {option} {least:g}")
    return bool(missed)
