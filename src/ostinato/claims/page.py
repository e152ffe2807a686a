"""The page of a claim in Markdown, English and Chinese, and the page of all claims."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from ostinato.claims.claim import LEVELS, UNITS, Claim, Interval, Quantity, Size, Text
from ostinato.claims.results import Result, best
from ostinato.claims.verdict import RULE, VERDICTS, Verdict, mean, spread

Language: TypeAlias = Literal["en", "zh"]

FEW = 12
"""Curves of so many points or fewer are written out as a table."""

MOST_COLUMNS = 12

WORDS: dict[str, Text] = {
    "verdict": Text("Verdict", "判定"),
    "level": Text("Evidence", "证据等级"),
    "premises": Text("Premises", "前提"),
    "misreading": Text("Common misreading", "常见误读"),
    "sources": Text("Source", "来源"),
    "experiment": Text("Measured here", "此处的实验"),
    "quantity": Text("quantity", "量"),
    "unit": Text("unit", "单位"),
    "expected": Text("expected before the run", "运行前的预期"),
    "measured": Text("mean ± spread", "均值 ± 离散度"),
    "seeds": Text("each seed", "各种子"),
    "reported": Text("reported only", "仅报告"),
    "never": Text("not run yet", "尚未运行"),
    "full": Text("full run", "完整运行"),
    "quick": Text("quick run", "快速运行"),
    "drawn": Text("{} seeds", "{} 个种子"),
    "commit": Text("commit", "提交"),
    "cores": Text("{} cores", "{} 核"),
    "because": Text("Why these intervals", "区间的依据"),
}

SIGNS: dict[Verdict, str] = {"holds": "✓", "fails": "✗", "undecided": "?"}
"""Verdicts at a glance, beside their words."""


def page(claim: Claim, found: Mapping[Size, Result]) -> str:
    """The page of one claim in both languages; its figure is ID.svg beside it."""
    parts = [f"<!-- made by `ostinato claims run {claim.id}`; do not edit -->", f"# {claim.id}"]
    for language in ("en", "zh"):
        parts += section(claim, found, language, f"{claim.id}.svg")
    return "\n\n".join(parts) + "\n"


ADDING = """## For those who add a claim

