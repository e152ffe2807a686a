"""Write docs/cli.md from the commands themselves: `python docs/generate_cli.py`."""

from __future__ import annotations

import re
from pathlib import Path

from ostinato.cli.app import app, load_commands

TARGET = Path(__file__).parent / "cli.md"


def text() -> str:
    """The reference of every command, as Markdown."""
    load_commands()
    head, *sections = app.generate_docs().split("\n## ")
    body = "\n## ".join([head, *(part for part in sections if not part.startswith("ostinato --"))])
    lines = [line for line in body.splitlines() if "(#ostinato-install-completion)" not in line]
    lines = [re.sub(r"^(.*?) -m \w+( .*\[OPTIONS\])", r"\1\2", line) for line in lines]  # however this was started
    return "<!-- made by docs/generate_cli.py; do not edit -->\n\n" + "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(text(), "utf8")
