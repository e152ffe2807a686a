"""Training that is stopped after an update, as by Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ostinato.core.errors import Interrupted
from ostinato.train.loop import Trainer


@contextmanager
def stopped_at(step: int) -> Iterator[None]:
    """What is trained in the block is interrupted after so many updates, and says how to go on."""
    original = Trainer._update

    def stop(self: Trainer, *rest: Any) -> None:
        original(self, *rest)
        self.stop_asked = self.at.step == step

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_update", stop)
        with pytest.raises(Interrupted, match="resume"):
            yield
