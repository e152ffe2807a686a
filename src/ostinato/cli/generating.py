"""The command that generates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ostinato.cli.app import app
from ostinato.cli.talk import say, show_json, tell_unfinished

if TYPE_CHECKING:
    from ostinato.decode.strategy import Strategy


@app.command
def generate(
    run: Path,
    *,
    prompt: str = "",
    max_tokens: int = 100,
    strategy: Literal["sample", "greedy", "beam"] = "sample",
    temperature: float | None = None,
    top_k: int | None = None,
    top_p: float | None = None,
    width: int | None = None,
    length_penalty: float | None = None,
    repetition_penalty: float = 1.0,
    frequency_penalty: float = 0.0,
    presence_penalty: float = 0.0,
    no_repeat_ngram: int = 0,
    samples: int = 1,
    seed: int = 0,
    through_stops: bool | None = None,
    allow_unknown: bool = False,
    json: bool = False,
) -> None:
    """Generate text, shown as it is produced.

    **Examples**

    ```
    ostinato generate runs/lstm --prompt "return the" --max-tokens 40
    ostinato generate runs/kn5 --strategy beam --width 8 --prompt "if the"
    ```

    Parameters
    ----------
    run:
        The run directory.
    prompt:
        What the text begins with.
    max_tokens:
        Tokens at most.
    strategy:
        sample: draw; greedy: the most probable token; beam: the most probable texts found by beam search, each
        line its log-prob (nats), a tab, the text.
    temperature:
        sample (1.0): below 1 safer, above 1 wilder.
    top_k:
        sample (0, all): only the k most probable tokens.
    top_p:
        sample (1.0): only the smallest set of tokens with that much probability (nucleus).
    width:
        beam (4): hypotheses kept.
    length_penalty:
        beam (0.0): how much long texts are favoured.
    repetition_penalty:
        Above 1, tokens said before become less probable.
    frequency_penalty:
        Nats taken off for each time a token was said before.
    presence_penalty:
        Nats taken off once for a token said before.
    no_repeat_ngram:
        Never say an n-gram of this length twice; 0 allows it.
    samples:
        How many texts; for beam the n best.
    seed:
        Of the draws.
    through_stops:
        A stop symbol is a line end and the text goes on; by default only for models trained on a stream.
    allow_unknown:
        Read words of the prompt outside the vocabulary as `<unk>` instead of refusing them.
    json:
        Print one JSON object a text.
    """
    from ostinato.core.errors import ConfigError
    from ostinato.tasks.language import generate as task
    from ostinato.tasks.language.load import load

    if samples < 1 or max_tokens < 1:
        raise ConfigError("--samples and --max-tokens must be at least 1")
    chosen = make_strategy(
        strategy,
        {"temperature": temperature, "top_k": top_k, "top_p": top_p},
        {"width": width, "length_penalty": length_penalty},
        {
            "repetition": repetition_penalty,
            "frequency": frequency_penalty,
            "presence": presence_penalty,
            "no_repeat_ngram": no_repeat_ngram,
        },
        samples,
    )
    loaded = load(run)
    tell_unfinished(loaded.run)
    ids, missing = task.prompt_ids(loaded, prompt, allow_unknown)
    if missing:
        say(f"outside the vocabulary, read as <unk>: {', '.join(missing)}")
    through = loaded.regime == "stream" if through_stops is None else through_stops
    if json or strategy == "beam":
        for number in range(1 if strategy == "beam" else samples):
            for text, found in task.hypotheses(loaded, ids, chosen, max_tokens, seed + number, through):
                result = {"text": text, "log_prob": found.log_prob, "score": found.score, "finished": found.finished}
                if json:
                    show_json({**result, "tokens": len(found.tokens), "seed": seed + number})
                else:
                    print(f"{found.log_prob:.3f}\t{text}")
        return
    for number in range(samples):
        for text in task.stream_text(loaded, ids, chosen, max_tokens, seed + number, through):
            sys.stdout.write(text)
            sys.stdout.flush()
        print(flush=True)


def make_strategy(
    name: str,
    of_sample: dict[str, float | None],
    of_beam: dict[str, float | None],
    penalty: dict[str, float],
    samples: int,
) -> Strategy:
    """The decoding strategy of that name. Raises ConfigError for an option of another one."""
    from ostinato.core.config import build
    from ostinato.core.errors import ConfigError
    from ostinato.decode import strategies

    groups = {"sample": of_sample, "beam": of_beam, "greedy": {}}
    for other, options in groups.items():
        for key, value in options.items():
            if value is not None and other != name:
                raise ConfigError(f"--{key.replace('_', '-')} is for --strategy {other}, not {name}")
    given = {key: value for key, value in groups[name].items() if value is not None}
    more = {"n_best": samples} if name == "beam" else {}
    if name == "greedy" and samples > 1:
        raise ConfigError("--strategy greedy gives one text; leave --samples out")
    return build(strategies[name], {**given, **more, "penalty": penalty}, name)
