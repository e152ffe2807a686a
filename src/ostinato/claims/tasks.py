"""Sequence tasks for claims, trained by the product's own loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from ostinato.core.progress import Progress, Watch, unwatched
from ostinato.tasks import working
from ostinato.tasks.language.build import Callbacks
from ostinato.tasks.task import Predictor


def taught(folder: Path, task: str, config: Any, watch: Watch = unwatched) -> Predictor:
    """Train a run of a task at `folder`, in as many threads as its configuration says; what answers for it.

    Raises as `tasks.working.train` does.
    """

    def told(progress: Progress) -> None:
        if progress.label == "train":
            watch(progress)

    threads = torch.get_num_threads()
    try:
        return working.load(working.train(task, config, folder, Callbacks(told)).path)
    finally:
        torch.set_num_threads(threads)