One file in `src/ostinato/claims/statements/`, named in its `__init__.py`: a `Claim` with its texts in both languages,
sources that stand in [papers.md](papers.md), quantities with their intervals, figures, and
`measure(size, seed, watch)`, which returns the numbers and curves of one seed. Write the intervals from the source,
before the first run; if one is changed later, say so in the text. `exclusive_or.py` is a short one to read
first. Then run it both ways (`ostinato claims run ID --quick`, `ostinato claims run ID`) and
`python docs/generate_claims.py`; the tests of `tests/test_claims.py` hold for it at once."""


def overview(found: Sequence[tuple[Claim, Mapping[Size, Result]]], folder: str) -> str:
    """The page of all claims in English; folder: where the results are, as seen from the page."""
    parts = [
        "<!-- made by docs/generate_claims.py; do not edit -->",
        "# Claims",
        (
            "What the field says about these models, each statement measured here, failures included as failures. "
            "`ostinato claims run ID` measures one again; what it measured, its figure, and the page in English and "
            f"Chinese are in [results/claims]({folder}). Results of quick runs are marked: they are smaller; "
            "`ostinato claims run --quick` measured all of them in 6 minutes of one core of an AMD EPYC (Zen 4)."
        ),
        "## How a verdict is reached",
        RULE.en,
        ADDING,
        "## All of them",
        table(
            ("claim", "evidence", "verdict"),
            [(f"[{claim.id}](#{claim.id})", LEVELS[claim.level].en, said(results, "en")) for claim, results in found],
        ),
    ]
    for claim, results in found:
        parts += [f"## {claim.id}", *section(claim, results, "en", f"{folder}/{claim.id}.svg")]
    return "\n\n".join(parts) + "\n"


def section(claim: Claim, found: Mapping[Size, Result], language: Language, picture: str) -> list[str]:
    """The paragraphs about a claim in one language."""
    shown = best(found)
    parts = [
        f"**{of(claim.statement, language)}**",
        "\n".join(f"- {line}" for line in facts(claim, found, language)),
    ]
    if shown is None:
        return parts
    parts.append(table([of(WORDS[key], language) for key in COLUMNS], rows(claim, shown, language)))
    reasons = [f"{of(q.what, language)}: {of(q.why, language)}" for q in claim.quantities if q.why]
    parts.append(f"{of(WORDS['because'], language)}:\n\n" + "\n".join(f"- {reason}" for reason in reasons))
    if shown.evidence.curves:
        parts.append(f"![{of(claim.statement, language)}]({picture})")
    parts += tables(claim, shown, language)
    return [*parts, provenance(shown, language)]


COLUMNS = ("quantity", "unit", "expected", "measured", "seeds", "verdict")


def facts(claim: Claim, found: Mapping[Size, Result], language: Language) -> list[str]:
    """Verdict, level, premises, misreading, experiment, sources, a line each."""
    named = [("verdict", said(found, language)), ("level", of(LEVELS[claim.level], language))]
    if claim.premises is not None:
        named.append(("premises", of(claim.premises, language)))
    named += [("misreading", of(claim.misreading, language)), ("experiment", of(claim.experiment, language))]
    named += [("sources", f"[{source.key}] {of(source.reports, language)}") for source in claim.sources]
    return [f"{of(WORDS[key], language)}: {text}" for key, text in named]


def said(found: Mapping[Size, Result], language: Language) -> str:
    """The verdicts of the sizes that were run."""
    if not found:
        return of(WORDS["never"], language)
    each = [
        f"{SIGNS[found[size].verdict]} {of(VERDICTS[found[size].verdict], language)} ({of(WORDS[size], language)})"
        for size in ("full", "quick")
        if size in found
    ]
    return ", ".join(each)


def rows(claim: Claim, result: Result, language: Language) -> list[Sequence[str]]:
    """A row for each quantity."""
    return [row(quantity, result, language) for quantity in claim.quantities]


def row(quantity: Quantity, result: Result, language: Language) -> Sequence[str]:
    """One quantity: what, unit, interval, mean ± spread, numbers, verdict."""
    values = result.evidence.numbers[quantity.name]
    around = spread(values)
    middle = show(mean(values)) + ("" if around is None else f" ± {show(around)}")
    expected = result.expected.get(quantity.name)
    verdict = result.verdicts.get(quantity.name)
    return (
        of(quantity.what, language),
        of(UNITS[quantity.unit], language),
        of(WORDS["reported"], language) if expected is None else interval(expected),
        middle,
        ", ".join(map(show, values)),
        "" if verdict is None else f"{SIGNS[verdict]} {of(VERDICTS[verdict], language)}",
    )


def tables(claim: Claim, result: Result, language: Language) -> list[str]:
    """The means of curves that share a few points, as tables."""
    made = []
    for name, curves in result.evidence.curves.items():
        figure = claim.figures[name]
        xs = {drawn.x for drawn in curves.values()}
        if len(xs) == 1 and len(next(iter(xs))) <= FEW and len(curves) < MOST_COLUMNS:
            columns = [of(figure.x, language), *(of(figure.name(curve), language) for curve in curves)]
            points = zip(next(iter(xs)), *(drawn.y for drawn in curves.values()), strict=True)
            made.append(of(figure.title, language) + ":\n\n" + table(columns, [list(map(show, row)) for row in points]))
    return made


def provenance(result: Result, language: Language) -> str:
    """Where and when a result was made."""

    def said(name: str, count: int) -> str:
        return of(WORDS[name], language).format(count)

    about = result.environment
    commit = "-" if about["commit"] is None else about["commit"] + (" with edits" if about["changed"] else "")
    libraries = ", ".join(f"{name} {version}" for name, version in about["libraries"].items())
    facts = (
        f"{of(WORDS[result.size], language)}, {said('drawn', len(result.seeds))}",
        f"{result.seconds:.0f} s, {result.began}",
        f"{of(WORDS['commit'], language)} {commit}",
        f"Ostinato {about['ostinato']}, Python {about['python']}, {libraries}",
        f"{about['processor']}, {said('cores', about['cores'])}",
    )
    return f"*{'; '.join(facts)}*"


def table(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    cells = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([*head, *cells])


def interval(expected: Interval) -> str:
    """An interval as a person writes it."""
    low, high = (f"{end:.10g}" for end in expected)
    if low == high:
        return low
    if math.isinf(expected.high):
        return f"≥ {low}"
    return f"≤ {high}" if math.isinf(expected.low) else f"{low} … {high}"


def show(value: float) -> str:
    """A number to four digits; a dash for none."""
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:.4g}"


def of(text: Text | None, language: Language) -> str:
    """A text in one language."""
    assert text is not None
    return text.en if language == "en" else text.zh
