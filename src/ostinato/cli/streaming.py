"""Commands that step from token to token: export, stream."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from math import exp
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ostinato.cli.app import app
from ostinato.cli.talk import say, show_json, size, tell_unfinished, watching

if TYPE_CHECKING:
    from ostinato.tasks.language.export import Exported
    from ostinato.tasks.language.follow import Answer, Follower
    from ostinato.tasks.language.load import Loaded

Found = TypeVar("Found")

READ = 1 << 16  # bytes of standard input taken at once, if so many wait


@app.command
def export(
    run: Path,
    out: Path,
    /,
    *,
    precision: Literal["fp32", "bf16", "int8"] = "fp32",
    measure: tuple[str, ...] = (),
    unmeasured: bool = False,
    json: bool = False,
) -> None:
    """Write a trained network as one file that steps without torch, or as ONNX, and say what it loses.

    The file works wherever a model is named: stream, evaluate, score, generate, compare, mix.

    **Examples**

    ```
    ostinato export runs/lstm lstm.model --precision int8
    ostinato export runs/lstm lstm.onnx
    ```

    Parameters
    ----------
    run:
        The run directory of a neural model.
    out:
        The file to write; one that ends in .onnx is ONNX, with the states as inputs and outputs.
    precision:
        Of the matrices. fp32: as trained; bf16: half the size; int8: a quarter, each row with a scale of its own.
    measure:
        Text files that the original and the export are scored on; none for the run's validation text.
    unmeasured:
        Score neither.
    json:
        Print one JSON object.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.runs import RunDir
    from ostinato.tasks.language.export import export as task

    if unmeasured and measure:
        raise ConfigError("--unmeasured and --measure contradict each other; leave one out")
    with watching() as watch:
        tell_unfinished(RunDir(run))
        exported = task(run, out, precision, measure, not unmeasured, watch)
    if json:
        show_json(exported.to_json())
    else:
        show_export(str(run), exported)


def show_export(run: str, exported: Exported) -> None:
    """Sizes and perplexities of the original and the export, one below the other."""
    from ostinato.tasks.language.export import is_onnx

    rows = [
        (run, exported.original_bytes, exported.original),
        (str(exported.path), exported.path.stat().st_size, exported.export),
    ]
    for name, weight, score in rows:
        found = "" if score is None else f"  {score.perplexity:12,.4f} perplexity per {score.per}"
        print(f"{name:32}  {size(weight):>10}{found}")
    if exported.original is not None and exported.export is not None:
        change = exported.export.perplexity / exported.original.perplexity - 1
        print(f"{exported.model.precision}: perplexity {change:+.3%}, {exported.export.count:,} targets")
        print(f"[{exported.export.signature}]")
    if exported.checked is not None:
        say(f"onnxruntime's log-probs differ by {exported.checked:.1e} nats at most")
    elif is_onnx(exported.path):
        say("no other program has checked the file: onnxruntime is not installed (pip install 'ostinato[onnx]')")


@app.command
def stream(
    model: Path,
    /,
    *,
    tokens: bool = False,
    top_k: int = 5,
    session: Path | None = None,
    sessions: bool = False,
    json: bool = False,
) -> None:
    """Follow standard input token by token and answer each at once: how likely it was, and what comes next.

    Columns, tab-separated: token, log-prob (nats), surprise (bits), the likeliest next tokens with their probabilities.

    **Examples**

    ```
    ostinato stream lstm.model --top-k 3 < speech.txt
    ostinato stream lstm.model --session talk.session --json
    ostinato stream lstm.model --sessions --session calls.session < lines.tsv
    ```

    Parameters
    ----------
    model:
        An export, a run directory, or the file of an n-gram model.
    tokens:
        Input is tokens with white space between, `</s>` for a line end; else raw text, cut as the training text was.
    top_k:
        How many of the likeliest next tokens to tell; 0 for none.
    session:
        Go on from the state in this file if it exists, and leave the last state there, with the beginning of a
        word that has not ended yet. With --sessions, the states of all streams that have not ended.
    sessions:
        Each input line is NAME, a tab, and text for the stream of that name; NAME alone ends its stream. Answers
        begin with the name.
    json:
        Print one JSON object a token.
    """
    from ostinato.tasks.language.follow import Follower
    from ostinato.tasks.language.load import load

    loaded = load(model)
    follower = Follower(loaded, top_k, kept=session is not None)
    follow = follow_many if sessions else follow_one
    follow(loaded, follower, tokens, session, json)


def follow_one(loaded: Loaded, follower: Follower, tokens: bool, session: Path | None, json: bool) -> None:
    """Answer the text on standard input; with a session, it may end or be stopped anywhere and go on later."""
    from ostinato.core.files import write_bytes
    from ostinato.tasks.language.follow import follow_text, text_reader

    reader = text_reader(loaded, tokens)
    if session is None:
        show_answers(follow_text(loaded, follower, reader, standard_input(), True), json, False)
        return
    left = resume(session, lambda saved: follower.load("", saved)) or b""
    with Stopping.handled() as stopping:
        parts = chain([left], standard_input(stopping))
        try:
            show_answers(stopping.between(follow_text(loaded, follower, reader, parts, False)), json, False)
        finally:
            write_bytes(session, follower.save("", reader.unread))
    if reader.unread:
        say(f"{len(reader.unread):,} bytes wait in {session} for the end of their word")


