"""Runs: learning curves, what the doctor says, samples and configurations, also while training goes on."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import Query, Response

from ostinato.core.config import read_toml
from ostinato.core.errors import OstinatoError
from ostinato.lab.answers import answer
from ostinato.lab.page import Page
from ostinato.lab.shelf import Shelf, TheShelf
from ostinato.runs import RunDir
from ostinato.train.doctor import diagnose

page = Page("runs", needs_runs=True)

KEYS = ("step", "tokens", "seconds", "loss", "valid_loss", "gradient_norm", "clipped_norm", "learning_rate")
MOST_POINTS, MOST_SAMPLES = 2000, 40
QUIET = 300.0  # seconds without an event, after which a run without an end counts as stopped


@page.router.get("/look")
def look(shelf: TheShelf, run: Annotated[list[str], Query(min_length=1, max_length=50)]) -> Response:
    """Everything about some runs; one that cannot be read has its `error` instead."""
    return answer({"runs": [describe(shelf, name) for name in run]})


def describe(shelf: Shelf, name: str) -> dict[str, Any]:
    """What is known of one run: state, curves, diagnoses, samples, configuration."""
    path = shelf.path(name)
    about: dict[str, Any] = {"name": name, "state": "made", "config": {}, "curves": curves_of([]), "samples": []}
    if not (path / "config.toml").exists():  # a model file, or word vectors alone
        return about | {"diagnoses": [], "step": 0, "parameters": None, "outputs": None}
    log = path / "log.jsonl"
    try:
        about["config"] = flat(read_toml(path / "config.toml"))
        if log.is_file():
            facts = log.stat()
            about |= read_log(path, facts.st_mtime_ns, facts.st_size)
            if about["state"] == "going" and time.time() - facts.st_mtime > QUIET:
                about["state"] = "stopped"
    except (OstinatoError, OSError, ValueError) as fault:
        about["error"] = str(fault)
    return {"diagnoses": [], "step": 0, "parameters": None, "outputs": None} | about


@lru_cache(maxsize=64)
def read_log(path: Path, changed: int, size: int) -> dict[str, Any]:
    """What the log of a run says; read anew when it has changed."""
    run = RunDir.open(path, None)
    events = run.events()
    start = next((event for event in events if event.get("event") == "start"), {})
    samples = [event for event in events if event.get("event") == "sample"]
    return {
        "state": run.ending()[0] or "going",
        "step": max((event.get("step", 0) for event in events), default=0),
        "parameters": start.get("parameters"),
        "outputs": start.get("outputs"),
        "curves": curves_of([event for event in events if event.get("event") == "report"]),
        "diagnoses": [found.to_json() | {"chinese": found.chinese._asdict()} for found in diagnose(events)],
        "samples": [{"step": event["step"], "text": event["text"]} for event in samples[-MOST_SAMPLES:]],
        "all_samples": len(samples),
    }


def curves_of(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """The numbers of the reports by key; of more than `MOST_POINTS` evenly many, with all that have a validation."""
    stride = max(1, -(-len(reports) // MOST_POINTS))
    kept = [
        report
        for place, report in enumerate(reports)
        if place % stride == 0 or place == len(reports) - 1 or report.get("valid_loss") is not None
    ]
    measures = sorted({name for report in kept for name in report.get("valid") or ()})
    found: dict[str, Any] = {key: [report.get(key) for report in kept] for key in KEYS}
    found["measures"] = {name: [(report.get("valid") or {}).get(name) for report in kept] for name in measures}
    return found | {"total": len(reports)}


def flat(table: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """A table of tables as one, under keys like `model.hidden`."""
    found: dict[str, str] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return found
