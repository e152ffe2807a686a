"""Take the pictures of docs/lab.md: `python docs/lab_pictures.py RUNS`; needs Chromium and the extra `browser`."""

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
    "runs": "runs?runs=lstm3-1|rnn3-1|gru3-1|nplm-1&xLog=1",
}
"""State of the page by name of the picture; those of runs are for the runs of docs/results.md."""


def main(runs: str) -> None:
    """Open the lab, and each page, scrolled to where its figures are."""
    words = [sys.executable, "-m", "ostinato", "lab", runs, "--port", "0", "--no-browser", "-q"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as lab, sync_playwright() as started:
        assert lab.stdout is not None
        address = lab.stdout.readline().strip()
        browser = started.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, state in PICTURES.items():
            page = browser.new_page(viewport={"width": 1200, "height": 800}, locale="en-GB")
            page.goto(f"{address}#{state}")
            page.wait_for_selector("body[data-ready]")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(600)
            if name != "gradient-flow":
                page.evaluate("() => scrollTo(0, document.querySelector('.bench').offsetTop - 16)")
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
    main(sys.argv[1])
