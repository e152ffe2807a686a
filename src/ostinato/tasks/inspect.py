"""What is in the run of a sequence task, as plain values, and what every run says of itself."""

from __future__ import annotations

from typing import Any

from ostinato.core.arrays import open_arrays
from ostinato.core.config import flatten
from ostinato.core.files import read_json
from ostinato.runs import RunDir
from ostinato.tasks import length_picture, working


def describe(run: RunDir) -> dict[str, Any]:
    """Groups of facts: `run`, `model`, `options`, `training`, `score`; without a model only what there is.

    Raises FormatError if the run is damaged.
    """
    facts: dict[str, Any] = {"run": origin(run)}
    if (run.path / "model.safetensors").is_file():
        _, header = open_arrays(run.path / "model.safetensors")
        facts["model"] = {
            "kind": header["kind"],
            "parameters": header["parameters"],
            "model_bytes": run.model_bytes,
            "training_seconds": run.training_seconds(),
        }
    facts["options"] = flatten(working.configuration(run)[1])
    facts |= progress(run)
    if (run.path / length_picture.FILE).is_file():
        report = read_json(run.path / length_picture.FILE)
        facts["score"] = {key: value for key, value in report.items() if not isinstance(value, list | dict)}
    return facts


def origin(run: RunDir) -> dict[str, Any]:
    """Where a run is and where it was made."""
    environment = read_json(run.path / "environment.json")
    return {
        "path": str(run),
        "ostinato": environment["ostinato"],
        "python": environment["python"],
        "platform": environment["platform"],
        "checkpoints": [checkpoint.name for checkpoint in run.checkpoints()],
    }


def progress(run: RunDir) -> dict[str, Any]:
    """`training`: the last report of training; nothing if there is none."""
    reports = [event for event in run.events() if event.get("event") == "report"]
    return {"training": {key: value for key, value in reports[-1].items() if key != "event"}} if reports else {}
