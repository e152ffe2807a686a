"""Commands for what the field says about these models, measured here: claims."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from ostinato.claims.claim import LEVELS, Claim, Level, all_claims, in_order
from ostinato.cli.app import LISTS
from ostinato.cli.talk import duration, say, show_json, show_table, watching

HELP = """
List, explain and measure the statements that the field makes about these models.

Each has its evidence level, its source, a common misreading, intervals written down before the run, and a verdict
computed from several seeds: holds here, does not hold here, or not decidable at this size.

**Examples**

```
ostinato claims list
ostinato claims show derivative-products
ostinato claims run derivative-products --quick
```
"""

MISSED = 3
"""Exit code when a provable claim does not hold."""

claims_app = App(name="claims", help=HELP, help_format="markdown", default_parameter=LISTS)

Out = Annotated[Path | None, Parameter(name="--out")]


def folder_of(out: Path | None) -> Path:
    """Where results are looked for."""
    from ostinato.claims.results import stored

    return stored() if out is None else out


def asked(names: tuple[str, ...], level: Level | None) -> list[Claim]:
    """The claims of those IDs, or all; of that level only, if one is given. Raises ConfigError for an unknown ID."""
    every = all_claims()
    named = [every[name] for name in names] if names else in_order()
    return [claim for claim in named if level in (None, claim.level)]


@claims_app.command(name="list")
def list_claims(*, level: Level | None = None, out: Out = None, json: bool = False) -> None:
    """List every claim with its evidence level and the verdicts of the runs that are stored.

    **Examples**

    ```
    ostinato claims list
    ostinato claims list --level provable --json
    ```

    Parameters
    ----------
    level:
        Only claims whose evidence is of that level.
    out:
        The folder of results, results/claims if left out.
    json:
        Print one JSON object.
    """
    from ostinato.claims import page, results

    folder = folder_of(out)
    found = [(claim, results.load(folder, claim.id)) for claim in asked((), level)]
    if json:
        show_json({"claims": [plain(claim) | {"verdicts": verdicts(stored)} for claim, stored in found]})
        return
    lines = [(claim.id, LEVELS[claim.level].en, page.said(stored, "en")) for claim, stored in found]
    show_table(("claim", "evidence", "verdict"), lines)


@claims_app.command
def show(claim: str, /, *, zh: bool = False, out: Out = None, json: bool = False) -> None:
    """Show a claim: statement, misreading, sources, what is measured and expected, and the stored results.

    **Examples**

    ```
    ostinato claims show derivative-products
    ostinato claims show derivative-products --zh
    ```

    Parameters
    ----------
    claim:
        Its ID, as `list` prints it.
    zh:
        In Chinese.
    out:
        The folder of results, results/claims if left out.
    json:
        Print one JSON object, in both languages, with every number.
    """
    from ostinato.claims import page, results

    (chosen,) = asked((claim,), None)
    folder = folder_of(out)
    found = results.load(folder, chosen.id)
    if json:
        runs = {size: result.to_json() for size, result in found.items()}
        show_json(plain(chosen) | {"verdicts": verdicts(found), "runs": runs})
        return
    print("\n\n".join(page.section(chosen, found, "zh" if zh else "en", str(folder / f"{chosen.id}.svg"))))


@claims_app.command
def run(
    claims: tuple[str, ...] = (),
    /,
    *,
    quick: bool = False,
    level: Level | None = None,
    out: Out = None,
    json: bool = False,
) -> int:
    """Measure claims, all if none is named; write ID.json, a figure and a page for each.

    Seeds that are done are kept as they come: after Ctrl-C, the same command goes on. The last quick and the last full
    run stand side by side in ID.json. The exit code is 3 if a provable claim does not hold.

    **Examples**

    ```
    ostinato claims run derivative-products
    ostinato claims run --level provable --quick --json
    ```

    Parameters
    ----------
    claims:
        Their IDs, as `list` prints them.
    quick:
        Smaller sizes and fewer seeds: a minute or less each.
    level:
        Only claims whose evidence is of that level.
    out:
        Where to write, results/claims if left out.
    json:
        Print a JSON object for each claim as it is done.
    """
    from ostinato.claims import page, results, running
    from ostinato.claims.verdict import VERDICTS

    found = []
    chosen = asked(claims, level)
    for claim in chosen:
        try:
            with watching() as watch:
                result = running.run(claim, "quick" if quick else "full", out or results.FOLDER, watch, say)
        except KeyboardInterrupt:
            say(f"{claim.id}: stopped; seeds that are done are kept, and the same command goes on with the others")
            raise
        found.append((claim, result))
        if json:
            show_json({"claim": claim.id, **result.to_json()})
        else:
            sign, text = page.SIGNS[result.verdict], VERDICTS[result.verdict].en
            print(f"{sign} {claim.id}: {text} ({len(result.seeds)} seeds, {duration(result.seconds)})", flush=True)
    failed = running.failures(found)
    if failed:
        say(
            f"provable, and yet not so here: {', '.join(failed)}; "
            "this is a bug, in the claim or in the code that it measures"
        )
    say(f"the numbers, figures and pages are in {out or results.FOLDER}")
    return MISSED if failed else 0


def plain(claim: Claim) -> dict[str, Any]:
    """What a claim says, as plain values."""
    return {
        "id": claim.id,
        "level": claim.level,
        "statement": claim.statement._asdict(),
        "misreading": claim.misreading._asdict(),
        "premises": claim.premises and claim.premises._asdict(),
        "experiment": claim.experiment._asdict(),
        "sources": [{"key": source.key, "reports": source.reports._asdict()} for source in claim.sources],
        "quantities": [
            {"name": q.name, "what": q.what._asdict(), "unit": q.unit, "expected": q.expected and list(q.expected)}
            for q in claim.quantities
        ],
    }


def verdicts(found: Any) -> dict[str, str]:
    """The verdicts by size."""
    return {size: result.verdict for size, result in found.items()}
