"""The application: commands, the configuration file, and how errors and signals end a command."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from cyclopts import App, Parameter
from cyclopts.exceptions import CycloptsError

from ostinato import __version__
from ostinato.cli.talk import loudness, say
from ostinato.core.errors import ConfigError, OstinatoError

HELP = """
Small sequence models that remember with a fixed-size state: train, compare, generate.

A RUN is a directory that `train` makes, or for most commands a model file, which `ngram` or `export` makes.
Data goes to standard output, remarks to standard error. Anywhere: -q quiet, -v more remarks, -vv tracebacks.
NO_COLOR is respected.

**Examples**

```
ostinato train --model.kind lstm --run-dir runs/lstm
ostinato evaluate runs/lstm speech.txt --json
```
"""

LISTS = Parameter(consume_multiple=True, negative_iterable=())  # --text a b c, and no --empty-text

app = App(name="ostinato", version=__version__, help=HELP, help_format="markdown", default_parameter=LISTS)
app.register_install_completion_command()


def config_file(app: App, commands: tuple[str, ...], arguments: Any) -> None:
    """Fill what the command line left open from the TOML file named by --config."""
    from cyclopts.config import Dict

    from ostinato.core.config import build, read_toml

    named = [argument for argument in arguments if argument.name == "--config" and argument.tokens]
    if not named:
        return
    path = Path(named[0].tokens[0].value)
    tables = read_toml(path)
    kind = configured_by(commands)
    tables.pop("task", None)
    build(kind, tables, str(path))
    if commands[:1] == ("vectors",):  # its options are flat on the command line
        tables = {key: value for table in tables.values() for key, value in table.items()}
    for command in reversed(commands):  # a table named like a command would be taken for one
        tables = {command: tables}
    Dict(tables, source=str(path))(app, commands, arguments)


def configured_by(commands: tuple[str, ...]) -> type[Any]:
    """What the configuration file of a command is checked by."""
    if commands[:1] == ("vectors",):
        from ostinato.tasks.vectors import Config as VectorConfig

        return VectorConfig
    if commands[:1] in (("train-task",), ("crossvalidate-task",)):
        from ostinato.tasks.task import config_of

        return config_of(commands[1])
    from ostinato.tasks.options import Config

    return Config


app.config = (config_file,)


def load_commands(words: Sequence[str] = ()) -> None:
    """Import the command files, which put their commands on `app`; for `ngram` only its own, since it starts fast."""
    from ostinato.cli import ngram_looking, ngram_models, ngrams

    assert all((ngram_looking, ngram_models))
    if "ngram" not in app:
        app.command(ngrams.ngram_app)
    if words[:1] != ["ngram"]:
        from ostinato.cli import (
            benching,
            counting,
            demonstration,
            generating,
            lab,
            looking,
            score,
            scoring,
            streaming,
            tasks,
            training,
        )

        assert all((counting, generating, lab, looking, score, scoring, streaming, training))
        tasks.register(words)
        if "demo" not in app:
            app.command(demonstration.demo_app)
        if "bench" not in app:
            app.command(benching.bench_app)
        if "claims" not in app:
            from ostinato.cli import claims

            app.command(claims.claims_app)
        if "lemma" not in app:
            from ostinato.cli import lemma

            app.command(lemma.lemma_app)
        if "vectors" not in app:
            from ostinato.cli import vector_making, vector_training, vectors

            assert all((vector_making, vector_training))
            app.command(vectors.vectors_app)


def main(words: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    speak_utf8()
    code = run(list(sys.argv[1:] if words is None else words))
    if threading.active_count() > 1:  # one that waits for standard input must not hold up the end
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def speak_utf8() -> None:
    """Write UTF-8 whatever the locale says: texts are UTF-8, and so is what is said about them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def run(words: list[str]) -> int:
    """Run one command; return its exit code: 0 done, 1 failed, 2 usage, 3 threshold missed, 130 stopped."""
    words = join_dashes(take_loudness(words))
    # Threads that spin for long while waiting make a step many times slower whenever another program takes a core.
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    try:
        if words[:1] in (["train"], ["crossvalidate"]):
            from ostinato.cli.tasks import dispatched

            words = dispatched(words)
        load_commands(words)
        result = app(words, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except CycloptsError as fault:
        return fail(usage(fault), ConfigError.exit_code, fault)
    except OstinatoError as fault:
        return fail(str(fault), fault.exit_code, fault)
    except KeyboardInterrupt:
        say("\nostinato: stopped")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as fault:
        where = f"{fault.filename}: " if fault.filename else "standard output: "
        code = fail(where + (fault.strerror or str(fault)), 1, fault)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code
    except (MemoryError, RuntimeError) as fault:
        if isinstance(fault, RuntimeError) and "allocate" not in str(fault):
            raise
        return fail("out of memory; choose a smaller model, vocabulary or --train.rows", 1, fault)
    except SystemExit as end:
        return int(end.code or 0)


def fail(message: str, code: int, fault: BaseException) -> int:
    """Say what went wrong in one line; the traceback only with -vv."""
    if loudness.level >= 3:
        import traceback

        traceback.print_exception(fault)
    print(f"ostinato: {message}", file=sys.stderr)
    return code


def usage(fault: CycloptsError) -> str:
    """A usage error in one line."""
    from pydantic import ValidationError

    from ostinato.core.config import explain

    cause = fault.__cause__ or fault.__context__
    if isinstance(cause, ValidationError):
        argument = getattr(fault, "argument", None)
        prefix = f"{argument.name.lstrip('-*')}." if argument is not None else ""
        return prefix.lstrip(".") + explain(cause)
    text = " ".join(line.strip() for line in str(fault).splitlines() if line.strip())
    chain = " ".join(["ostinato", *(fault.command_chain or ()), "--help"])
    return f"{text} (see `{chain}`)"


JOINED = ("--text", "--data.text", "--data.valid", "--data.test", "--arpa", "--heldout", "--valid", "--test", "--words")
"""Options whose value may be `-`."""


def join_dashes(words: list[str]) -> list[str]:
    """Words with `--text -` written as `--text=-`, the one way the parser takes standard input there."""
    joined: list[str] = []
    for word in words:
        if word == "-" and joined and joined[-1] in JOINED:
            joined[-1] += "=-"
        else:
            joined.append(word)
    return joined


def take_loudness(words: list[str]) -> list[str]:
    """Take -q, -v and -vv out of the words (before a bare `--`) and set how loud to be."""
    levels = {"-q": -1, "--quiet": -1, "-v": 1, "--verbose": 1, "-vv": 2}
    end = words.index("--") if "--" in words else len(words)
    loudness.level = 1 + sum(levels.get(word, 0) for word in words[:end])
    return [word for word in words[:end] if word not in levels] + words[end:]
