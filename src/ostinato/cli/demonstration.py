"""The demonstration: two models and their mixture on text that every Python has."""

from __future__ import annotations

import time
from pathlib import Path

from ostinato.cli.app import app
from ostinato.cli.talk import say, watching


@app.command
def demo(*, run_dir: Path = Path("runs/demo")) -> None:
    """Train a 5-gram and an LSTM on Python's own documentation, mix and compare them, and generate.

    Takes about two minutes on two processor cores. Nothing is downloaded.

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
    from ostinato.tasks.language import build, compare
    from ostinato.tasks.language.generate import prompt_ids, stream_text
    from ostinato.tasks.language.load import load
    from ostinato.tasks.options import Config, ModelOptions
    from ostinato.train.options import TrainOptions

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


DEMO_PROMPT = "Return the"
DEMO_EPOCHS = 3


def free(path: Path) -> Path:
    """The path itself, or the first of path-1, path-2, ... that does not exist."""
    number, chosen = 0, path
    while chosen.exists():
        number += 1
        chosen = path.with_name(f"{path.name}-{number}")
    return chosen
