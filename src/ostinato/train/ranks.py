"""Several processes that train one model, each on its rows of every batch.

`torchrun --nproc-per-node 2 -m ostinato train ...` starts them; the environment says who is who. Torch is imported
when a group is joined, so that the command line can ask `leads` at no cost.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ostinato.core.errors import ConfigError, PeerError
from ostinato.core.state import map_leaves

if TYPE_CHECKING:
    from torch import Tensor

PATIENCE = timedelta(hours=6)
"""How long a process waits for the others, which wait in turn while the first one validates."""


def leads() -> bool:
    """Whether this process is the only one or the first: it alone writes and talks."""
    return not started_by_torchrun() or os.environ["RANK"] == "0"


def started_by_torchrun() -> bool:
    """Whether the environment names a group of more than one process."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and {"RANK", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


@dataclass(frozen=True)
class Ranks:
    """This process among `size`; on its own, everything here does nothing."""

    rank: int = 0
    size: int = 1

    @property
    def lead(self) -> bool:
        """Whether this process writes, logs, talks and validates."""
        return self.rank == 0

    def rows(self, total: int) -> slice:
        """The rows of this process out of so many; the shares differ by one row at most."""
        return slice(total * self.rank // self.size, total * (self.rank + 1) // self.size)

    def part(self, batch: Any) -> Any:
        """This process's rows of a batch. Raises ConfigError if there are fewer rows than processes."""
        if self.size == 1:
            return batch
        from ostinato.text.batch import Batch

        if not isinstance(batch, Batch):
            raise ConfigError("only language models are trained by several processes; start it without torchrun")
        total = len(batch.fresh)
        if total < self.size:
            raise ConfigError(
                f"batches have {total} rows, which {self.size} processes cannot share; start fewer processes or give "
                "more --train.rows"
            )
        mine = self.rows(total)
        return replace(
            batch,
            inputs=batch.inputs[mine],
            targets=batch.targets[mine],
            weight=batch.weight[mine],
            fresh=batch.fresh[mine],
        )

    def add(self, tensor: Tensor) -> None:
        """Replace a tensor by the sum over all processes, the same bits in each."""
        if self.size > 1:
            import torch.distributed as dist

            with self._heard():
                dist.all_reduce(tensor)

    def follow(self, tensor: Tensor) -> None:
        """Replace a tensor by that of the first process."""
        if self.size > 1:
            import torch.distributed as dist

            with self._heard():
                dist.broadcast(tensor, 0)

    def total(self, number: float) -> float:
        """The sum of a number over all processes."""
        if self.size == 1:
            return number
        import torch

        sums = torch.tensor([number], dtype=torch.float64)
        self.add(sums)
        return float(sums)

    def any(self, here: bool) -> bool:
        """Whether it is so in one process or more."""
        return self.total(float(here)) > 0

    def told(self, number: float) -> float:
        """The first process's number."""
        return self.total(number if self.lead else 0.0)

    def wait(self) -> None:
        """Return when every process has come here."""
        self.any(False)

    def whole(self, rows: Tensor, total: int) -> Tensor:
        """All rows [total, ...] of a tensor of which every process has its own."""
        if self.size == 1:
            return rows
        every = rows.new_zeros(total, *rows.shape[1:])
        every[self.rows(total)] = rows
        self.add(every)
        return every

    def whole_state(self, state: Any, total: int) -> Any:
        """All rows of a state of which every process has its own; None stays None."""
        return None if state is None else map_leaves(lambda leaf: self.whole(leaf, total), state)

    @contextmanager
    def _heard(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as fault:
            raise PeerError(
                f"process {self.rank} of {self.size}: another process of this training has ended or cannot be "
                "reached; see what it says, then `ostinato resume` goes on from the last checkpoint"
            ) from fault


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """The group of processes that torchrun has started, or this process alone.

    CPU tensors are exchanged over gloo, those on CUDA devices over NCCL. Raises PeerError if the group does not meet.
    """
    if not started_by_torchrun():
        yield Ranks()
        return
    import torch
    import torch.distributed as dist

    ranks = Ranks(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    try:
        dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=PATIENCE)
    except (RuntimeError, ValueError) as fault:
        raise PeerError(f"process {ranks.rank} of {ranks.size}: the processes do not meet: {fault}") from fault
    try:
        yield ranks
    finally:
        dist.destroy_process_group()
