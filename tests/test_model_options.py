"""The options of models as the command line and configuration files give them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, get_args

import pytest

from ostinato.core.config import build, read_toml, to_toml
from ostinato.core.errors import ConfigError
from ostinato.nn.heads.options import HeadOptions
from ostinato.tasks.options import BEGINNING, KINDS, Config, Kind, ModelOptions

NEURAL = [kind for kind in KINDS if kind != "ngram"]


def test_every_kind_can_be_asked_for_and_every_option_of_a_kind_given() -> None:
    assert set(get_args(Kind)) == set(KINDS)
    names = {field.name for field in dataclasses.fields(ModelOptions)} - {"kind", *BEGINNING}
    assert names == {field.name for kind in KINDS.values() for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("kind", NEURAL)
def test_an_option_that_is_left_out_has_the_default_of_its_kind(kind: Any) -> None:
    assert ModelOptions(kind).resolve() == KINDS[kind]()
    assert ModelOptions(kind, hidden=8, dropout=0.5).resolve() == KINDS[kind](hidden=8, dropout=0.5)
    assert ModelOptions(kind, head=HeadOptions("mixture")).resolve().head == HeadOptions("mixture")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "gates that read no state": (
        {"kind": "min-gru", "weight_dropout": 0.1},
        "model.weight_dropout does not apply to min",
    ),
    "no matrix to begin": (
        {"kind": "min-lstm", "recurrent_init": "identity"},
        "does not apply to min-lstm; .* lstm-1997",
    ),
    "no forget gate": ({"kind": "lstm-1997", "forget_bias": 1.0}, "does not apply to lstm-1997; it is for lstm, "),
    "a matrix for a state": ({"kind": "gated-delta", "zoneout": 0.1}, "does not apply to gated-delta"),
    "one activation": ({"kind": "lstm", "activation": "relu"}, "does not apply to lstm; it is for rnn$"),
    "a head of counts": ({"kind": "ngram", "head": HeadOptions("nce")}, "model.head does not apply to ngram"),
    "no window": ({"kind": "nplm", "variational": True}, "does not apply to nplm"),
    "both directions": ({"kind": "gru", "bidirectional": True}, "bidirectional: .* must predict"),
    "one layer": ({"kind": "gru", "skip": True}, "skip connects layers"),
    "no masks": ({"kind": "gru", "variational": True, "dropout": 0.0}, "set dropout"),
    "all dropped": ({"kind": "gru", "weight_dropout": 1.0}, "weight_dropout: .*less than 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_apply_or_has_no_effect_is_refused_with_the_reason(name: str) -> None:
    given, reason = REFUSED[name]
    with pytest.raises(ConfigError, match=reason):
        Config(model=ModelOptions(**given)).check()


def test_an_option_of_another_output_layer_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('[model]\nkind = "lstm"\n[model.head]\nkind = "softmax"\nsamples = 10\n')
    with pytest.raises(ConfigError, match=r"head.*samples does not apply to softmax; it is for sampled, nce"):
        build(Config, read_toml(file), str(file))


def test_a_configuration_with_an_output_layer_survives_its_file(tmp_path: Path) -> None:
    config = Config(model=ModelOptions("gru", layers=2, skip=True, head=HeadOptions("adaptive", cutoffs=(10, 50))))
    file = tmp_path / "c.toml"
    file.write_text(to_toml(config))
    assert build(Config, read_toml(file), str(file)) == config