def follow_many(loaded: Loaded, follower: Follower, tokens: bool, session: Path | None, json: bool) -> None:
    """Answer the lines on standard input, each for its stream; with a session, all streams may go on later.

    Raises DataError in the end if a line could not be used; each is named when it comes.
    """
    from ostinato.core.errors import DataError
    from ostinato.core.files import write_bytes

    refused: list[str] = []

    def refuse(why: str) -> None:
        refused.append(why)
        say(why)

    if session is None:
        show_answers(answers_to_lines(loaded, follower, tokens, standard_input(), refuse), json, True)
    else:
        resume(session, follower.load_all)
        with Stopping.handled() as stopping:  # lines that have come are answered first
            try:
                parts = standard_input(stopping)
                show_answers(answers_to_lines(loaded, follower, tokens, parts, refuse), json, True)
            finally:
                write_bytes(session, follower.save_all())
    if refused:
        raise DataError(f"lines of standard input that could not be used: {len(refused):,}, the first: {refused[0]}")


def resume(session: Path, load: Callable[[bytes], Found]) -> Found | None:
    """Let streams go on where the file left them, if there is one; what `load` says of its bytes."""
    from ostinato.core.errors import FormatError, MismatchError

    if not session.exists():
        return None
    try:
        return load(session.read_bytes())
    except (FormatError, MismatchError) as fault:
        raise type(fault)(f"{session}: {fault} (remove the file, or name another one)") from None


class Stopping:
    """Ctrl-C, which must not fall between a token that is taken and its answer: it waits until that is printed.

    While input is awaited nothing is under way and it stops at once, as a second one always does.
    """

    def __init__(self) -> None:
        self.asked = self.idle = False

    @classmethod
    @contextmanager
    def handled(cls) -> Iterator[Stopping]:
        """Let it decide about Ctrl-C in a block."""
        stopping = cls()
        before = signal.signal(signal.SIGINT, stopping.interrupt)
        try:
            yield stopping
        finally:
            signal.signal(signal.SIGINT, before)

    def interrupt(self, *_: Any) -> None:
        """Ctrl-C has come."""
        if self.idle or self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def check(self) -> None:
        """Stop if that was asked for."""
        if self.asked:
            self.asked = False  # so that one more does not disturb saving
            raise KeyboardInterrupt

    def wait(self) -> None:
        """Return when there is input, or its end."""
        self.idle = True
        try:
            self.check()
            select.select([sys.stdin.fileno()], [], [])
        finally:
            self.idle = False

    def between(self, answers: Iterator[Answer]) -> Iterator[Answer]:
        """The answers, each unless it is time to stop."""
        for answer in answers:
            yield answer
            self.check()


def standard_input(stopping: Stopping | None = None) -> Iterator[bytes]:
    """The bytes of standard input as they come."""
    while True:
        if stopping is not None:
            stopping.wait()
        if not (data := os.read(sys.stdin.fileno(), READ)):
            return
        yield data


def answers_to_lines(
    loaded: Loaded, follower: Follower, tokens: bool, parts: Iterator[bytes], refuse: Callable[[str], None]
) -> Iterator[Answer]:
    """The answers to lines whose bytes come in parts; what waits is read side by side."""
    from ostinato.tasks.language.follow import read_lines

    held, count = b"", 0
    yield from follower.read({})
    try:
        for data in parts:
            *lines, held = (held + data).split(b"\n")
            yield from read_lines(loaded, follower, lines, count, tokens, refuse)
            count += len(lines)
    except KeyboardInterrupt:
        if held:
            say(f"the last {len(held):,} bytes were no whole line and were not read")
        raise
    if held:
        yield from read_lines(loaded, follower, [held], count, tokens, refuse)


def show_answers(answers: Iterator[Answer], json: bool, named: bool) -> None:
    """Print each answer at once, with the name of its stream if there are several; say their mean in the end."""
    count, bits = 0, 0.0
    for answer in answers:
        count, bits = count + 1, bits + answer.surprise
        if json:
            show_json(({"session": answer.stream} if named else {}) | answer.to_json())
        else:
            print(row(answer, named), flush=True)
    if count:
        say(f"{count:,} tokens, {bits / count:.4f} bits a token")


def row(answer: Answer, named: bool) -> str:
    """An answer as a line of columns."""
    following = "  ".join(f"{shown(token)} {exp(log_prob):.4f}" for token, log_prob in answer.next)
    columns = [shown(answer.token), f"{answer.log_prob:.4f}", f"{answer.surprise:.4f}", following]
    return "\t".join([answer.stream, *columns] if named else columns)


def shown(token: str) -> str:
    """A token that breaks no column."""
    return token if token.isprintable() else token.encode("unicode_escape").decode("ascii")
