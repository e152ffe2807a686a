"""Commands that look into an n-gram model: ngram explain, next, check."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ostinato.cli.ngrams import ngram_app, opened
from ostinato.cli.talk import say, show_json

if TYPE_CHECKING:
    from ostinato.tasks.language.explain import Behind, Explanation


@ngram_app.command
def explain(model: Path, sentence: str, *, counts: Path | None = None, json: bool = False) -> None:
    """Show for every word of a sentence which n-gram its probability comes from, and every back-off on the way.

    `p(c | a b)` is what the table holds for the n-gram `a b c`; a number before `[a b]` is the back-off that was
    paid for leaving that context. With counts, each n-gram's count, the sum over its context, the different words
    after it and the discount follow; Kneser-Ney counts lower orders by the different words before them.

    **Examples**

    ```
    ostinato ngram explain kn5.ngram "we hold these truths"
    ostinato ngram explain kn5.ngram "we hold these truths" --counts speeches.counts --json
    ```

    Parameters
    ----------
    model:
        The model.
    sentence:
        The words, cut as the model's text was.
    counts:
        The counts that the model was made from, saved by `ngram count`.
    json:
        Print one JSON object, its log-probs in nats.
    """
    from ostinato.ngram.store import open_counts
    from ostinato.tasks.language import explain as task

    stored = opened(model)
    counted = None
    if counts is not None:
        found, label = open_counts(counts)
        counted = found, label.vocabulary
    explanation = task.explain(stored, sentence, counted)
    remark = task.remark_on(explanation.words)
    if json:
        show_json({**explanation.to_json(), "remark": remark})
        return
    show_explanation(explanation, counted is not None)
    if remark:
        print(remark)
    if not explanation.normalised:
        print("the numbers of this model need not sum to one")


def show_explanation(explanation: Explanation, counted: bool) -> None:
    """A row for each word, and the sum."""
    from ostinato.tasks.language.explain import arithmetic

    rows = [["word", "order", "log-prob", "probability", *COUNTED[: 4 * counted], "back-offs × n-gram found"]]
    for word in explanation.words:
        shown = word.word if word.known else f"{word.word} (unknown)"
        row = [shown, str(word.order), f"{word.log_prob:.4f}", f"{math.exp(word.log_prob):.3g}"]
        rows.append([*row, *behind(word.behind)[: 4 * counted], arithmetic(word)])
    show_aligned(rows)
    mean = f"perplexity {explanation.perplexity:.2f} per word, </s> counted"
    print(f"total {explanation.log_prob:.4f} nats, {mean}; {explanation.smoothing}")


COUNTED = ("count", "in context", "types", "discount")


def behind(found: Behind | None) -> list[str]:
    """The four numbers behind an n-gram."""
    if found is None:
        return ["-"] * len(COUNTED)
    discount = "-" if found.discount is None or not found.count else f"{found.discount:.4f}"
    return [f"{found.count:,}", f"{found.context_count:,}", f"{found.types:,}", discount]


def show_aligned(rows: list[list[str]]) -> None:
    """Columns as wide as their widest cell on a terminal, the first and the last on the left, the others right."""
    from rich.cells import cell_len

    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        gaps = [" " * (width - cell_len(cell)) for width, cell in zip(widths, row, strict=True)]
        middle = [gap + cell for gap, cell in zip(gaps[1:-1], row[1:-1], strict=True)]
        print("  ".join([row[0] + gaps[0], *middle, row[-1]]))


@ngram_app.command(name="next")
def next_words(
    model: Path,
    context: str = "",
    *,
    number: Annotated[int, Parameter(name=("--number", "-k"))] = 10,
    json: bool = False,
) -> None:
    """Show the most likely words after the beginning of a sentence, with their probabilities.

    **Examples**

    ```
    ostinato ngram next kn5.ngram "the state of the"
    ostinato ngram next kn5.ngram "" -k 3 --json
    ```

    Parameters
    ----------
    model:
        The model.
    context:
        The words before; none for the beginning of a sentence.
    number:
        How many words to show.
    json:
        Print one JSON object.
    """
    from ostinato.tasks.language.reshape import next_words as task

    found, unknown = task(opened(model), context, number)
    if unknown:
        say(f"outside the vocabulary, read as <unk>: {', '.join(unknown)}")
    if json:
        rows = [{"word": word, "log_prob": log_prob, "probability": math.exp(log_prob)} for word, log_prob in found]
        show_json({"context": context, "unknown": unknown, "next": rows})
        return
    for word, log_prob in found:
        print(f"{math.exp(log_prob):.6f}\t{log_prob:.4f}\t{word}")


@ngram_app.command
def check(model: Path, *, json: bool = False) -> None:
    """Read a whole model, verify every number and link, and add up some distributions.

    **Examples**

    ```
    ostinato ngram check kn5.ngram
    ostinato ngram check news.arpa.gz --json
    ```

    Parameters
    ----------
    model:
        The model.
    json:
        Print one JSON object.
    """
    from ostinato.ngram.store import is_model_file, open_model
    from ostinato.tasks.language.reshape import check as task

    stored = open_model(model, check=True) if is_model_file(model) else opened(model)
    facts = task(stored)
    if json:
        show_json(facts)
        return
    numbers = ", ".join(f"{number:,}" for number in facts["ngrams"])
    print(f"sound: {facts['smoothing']}, order {facts['order']}; n-grams by order: {numbers}")
    for note in facts["notes"]:
        print(f"note: {note}")
    off = facts["sum_off"]
    print("distributions need not sum to one" if off is None else f"distributions sum to one within {off:.1g}")
