"""Written dates to ISO, and numbers to words: sequences of letters that are not aligned; generated."""

from __future__ import annotations

import random
from datetime import date, timedelta
from pathlib import Path

from ostinato.tasks.demos.prepared import Prepared, write_lines, write_pairs
from ostinato.tasks.translation.options import Config, DataOptions, ModelOptions, TrainOptions

FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
FORMS = (
    "{d} {month} {y}",
    "{month} {d}, {y}",
    "{d} {mon} {y}",
    "{mon} {d} {y}",
    "{th} of {month} {y}",
    "{month} {th}, {y}",
)
MORE = ("{week}, {d} {month} {y}", "{week} {month} {th} {y}", "{day}, {mon} {d}, {y}", "{dd}.{mm}.{y}", "{mm}/{dd}/{y}")
"""How people write a date."""

COUNT = 10_000
"""Of training pairs."""

ONES = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def dates(folder: Path, share: float = 1.0) -> Prepared:
    """Dates as people write them to ISO: no day of the test, in whatever form, stands in the training data."""
    draw = random.Random(1)
    days = [FIRST + timedelta(days=number) for number in range((LAST - FIRST).days + 1)]
    draw.shuffle(days)
    pairs = [(written(day, draw.choice((*FORMS, *MORE))), day.isoformat()) for day in days]
    return _pairs(folder, pairs, share, DataOptions(tokeniser="char"))


def numbers(folder: Path, share: float = 1.0) -> Prepared:
    """Numbers below a million to English words; no number of the test stands in the training data."""
    draw = random.Random(1)
    drawn = dict.fromkeys(draw.randrange(10 ** draw.randint(1, 6)) for _ in range(4 * COUNT))
    pairs = [(f"{number:,}" if draw.random() < 0.5 else str(number), in_words(number)) for number in drawn]
    draw.shuffle(pairs)
    return _pairs(folder, pairs, share, DataOptions(tokeniser="char", target_tokeniser="blank"))


def _pairs(folder: Path, pairs: list[tuple[str, str]], share: float, data: DataOptions) -> Prepared:
    """Parts of the pairs in files, and a small translator."""
    count, held = int(COUNT * share), int(1000 * share)
    test, valid, train = pairs[:held], pairs[held : 2 * held], pairs[2 * held : 2 * held + count]
    files = {name: write_pairs(folder / f"{name}.tsv", part) for name, part in (("train", train), ("valid", valid))}
    files["test"] = write_pairs(folder / "test.tsv", test)
    data = DataOptions(
        **{name: (path,) for name, path in files.items()},  # type: ignore[arg-type]
        tokeniser=data.tokeniser,
        target_tokeniser=data.target_tokeniser,
    )
    model = ModelOptions(kind="gru", embedding=64, hidden=128, dropout=0.1)
    train_options = TrainOptions(epochs=5, rows=64, tokens=2000, learning_rate=0.004, warmup=50, measure="exact")
    given = tuple(source for source, _ in test[:5])
    asked = write_lines(folder / "asked.txt", given)
    return Prepared("translation", Config(data, model, train_options), asked, given, look=given[0])


def written(day: date, form: str) -> str:
    """A date in one of the forms; every second one without capitals."""
    month, week = day.strftime("%B"), day.strftime("%A")
    values = {"d": day.day, "dd": f"{day.day:02}", "mm": f"{day.month:02}", "y": day.year, "th": ordinal(day.day)}
    text = form.format(month=month, mon=month[:3], week=week, day=week[:3], **values)
    return text if day.toordinal() % 2 else text.lower()


def ordinal(number: int) -> str:
    """`3rd`."""
    ending = "th" if 10 < number % 100 < 14 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def in_words(number: int) -> str:
    """A number below a million in English.

    >>> in_words(904017)
    'nine hundred and four thousand and seventeen'
    """
    if number < 20:
        return ONES[number]
    if number < 100:
        return TENS[number // 10] + (f" {ONES[number % 10]}" if number % 10 else "")
    name, size = ("thousand", 1000) if number >= 1000 else ("hundred", 100)
    rest = number % size
    joint = " and " if 0 < rest < 100 else " "
    return f"{in_words(number // size)} {name}" + (f"{joint}{in_words(rest)}" if rest else "")
