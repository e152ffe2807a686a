"""Take the pictures of docs/lab.md, all or some: `python docs/lab_pictures.py RUNS [NAME...]`.

It needs Chromium and the extra `browser`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

TARGET = Path(__file__).parent / "img"
PICTURES = {
    "gradient-flow": "gradient-flow?w=1.1&u=0.3",
    "gradient-flow-lstm": "gradient-flow?view=lstm&f=0.97&lang=zh",
    "gradient-flow-matrix": "gradient-flow?view=matrix&radius=1.3&scale=0.001&steps=30&theme=dark",
    "cost": "cost",
    "non-linearity": "non-linearity",
    "typed": "typed?runs=5-gram|lstm|nplm&text=Return the name of the file as a string.",
    "typed-zh": "typed?runs=tang&lang=zh",
    "state": "state?run=chars-lstm&sort=line",
    "state-gradient": "state?run=chars-lstm&sort=line&against=chars-gru|chars-rnn&at=150",
    "attention": "attention?text=A man in a blue shirt is cleaning a window.",
    "attention-zh": "attention?text=A man in a blue shirt is cleaning a window.&lang=zh&beam=8",
    "vectors": "vectors?word=war",
    "vectors-map": "vectors?words=january march july november war peace army navy freedom liberty justice debt money "
    "taxes&theme=dark",
    "runs": "runs?runs=lstm3-1|rnn3-1|gru3-1|nplm-1&xLog=1",
    "runs-doctor": "runs?runs=too-slow|too-fast|lstm&lang=zh",
    "claims": "claims",
}
"""State of the page by name of the picture; those of runs are for the runs of docs/results.md.

typed is for the runs of `ostinato demo` and an NPLM of the same text, typed-zh and state for networks of characters.
attention is for two translators of the same data, with attention and without; vectors for word vectors of speeches,
runs-doctor for three runs of a small text, two of them with learning rates of 1e-7 and 3.
"""
PLACES = {
    "gradient-flow": "body",
    "vectors-map": "#map",
    "state-gradient": "figure:has(.tokens)",
    "runs-doctor": "h2:has(+ div .diagnoses)",
    "claims": ".figures .scroll",
}
"""What stands at the top of a picture, if not the figures."""


def main(runs: str, *names: str) -> None:
    """Open the lab, and each page (those named, or all), scrolled to where its figures are."""
    words = [sys.executable, "-m", "ostinato", "lab", runs, "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as lab, sync_playwright() as started:
        assert lab.stdout is not None
        address = lab.stdout.readline().strip()
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name in names or PICTURES:
            page = browser.new_page(viewport={"width": 1200, "height": 800}, locale="en-GB")
            page.goto(f"{address}#{PICTURES[name]}")
            page.wait_for_selector("body[data-ready]")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(600)
            top = "(place) => scrollTo(0, document.querySelector(place).getBoundingClientRect().top - 16)"
            page.evaluate(top, PLACES.get(name, ".bench"))
            save(page.screenshot(), TARGET / f"lab-{name}.png")
            page.close()
        browser.close()
        lab.terminate()


def save(picture: bytes, target: Path) -> None:
    """Write a picture as small as it gets without loss of what can be seen."""
    image = Image.open(BytesIO(picture)).convert("RGB")
    image.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE).save(target, optimize=True)
    print(f"{target}: {target.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(*sys.argv[1:])
