"""Progress of a measurement that is made of parts."""

from __future__ import annotations

from collections.abc import Sequence

from ostinato.core.progress import Progress, Watch


def watches(watch: Watch, names: Sequence[str]) -> list[Watch]:
    """A watch for each part, all taken to be equally long; they tell the whole's share and the part's name."""

    def of(place: int, name: str) -> Watch:
        def told(progress: Progress) -> None:
            share = (place + (progress.share or 0.0)) / len(names)
            watch(Progress(progress.label, progress.tokens, share, f"{name}  {progress.note}".rstrip()))

        return told

    return [of(place, name) for place, name in enumerate(names)]
