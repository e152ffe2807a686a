"""The lab as one HTML file that works from disk: scripts, style and texts inside, answers put in by the browser.

A page on disk may not import files, so every script becomes a data: address, found by its path under static/
through an import map; `import ... from "./charts.js"` is written as `from "charts.js"`.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path, PurePosixPath
from typing import Any

HERE = Path(__file__).parent
STATIC, TEXTS = HERE / "static", HERE / "i18n"
LANGUAGES = ("en", "zh")
POLICY = "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:"
IMPORT = re.compile(r"""(from\s+|import\()(["'])(\.{1,2}/[\w./-]+)\2""")


def index(about: dict[str, Any]) -> str:
    """The page that the server sends, with `about` (pages, version) inside."""
    return (STATIC / "index.html").read_text("utf8").replace("<!--about-->", data("about", about))


def bundle(about: dict[str, Any]) -> str:
    """The page that is saved; the browser fills the element `saved`."""
    texts = {language: json.loads((TEXTS / f"{language}.json").read_text("utf8")) for language in LANGUAGES}
    scripts = sorted(STATIC.rglob("*.js"))
    addresses = {name_of(path): address(flatten(path)) for path in scripts}
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<style>\n{(STATIC / 'style.css').read_text('utf8')}</style>",
        f'<script type="importmap">{inert({"imports": addresses})}</script>',
    ]
    page = re.sub(
        r"(?s)<!--live-->.*?<!--/live-->", lambda _: "\n".join(head), (STATIC / "index.html").read_text("utf8")
    )
    page = page.replace("<!--about-->", data("about", about) + data("texts", texts) + data("saved", None))
    return page.replace(
        '<script type="module" src="/static/frame.js"></script>', '<script type="module">import "frame.js"</script>'
    )


def name_of(path: Path) -> str:
    """How a bundled script is imported: its path under static/."""
    return path.relative_to(STATIC).as_posix()


def flatten(path: Path) -> str:
    """A script with its relative imports written as paths under static/."""
    folder = PurePosixPath(name_of(path)).parent

    def absolute(match: re.Match[str]) -> str:
        parts: list[str] = []
        for part in (folder / match[3]).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return f'{match[1]}"{"/".join(parts)}"'

    return IMPORT.sub(absolute, path.read_text("utf8"))


def address(script: str) -> str:
    """A script as a data: address."""
    return "data:text/javascript;base64," + base64.b64encode(script.encode()).decode()


def data(name: str, content: Any) -> str:
    """Plain values as an element of the page."""
    return f'<script type="application/json" id="{name}">{inert(content)}</script>\n'


def inert(content: Any) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(content, ensure_ascii=False).replace("<", "\\u003c")
