"""Write docs/claims.md from results/claims, and the figures and pages there: `python docs/generate_claims.py`."""

from __future__ import annotations

from pathlib import Path

from ostinato.claims import page, results, running
from ostinato.claims.claim import in_order

HERE = Path(__file__).parent
TARGET, FOLDER = HERE / "claims.md", HERE.parent / results.FOLDER


def text() -> str:
    """The page of all claims, as Markdown."""
    return page.overview([(claim, results.load(FOLDER, claim.id)) for claim in in_order()], "../results/claims")


if __name__ == "__main__":
    for claim in in_order():
        running.write_views(claim, FOLDER)
    TARGET.write_text(text(), "utf8")
