"""Claims: what the field says about these models, and what was measured here, from the stored results."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Response

from ostinato.claims import results
from ostinato.claims.claim import LEVELS, UNITS, Claim, all_claims, in_order
from ostinato.claims.results import Result
from ostinato.claims.verdict import RULE, VERDICTS, mean, spread
from ostinato.lab.answers import answer
from ostinato.lab.page import Page

page = Page("claims")


@page.router.get("/list")
def listed() -> Response:
    """Every claim with the verdicts that are stored, and the rule."""
    folder = results.stored()
    found = [head(claim) | {"verdicts": verdicts(results.load(folder, claim.id))} for claim in in_order()]
    return answer({"claims": found, "rule": RULE._asdict(), "folder": str(folder)})


@page.router.get("/look")
def look(claim: Annotated[str, Query(max_length=100)]) -> Response:
    """One claim in full, with its runs by size. An unknown ID is a ConfigError."""
    chosen = all_claims()[claim]
    found = results.load(results.stored(), chosen.id)
    return answer(
        head(chosen)
        | {
            "misreading": chosen.misreading._asdict(),
            "premises": chosen.premises and chosen.premises._asdict(),
            "experiment": chosen.experiment._asdict(),
            "sources": [{"key": source.key, "reports": source.reports._asdict()} for source in chosen.sources],
            "runs": {size: run_of(chosen, result) for size, result in found.items()},
        }
    )


def head(claim: Claim) -> dict[str, Any]:
    """What a list says of a claim."""
    return {"id": claim.id, "statement": claim.statement._asdict(), "level": LEVELS[claim.level]._asdict()}


def verdicts(found: dict[Any, Result]) -> dict[str, Any]:
    """Verdicts by size: their names and words."""
    return {size: {"name": one.verdict, "text": VERDICTS[one.verdict]._asdict()} for size, one in found.items()}


def run_of(claim: Claim, result: Result) -> dict[str, Any]:
    """One run: quantities with their numbers, figures with their curves, where it was made."""
    quantities = []
    for quantity in claim.quantities:
        values, verdict = result.evidence.numbers[quantity.name], result.verdicts.get(quantity.name)
        expected = result.expected.get(quantity.name)
        quantities.append(
            {
                "what": quantity.what._asdict(),
                "why": quantity.why and quantity.why._asdict(),
                "unit": UNITS[quantity.unit]._asdict(),
                "expected": expected and list(expected),
                "values": list(values),
                "mean": mean(values),
                "spread": spread(values),
                "verdict": verdict and {"name": verdict, "text": VERDICTS[verdict]._asdict()},
            }
        )
    figures = []
    for name, figure in claim.figures.items():
        if name in result.evidence.curves:
            curves = result.evidence.curves[name].items()
            about = {key: getattr(figure, key)._asdict() for key in ("title", "x", "y")}
            about |= {"xLog": figure.x_log, "yLog": figure.y_log, "marks": figure.marks}
            drawn = [{"name": figure.name(key)._asdict(), **band._asdict()} for key, band in curves]
            figures.append(about | {"curves": drawn})
    return {
        "verdict": {"name": result.verdict, "text": VERDICTS[result.verdict]._asdict()},
        "quantities": quantities,
        "figures": figures,
        "seeds": len(result.seeds),
        "seconds": result.seconds,
        "began": result.began,
        "environment": dict(result.environment),
    }
