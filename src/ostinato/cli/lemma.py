"""Commands of the trainable lemmatiser: lemma train, predict, evaluate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from ostinato.cli.app import LISTS
from ostinato.cli.talk import THRESHOLD_MISSED, say, show_json, show_table
from ostinato.text.read import STDIN

if TYPE_CHECKING:
    from ostinato.text.lemma import Lemmatiser
    from ostinato.text.lemma_score import LemmaScore, Tally

HELP = """
Lemmas: the dictionary form of a word and its part of speech, learnt from a treebank.

A lemmatiser is a file that `lemma train` makes. Treebanks are in CoNLL-U, packed with gzip or zstd or not.

**Examples**

```
ostinato lemma train en_ewt-ud-train.conllu --out english.lemma
ostinato lemma evaluate english.lemma en_ewt-ud-test.conllu --simplemma en
```
"""

lemma_app = App(name="lemma", help=HELP, help_format="markdown", default_parameter=LISTS)

NAMES = {"seen": "seen", "recased": "seen in other case", "ruled": "not seen"}

Files = Annotated[tuple[str, ...], Parameter(allow_leading_hyphen=True)]
Source = Annotated[str, Parameter(allow_leading_hyphen=True)]


@lemma_app.command
def train(treebanks: Files, /, *, out: Path, force: bool = False, json: bool = False) -> None:
    """Learn lemmas from treebanks: a table of what was seen, and rules by ending for everything else.

    **Examples**

    ```
    ostinato lemma train en_ewt-ud-train.conllu --out english.lemma
    ostinato lemma train part1.conllu.gz part2.conllu.gz --out all.lemma --force --json
    ```

    Parameters
    ----------
    treebanks:
        Files in CoNLL-U; - is standard input. FORM, UPOS and LEMMA are read; words without a lemma are left out.
    out:
        The file to write.
    force:
        Replace it if it is there.
    json:
        Print what was learnt as one JSON object.
    """
    from ostinato.core.errors import StorageError
    from ostinato.text.lemma import Lemmatiser
    from ostinato.text.lemma_score import read_words
    from ostinato.text.read import check_readable

    if out.exists() and not force:
        raise StorageError(f"{out}: already exists; choose another name, or --force to replace it")
    check_readable(treebanks)
    made = Lemmatiser.fit(read_words(treebanks))
    made.save(out)
    say(f"wrote {out}: {made}")
    if json:
        show_json({"file": str(out), **facts(made)})


def facts(made: Lemmatiser) -> dict[str, Any]:
    """What a lemmatiser has learnt, in numbers."""
    return {
        "fingerprint": made.fingerprint,
        "forms": len(made.listed[""]),
        "parts_of_speech": made.tags,
        "endings": sum(len(part[tag].edits) for part in (made.words, made.capitals) for tag in made.tags),
    }


@lemma_app.command
def predict(lemmatiser: Path, text: Source = STDIN, /) -> None:
    """Write the lemma of every word, each line as soon as it has come.

    CoNLL-U comes out with its LEMMA column filled and nothing else changed. In any other text each line is a form,
    or a form, a tab and its part of speech; the lemma is added after another tab.

    **Examples**

    ```
    ostinato lemma predict english.lemma tagged.conllu > lemmas.conllu
    ostinato lemma predict english.lemma - < words.tsv
    ```

    Parameters
    ----------
    lemmatiser:
        The lemmatiser.
    text:
        The text; - is standard input.
    """
    from ostinato.text.lemma import Lemmatiser
    from ostinato.text.lemma_lines import Lines

    lines = Lines(Lemmatiser.load(lemmatiser))
    for line in lines.filled(text):
        print(line, end="", flush=True)
    if lines.strange:
        named = ", ".join(f"{tag} ({count:,})" for tag, count in lines.strange.most_common(5))
        say(f"parts of speech that were not in the treebank, so the words were treated as if they had none: {named}")


@lemma_app.command
def evaluate(
    lemmatiser: Path,
    treebanks: Files,
    /,
    *,
    simplemma: str | None = None,
    without_upos: bool = False,
    mistakes: int = 10,
    min_caseless: float | None = None,
    min_exact: float | None = None,
    json: bool = False,
) -> int:
    """Compare lemmas with those of a treebank, beside a dictionary and beside the forms themselves.

    Right means the same letters (caseless), or the same letters in the same case (exact). Words whose lemma the
    treebank does not give are left out; the parts of speech are the treebank's.

    **Examples**

    ```
    ostinato lemma evaluate english.lemma en_ewt-ud-test.conllu --simplemma en
    ostinato lemma evaluate english.lemma en_ewt-ud-test.conllu --min-exact 0.985 --json
    ```

    Parameters
    ----------
    lemmatiser:
        The lemmatiser.
    treebanks:
        Files in CoNLL-U; - is standard input.
    simplemma:
        A language of the dictionary simplemma, such as en, to show what that gives.
    without_upos:
        Do not look at the parts of speech.
    mistakes:
        How many of the most frequent mistakes to show.
    min_caseless:
        Exit with code 3 if a smaller share is right, letter case ignored.
    min_exact:
        Exit with code 3 if a smaller share is right, letter case and all.
    json:
        Print one JSON object.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.text.lemma import Lemmatiser
    from ostinato.text.lemma_score import evaluate as judge
    from ostinato.text.lemma_score import read_words

    if mistakes < 0:
        raise ConfigError(f"--mistakes must be 0 or more, got {mistakes}")
    asked = Lemmatiser.load(lemmatiser)
    words = list(read_words(treebanks))
    scores = judge(asked, words, simplemma, not without_upos)
    left = len(words) - scores[0].all.words
    if json:
        about = {"lemmatiser": asked.fingerprint, "upos": not without_upos, "without_lemma": left}
        show_json({**about, "scores": [score.to_json(mistakes) for score in scores]})
    else:
        show_scores(scores)
        show_mistakes(scores[0], mistakes)
        speech = "no parts of speech" if without_upos else "the treebank's parts of speech"
        print(f"{scores[0].all.words:,} words, {left:,} without a lemma left out; {speech}; {asked}")
    missed = [below(scores[0].all, "caseless", min_caseless), below(scores[0].all, "exact", min_exact)]
    return THRESHOLD_MISSED if any(missed) else 0


def show_scores(scores: list[LemmaScore]) -> None:
    """A line a score, and one for each group of words below it."""
    rows: list[tuple[str, ...]] = []
    for score in scores:
        rows.append((score.name, *shares(score.all)))
        rows += [(f"  {NAMES[how]}", *shares(tally)) for how, tally in score.groups.items()]
    show_table(("lemmas", "words", "caseless", "exact"), rows)


def shares(tally: Tally) -> tuple[str, ...]:
    """A tally in the cells of a table; a dash for a share of nothing."""
    return (
        f"{tally.words:,}",
        *(f"{count / tally.words:.2%}" if tally.words else "-" for count in tally.right.values()),
    )


def show_mistakes(score: LemmaScore, number: int) -> None:
    """The most frequent mistakes."""
    if score.mistakes and number:
        rows = [(one.form, one.upos or "-", one.right, one.given, str(one.times)) for one in score.mistakes[:number]]
        show_table(("form", "part of speech", "lemma", "given", "times"), rows, "most frequent mistakes")


def below(tally: Tally, what: str, least: float | None) -> bool:
    """Say whether less is right than wanted."""
    share = tally.right[what] / tally.words
    missed = least is not None and not share >= least
    if missed:
        say(f"{share:.4f} of the lemmas are right ({what}), below --min-{what} {least:g}")
    return missed
