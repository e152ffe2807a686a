"""The documentation says what the product does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "ostinato"


def test_the_command_line_reference_is_up_to_date() -> None:
    """Run `python docs/generate_cli.py` after changing a command."""
    script = str(ROOT / "docs" / "generate_cli.py")
    code = f"import runpy, sys; sys.stdout.buffer.write(runpy.run_path({script!r})['text']().encode())"
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)  # commands come in this order
    assert (ROOT / "docs" / "cli.md").read_text("utf8") == fresh.stdout.decode()


def test_every_command_ends_its_help_with_two_examples() -> None:
    sections = (ROOT / "docs" / "cli.md").read_text("utf8").split("\n## ostinato ")[1:]
    for section in sections:
        name = section.split("\n", 1)[0].strip()
        if not name.startswith("--"):
            assert section.count(f"\nostinato {name}") >= 3, name  # the usage line and two examples


def test_every_cited_paper_has_its_entry() -> None:
    known = set(re.findall(r"^- \*\*\[(\w+)\]\*\*", (ROOT / "docs" / "papers.md").read_text("utf8"), re.MULTILINE))
    cited: dict[str, str] = {}
    for file in SOURCE.rglob("*.py"):
        for key in re.findall(r"\[([A-Z][A-Za-z]+\d{4}[a-z]?|UAX29)\]", file.read_text("utf8")):
            cited[key] = file.name
    assert set(cited) <= known, {key: cited[key] for key in set(cited) - known}
    assert known <= set(cited), f"never cited: {known - set(cited)}"


@pytest.mark.parametrize(
    "page", [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md"], ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", page.read_text("utf8")):
        assert (page.parent / target).exists(), target
