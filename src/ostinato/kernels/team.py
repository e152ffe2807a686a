"""Threads that do the same work on different parts and wait for each other without the interpreter."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

SPINS = 4000
"""Turns of waiting before the processor is offered to others."""

_yield = types.ExternalFunction("sched_yield", types.int32())


def _atomic(action: str) -> Any:
    """An intrinsic on one int64 of an array, in one order for all threads: add (returns what was), load or store."""

    def add(typing, array, place, value):
        def generate(context, builder, signature, arguments):
            return builder.atomic_rmw("add", _place(context, builder, signature, arguments), arguments[2], "seq_cst")

        return types.int64(array, types.int64, types.int64), generate

    def load(typing, array, place):
        def generate(context, builder, signature, arguments):
            return builder.load_atomic(_place(context, builder, signature, arguments), "seq_cst", 8)

        return types.int64(array, types.int64), generate

    def store(typing, array, place, value):
        def generate(context, builder, signature, arguments):
            builder.store_atomic(arguments[2], _place(context, builder, signature, arguments), "seq_cst", 8)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.int64), generate

    return intrinsic({"add": add, "load": load, "store": store}[action])


def _place(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
    return builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(64).as_pointer())


_add, _load, _store = _atomic("add"), _atomic("load"), _atomic("store")
ARRIVED, ROUND, BROKEN = 0, 8, 16  # each in a cache line of its own


@numba.njit(cache=True, nogil=True)
def meet(board, threads):
    """Wait until so many threads have come here; at once if the board is marked broken."""
    turn = _load(board, ROUND)
    if _add(board, ARRIVED, 1) == threads - 1:
        _store(board, ARRIVED, 0)
        _store(board, ROUND, turn + 1)
        return
    spins = 0
    while _load(board, ROUND) == turn and _load(board, BROKEN) == 0:
        spins += 1
        if spins > SPINS:
            _yield()


def _nothing(member: int) -> None:
    """No work."""


class Team:
    """So many threads, the caller's among them, that all run one function and can `meet` in it.

    Plain threads that are kept between calls: kernels release the interpreter's lock. An error in one of them ends the
    waiting of the others and is raised again by `run`.
    """

    def __init__(self, threads: int):
        self.threads = threads
        self.board = np.zeros(24, np.int64)
        self._work: Callable[[int], None] = _nothing
        self._begin = [threading.Semaphore(0) for _ in range(threads - 1)]
        self._done = threading.Semaphore(0)
        self._fault: BaseException | None = None
        self._busy = threading.Lock()
        for member in range(1, threads):
            threading.Thread(target=self._serve, args=(member,), daemon=True, name=f"ostinato-{member}").start()

    def meet(self) -> None:
        """Wait for the other members."""
        if self.threads > 1:
            meet(self.board, self.threads)

    def run(self, work: Callable[[int], None]) -> None:
        """Let every member do work(its number, from 0). Raises what any of them raised."""
        with self._busy:
            self._work, self._fault = work, None
            self.board[:] = 0
            for begin in self._begin:
                begin.release()
            try:
                work(0)
            except BaseException:
                self.board[BROKEN] = 1
                raise
            finally:
                for _ in self._begin:
                    self._done.acquire()
                fault, self._work, self._fault = self._fault, _nothing, None
            if fault is not None:
                raise fault

    def _serve(self, member: int) -> None:
        while True:
            self._begin[member - 1].acquire()
            try:
                self._work(member)
            except BaseException as fault:
                self._fault = fault
                self.board[BROKEN] = 1
            self._done.release()


def team_of(threads: int) -> Team:
    """This process's one team of so many threads: threads that wait cost nothing, so it is kept for good."""
    return _team(threads, os.getpid())


@functools.cache
def _team(threads: int, process: int) -> Team:
    return Team(threads)


def part(begin: int, end: int, member: int, members: int, unit: int = 1) -> tuple[int, int]:
    """This member's share of a range, cut at multiples of `unit` after its beginning."""
    units = -(-(end - begin) // unit)
    first, last = units * member // members, units * (member + 1) // members
    return begin + first * unit, min(end, begin + last * unit)
