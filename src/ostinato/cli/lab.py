"""The command that opens the web lab: lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from ostinato.cli.app import app
from ostinato.cli.talk import say

Port = Annotated[int, Parameter(validator=Number(gte=0, lte=65535))]


@app.command
def lab(runs: tuple[Path, ...] = (), /, *, port: Port = 8642, browser: bool = True) -> None:
    """Open the lab in a browser: pages that show how these models remember, and what is in your runs.

    It answers on this machine only and fetches nothing from outside. With nothing trained, the pages that need no
    run are there. It prints its address and serves until Ctrl-C.

    **Examples**

    ```
    ostinato lab
    ostinato lab runs/lstm runs/gru --no-browser
    ostinato lab runs --port 0
    ```

    Parameters
    ----------
    runs:
        Run directories, model files or word vectors, or folders of these; a run may still be training.
    port:
        Where to answer; 0 takes any that is free.
    browser:
        Open the browser.
    """
    import importlib.util

    from ostinato.core.errors import ConfigError

    if any(importlib.util.find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise ConfigError("the lab needs two packages: `pip install 'ostinato[lab]'`")
    from ostinato.lab.server import serve
    from ostinato.lab.shelf import Shelf

    def ready(address: str) -> None:
        print(address, flush=True)
        say("the lab is open; Ctrl-C closes it")
        if browser:
            import webbrowser

            webbrowser.open(address)

    serve(Shelf(runs), port, ready)
