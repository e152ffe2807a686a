"""What a page of the lab is."""

from __future__ import annotations

from fastapi import APIRouter


class Page:
    """A page: its script is static/pages/NAME.js, its texts stand under NAME in i18n, its answers at /api/NAME/...

    needs_runs: whether it shows nothing without a trained run.
    """

    def __init__(self, name: str, needs_runs: bool = False):
        self.name, self.needs_runs = name, needs_runs
        self.router = APIRouter(prefix=f"/api/{name}")
