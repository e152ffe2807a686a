"""Inputs in groups: as many as have arrived, so that fast input is answered in batches and slow input at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from queue import Empty, Full, Queue
from typing import TypeVar

from ostinato.text.read import STDIN

Item = TypeVar("Item")

PATIENCE = 0.1
"""Seconds after which a reader looks whether anyone still listens."""


def grouped(items: Iterable[Item], most: int, source: str) -> Iterator[list[Item]]:
    """The items in lists of at most `most`, in order; of standard input, as soon as one has arrived.

    What iterating raises is raised after the items before it have been given.
    """
    if source == STDIN:
        yield from _arriving(items, most)
        return
    iterator = iter(items)
    while True:
        group: list[Item] = []
        try:
            group.extend(islice(iterator, most))  # keeps what came before a fault
        except Exception:
            if group:
                yield group
            raise
        if not group:
            return
        yield group


class _Ended:
    """No more items, because of a fault or of none."""

    def __init__(self, fault: BaseException | None):
        self.fault = fault


def _arriving(items: Iterable[Item], most: int) -> Iterator[list[Item]]:
    queue: Queue[Item | _Ended] = Queue(maxsize=2 * most)
    left = threading.Event()

    def put(item: Item | _Ended) -> None:
        while not left.is_set():
            try:
                queue.put(item, timeout=PATIENCE)
                return
            except Full:
                continue

    def read() -> None:
        fault = None
        try:
            for item in items:
                put(item)
                if left.is_set():
                    return
        except BaseException as raised:  # handed to the one who listens
            fault = raised
        put(_Ended(fault))

    threading.Thread(target=read, daemon=True).start()
    try:
        yield from _gathered(queue, most)
    finally:
        left.set()


def _gathered(queue: Queue[Item | _Ended], most: int) -> Iterator[list[Item]]:
    """What is in the queue, in lists, until its end."""
    while True:
        group: list[Item] = []
        item: Item | _Ended = queue.get()
        while not isinstance(item, _Ended):
            group.append(item)
            if len(group) == most:
                break
            try:
                item = queue.get_nowait()
            except Empty:
                break
        if group:
            yield group
        if isinstance(item, _Ended):
            if item.fault is not None:
                raise item.fault
            return
