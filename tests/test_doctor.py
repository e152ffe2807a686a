"""The doctor: every rule on logs written by hand, and on real tiny runs that are broken on purpose."""

from __future__ import annotations

import contextlib
import json
import math
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ostinato.core.errors import DivergedError
from ostinato.decode.diversity import distinct, repeated
from ostinato.lab.bundle import TEXTS
from ostinato.nn.networks import Network, RecurrentNetwork, networks
from ostinato.nn.options import ElmanOptions, GRUOptions, LSTMOptions, NPLMOptions
from ostinato.runs import RunDir
from ostinato.text.batch import Batch
from ostinato.train.doctor import RULES, Diagnosis, Watcher, diagnose
from ostinato.train.history import STRETCHES, History
from ostinato.train.learner import Validation, backward
from ostinato.train.loop import Trainer
from ostinato.train.monitor import first_not_finite, gradient_norms, probe
from ostinato.train.near_uniform import CAUSES
from ostinato.train.options import TrainOptions
from ostinato.train.probe_rules import GATES

Event = dict[str, Any]

# --- Logs written by hand -------------------------------------------------------------------------------


def start(outputs: int = 1000, unigram: float | None = 5.5, frozen: Sequence[str] = ()) -> Event:
    return {"event": "start", "step": 0, "outputs": outputs, "unigram_nats": unigram, "frozen": list(frozen)}


def report(step: int, loss: float, valid: float | None = None, norm: float = 0.5, **more: Any) -> Event:
    event = {"event": "report", "step": step, "epoch": 0, "tokens": 1000 * step, "loss": loss, "valid_loss": valid}
    return event | {"gradient_norm": norm, "clipped_norm": min(norm, 1.0), "learning_rate": 0.002} | more


def reports(*losses: float, every: int = 100, **more: Any) -> list[Event]:
    return [report(every * number, loss, **more) for number, loss in enumerate(losses, 1)]


def probed(step: int = 100, **more: Any) -> Event:
    """A probe of a healthy LSTM of one layer, but for what is given."""
    gate = {"low": 0.02, "high": 0.03, "mean": 0.5, "dead": 0.0}
    through = [0.02 * 0.6**back for back in reversed(range(20))]
    event = {"event": "probe", "step": step, "gradients": {"embedding": 0.3, "hidden": 0.05}, "through_time": [through]}
    return event | {"activations": [{"input": gate, "forget": gate, "candidate": gate}]} | more


def stop(step: int, reason: str = "epochs") -> Event:
    return {"event": "stop", "step": step, "reason": reason, "best": 4.0, "best_step": step}


def names(events: Sequence[Event]) -> list[str]:
    return [diagnosis.name for diagnosis in diagnose(events)]


def only(events: Sequence[Event]) -> Diagnosis:
    """The one diagnosis of a log."""
    (found,) = diagnose(events)
    return found


FALLING = [6.5, 5.8, 5.4, 5.1, 4.9, 4.8, 4.7, 4.6]
HEALTHY = [start(), *reports(*FALLING), probed(800), report(900, 4.5, valid=4.6), stop(900)]


def test_a_healthy_log_draws_nothing_at_any_moment() -> None:
    watcher = Watcher()
    for length in range(len(HEALTHY) + 1):
        assert diagnose(HEALTHY[:length]) == []
    assert [watcher.see(event) for event in HEALTHY] == [[]] * len(HEALTHY)


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{"event": "start", "step": 0}],
        [{"event": "start", "step": 0, "outputs": None, "unigram_nats": None}, *reports(9.0, 8.0, 7.0), stop(300)],
        [{"event": "something new", "step": 1}],
        [start(), {"event": "sample", "step": 0, "text": []}, stop(0)],
        [start(), {"event": "sample", "step": 1, "text": [], "repeated": None, "distinct": None}],
        [start(), {"event": "probe", "step": 1, "gradients": {}, "through_time": [], "activations": []}],
        [start(), {"event": "resume", "step": 0}],
    ],
)
def test_logs_with_little_in_them_draw_nothing(events: list[Event]) -> None:
    assert diagnose(events) == []


def test_a_diagnosis_is_one_line_a_field_and_plain_json() -> None:
    found = only([start(), *reports(6.9, 6.9, 6.9), stop(300)])
    assert json.loads(json.dumps(found.to_json())) == found.to_json()
    assert set(found.to_json()) == {"name", "severity", "finding", "advice", "evidence"}
    assert "\n" not in found.finding + found.advice


def test_faults_are_told_before_warnings() -> None:
    frozen_and_not_finite = [start(frozen=["embedding"]), diverged(7)]
    assert [d.severity for d in diagnose(frozen_and_not_finite)] == ["fault", "warning"]


# ln 1000 = 6.91; halfway to the unigram entropy of 5.5 lies 6.2

UNIFORM = math.log(1000)


def near_uniform(*more: Event, **options: Any) -> Diagnosis:
    found = diagnose([start(**options), *more])
    assert found[0].name == "loss-near-uniform"
    return found[0]


def test_a_loss_near_uniform_names_the_numbers() -> None:
    found = near_uniform(*reports(6.9, 6.9, 6.89))
    assert found.severity == "fault"
    assert "6.89 nats after 300 updates, ln|V| = 6.91" in found.finding
    assert found.evidence["uniform"] == UNIFORM
    assert found.evidence["fall"] == pytest.approx(6.9 - 6.89)


@pytest.mark.parametrize(
    ("cause", "more", "options"),
    [
        ("learning-rate-too-small", reports(6.90, 6.90, 6.89), {}),
        ("learning-rate-too-small", reports(6.90, 6.90, 6.89), {"unigram": None}),
        ("learning-rate-too-large", reports(60.0, 95.0, 81.0), {}),
        ("learning-rate-too-large", reports(6.6, 7.1, 6.5, 7.2), {}),
        ("no-gradient", reports(6.9, 6.9, 6.9, norm=0.0), {}),
        ("frozen-parameters", reports(6.9, 6.9, 6.9), {"frozen": ["embedding"]}),
        ("frozen-parameters", [*reports(6.9, 6.9, 6.9), probed(gradients={"a": 0.0, "b": 0.3})], {}),
        (
            "dead-units",
            [
                *reports(6.9, 6.9, 6.9),
                probed(activations=[{"hidden": {"low": 0.0, "high": 0.0, "mean": 0.0, "dead": 1.0}}]),
            ],
            {},
        ),
        (
            "saturated",
            [
                *reports(6.9, 6.9, 6.9),
                probed(activations=[{"forget": {"low": 0.5, "high": 0.45, "mean": 0.5, "dead": 0.0}}]),
            ],
            {},
        ),
        ("targets", [report(100, 6.91), report(200, 6.91, norm=0.2), report(300, 6.91, norm=0.1)], {"unigram": 6.9}),
        ("too-few-updates", [*reports(6.9, 6.88, 6.85, every=5), stop(15)], {}),
    ],
)  # fmt: skip
def test_a_loss_near_uniform_points_to_its_cause(cause: str, more: list[Event], options: dict[str, Any]) -> None:
    assert near_uniform(*more, **options).evidence["cause"] == cause


def test_a_loss_near_uniform_is_told_only_after_there_was_time_to_learn() -> None:
    for events in (
        reports(6.9, 6.9, every=90),
        reports(6.9, 6.9, 6.9, every=50),
        [report(100 * n, 6.9, learning_rate=0.001 * n) for n in range(1, 5)],  # still warming up
    ):
        assert diagnose([start(), *events]) == []
    assert names([start(), *reports(6.9, 6.9, every=90), stop(180)]) == ["loss-near-uniform"]
    assert names([start(), *reports(6.9, 6.9, every=90), stop(180, "interrupted")]) == []


def test_without_the_unigram_entropy_only_the_last_two_percent_are_near() -> None:
    assert names([start(unigram=None), *reports(6.9, 6.8, 0.985 * UNIFORM), stop(300)]) == ["loss-near-uniform"]
    assert names([start(unigram=None), *reports(6.9, 6.8, 0.975 * UNIFORM), stop(300)]) == []
    assert names([start(unigram=5.5), *reports(6.9, 6.8, 0.975 * UNIFORM), stop(300)]) == ["loss-near-uniform"]


def test_a_loss_that_stops_at_the_unigram_entropy_uses_no_context() -> None:
    plateau = reports(6.2, 5.6, *[5.52] * 10)
    found = only([start(), *plateau])
    assert (found.name, found.severity) == ("context-unused", "warning")
    assert found.advice.startswith("check that the target")
    assert (
        "after 1,200 updates the training loss stays at 5.52 nats, the entropy of single tokens without context (5.50)"
        in found.finding
    )


def test_a_short_run_that_ends_at_the_unigram_entropy_is_told_to_train_longer() -> None:
    found = only([start(), *reports(6.2, 5.6, *[5.52] * 5), stop(700)])
    assert found.name == "context-unused"
    assert found.advice.startswith("train longer first")


@pytest.mark.parametrize(
    "losses",
    [
        [6.2, 5.6, *[5.52] * 5],  # 700 updates: real models stay there as long
        [6.2, *[5.2] * 10],  # below: context is used
        [6.5, 6.3, *[5.9] * 10],  # well above: not even the frequencies are learnt, another matter
        [6.2, 6.0, 5.9, 5.85, 5.8, 5.77, 5.73, 5.70, 5.67, 5.6, 5.53, 5.46],  # on its way through
    ],
)
def test_a_loss_that_passes_the_unigram_entropy_is_healthy(losses: list[float]) -> None:
    assert diagnose([start(), *reports(*losses)]) == []


def test_a_validation_loss_below_the_unigram_entropy_shows_that_the_context_is_used() -> None:
    """Dropout keeps the training loss up."""
    plateau = [start(unigram=5.48), *reports(6.2, 5.6, *[5.5] * 10)]
    assert names([*plateau, report(1300, 5.5, valid=5.217)]) == []
    assert names([*plateau, report(1300, 5.5, valid=5.45)]) == ["context-unused"]


def diverged(step: int, **more: Any) -> Event:
    event = {"event": "diverged", "step": step, "epoch": 1, "batch": 3, "what": "gradient"}
    return event | {"parameter": "stack.layers.0.from_hidden.weight", "value": "inf"} | more


def test_not_finite_says_which_update_batch_and_parameter() -> None:
    found = only([start(), *reports(6.5, 6.0), diverged(220), stop(220, "diverged")])
    assert (found.name, found.severity) == ("not-finite", "fault")
    for part in ("gradient became inf", "update 221", "epoch 2", "batch 4", "stack.layers.0.from_hidden.weight"):
        assert part in found.finding
    assert "--train.learning-rate" in found.advice


def test_not_finite_calls_saved_weights_good_only_where_there_are_some() -> None:
    assert "saved before is good" not in only([start(), diverged(220, checkpoint=None)]).finding
    assert "saved before is good" in only([start(), diverged(220, checkpoint="000200")]).finding


def test_nan_in_the_first_update_points_to_weights_and_data() -> None:
    found = only([start(), diverged(0, what="loss", value="nan", parameter="none")])
    assert "weights and the data" in found.advice
    assert "first in" not in found.finding


def test_a_report_that_is_not_finite_is_told_too() -> None:
    assert names([start(), *reports(6.0, math.nan)]) == ["not-finite"]


def test_a_resumed_run_has_left_its_divergence_behind() -> None:
    assert diagnose([start(), diverged(7), stop(7, "diverged"), {"event": "resume", "step": 7}]) == []


def with_validation(*pairs: tuple[float, float]) -> list[Event]:
    return [start(), *[report(100 * n, train, valid) for n, (train, valid) in enumerate(pairs, 1)]]


def test_overfitting_says_from_where_and_by_how_much() -> None:
    found = only(with_validation((5.0, 5.1), (4.5, 4.9), (4.2, 4.95), (3.9, 5.05)))
    assert (found.name, found.severity) == ("overfitting", "warning")
    assert "from step 200 to 400 the validation loss rose by 0.15 nats (4.90 to 5.05)" in found.finding
    assert "training loss fell by 0.60 (4.50 to 3.90)" in found.finding
    assert "--train.patience" in found.advice


@pytest.mark.parametrize(
    "pairs",
    [
        [(5.0, 5.1), (4.5, 4.9), (4.2, 5.2)],  # once is chance
        [(5.0, 5.1), (4.5, 4.9), (4.4, 4.91), (4.3, 4.92)],  # 0.02 nats are noise
        [(5.0, 5.1), (4.5, 4.9), (4.6, 5.0), (4.7, 5.1)],  # training rises as well: not overfitting
        [(5.0, 5.1), (4.5, 4.9), (4.2, 5.0), (3.9, 4.8)],  # and down again
    ],
)
def test_validation_that_wavers_is_not_overfitting(pairs: list[tuple[float, float]]) -> None:
    assert diagnose(with_validation(*pairs)) == []


def test_the_training_loss_of_a_validation_is_the_mean_since_the_one_before() -> None:
    history = History()
    for event in [report(100, 6.0), report(300, 5.0, valid=5.5), report(400, 4.0), report(500, 3.0, valid=5.0)]:
        history.add(event)
    assert history.last is not None
    assert history.last.train == (4.0 + 3.0) / 2
    assert history.stretches[0].join(history.stretches[1]).loss == pytest.approx((6.0 * 100 + 5.0 * 200) / 300)


def test_validation_worse_than_guessing_is_told_while_training_learns() -> None:
    found = only(with_validation((5.0, 9.2), (4.5, 8.3), (4.2, 7.8)))
    assert found.name == "validation-above-uniform"
    assert diagnose(with_validation((5.0, 6.9), (4.5, 6.8), (4.2, 6.7))) == []


def test_a_training_loss_that_rises_and_stays_up_is_told() -> None:
    found = only([start(), *reports(6.0, 5.0, 4.5, 4.4, 5.1, 5.2, 5.3)])
    assert (found.name, found.severity) == ("loss-rising", "fault")
    assert "from 4.40 nats at step 400 to 5.10" in found.finding
    assert diagnose([start(), *reports(6.0, 5.0, 4.5, 4.4, 5.1, 5.2, 4.6)]) == []


def test_a_large_gradient_norm_is_told_unless_it_is_a_spike() -> None:
    found = only([start(), *reports(*FALLING, norm=300.0), probed()])
    assert (found.name, found.severity) == ("exploding-gradients", "fault")
    assert "the gradient norm is 300 (1 after clipping)" in found.finding
    assert "100% of the reports were clipped" in found.finding
    assert found.evidence["parameter"] == "embedding"
    spike = [*reports(*FALLING), report(900, 4.6, norm=300.0), report(1000, 4.5)]
    assert diagnose([start(), *spike]) == []


def test_a_gradient_that_grows_back_in_time_is_told() -> None:
    through = [[1.0 * 1.5**back for back in reversed(range(10))]]
    found = only([start(), *reports(*FALLING), probed(through_time=through)])
    assert (found.name, found.severity) == ("exploding-gradients", "warning")
    assert found.evidence["growth"] == pytest.approx(1.5**9)
    assert found.evidence["steps_back"] == 9


def test_a_gradient_that_is_gone_three_steps_back_is_told() -> None:
    found = only([start(), *reports(*FALLING), probed(through_time=[[1e-9, 1e-6, 1e-4, 0.02]])])
    assert found.name == "vanishing-gradients"
    assert found.evidence == {"where": "layer 1 3 steps back in time", "ratio": pytest.approx(1e-9 / 0.02)}
    assert diagnose([start(), *reports(*FALLING), probed(through_time=[[1e-9, 1e-3, 0.02], []])]) == []


def test_a_layer_the_gradient_does_not_reach_is_told_by_name() -> None:
    found = only([start(), *reports(*FALLING), probed(gradients={"layer 0": 1e-6, "layer 1": 1e-3, "output": 0.2})])
    assert (found.name, found.evidence["where"]) == ("vanishing-gradients", "layer 0")


@pytest.mark.parametrize(
    ("name", "advice"), [("encoder.blocks.0.3.bias", "normalisation"), ("stack.layers.0.from_hidden.weight", "LSTM")]
)
def test_only_recurrent_layers_are_advised_to_be_others(name: str, advice: str) -> None:
    found = only([start(), *reports(*FALLING), probed(gradients={name: 1e-6, "output": 0.2})])
    assert advice in found.advice


def gates(name: str, **shares: float) -> Event:
    return probed(activations=[{}, {name: {"low": 0.0, "high": 0.0, "mean": 0.5, "dead": 0.0} | shares}])


def test_saturated_gates_and_units_are_told_with_their_layer() -> None:
    found = only([start(), *reports(*FALLING), gates("forget", low=0.3, high=0.65)])
    assert found.name == "saturated-gates"
    assert "95% of the values of the forget gates of layer 2 are within 0.01 of 0 or 1" in found.finding
    found = only([start(), *reports(*FALLING), gates("hidden", low=0.45, high=0.5)])
    assert found.name == "saturated-activations"
    assert "hidden units of layer 2 are within 0.01 of -1 or 1" in found.finding
    assert diagnose([start(), *reports(*FALLING), gates("candidate", low=0.42, high=0.42)]) == []


def test_dead_units_are_a_warning_and_a_dead_layer_a_fault() -> None:
    for share, severity in ((0.5, "warning"), (1.0, "fault")):
        found = only([start(), *reports(*FALLING), gates("hidden", dead=share)])
        assert (found.name, found.severity) == ("dead-units", severity)
        assert f"{share:.0%} of the hidden units of layer 2" in found.finding


def test_parameters_that_an_option_holds_are_no_fault() -> None:
    """Neither by their name in the start event nor by the gradient that they never have."""
    held = {**start(), "held": ["embedding"]}
    silent = probed(gradients={"embedding": 0.0, "hidden": 0.3})
    assert not diagnose([held, *reports(*FALLING), silent])
    assert "frozen-parameters" not in [found.name for found in diagnose([held, *reports(6.9, 6.9, 6.9), silent])]


def test_frozen_parameters_are_named() -> None:
    found = only([start(frozen=["embedding", "hidden"]), *reports(*FALLING), probed()])
    assert (found.name, found.severity, found.evidence["count"]) == ("frozen-parameters", "warning", 2)
    assert "parameters embedding, hidden: set not to train" in found.finding


def test_a_parameter_without_gradient_is_a_fault_only_if_no_probe_saw_one() -> None:
    cut = probed(gradients={"embedding": 0.3, "hidden": 0.0})
    found = only([start(), *reports(*FALLING), cut, cut])
    assert (found.name, found.severity) == ("frozen-parameters", "fault")
    assert "parameter hidden: without any gradient" in found.finding
    assert diagnose([start(), *reports(*FALLING), probed(), cut]) == []


@pytest.mark.parametrize(
    ("repeated", "distinct", "outputs", "told"),
    [(0.9, 0.05, 1000, True), (0.5, 0.4, 1000, True), (0.36, 0.26, 65, False), (0.9, 0.05, 4, False)],
)
def test_samples_that_go_round_in_circles_are_told(repeated: float, distinct: float, outputs: int, told: bool) -> None:
    sample = {"event": "sample", "step": 800, "text": ["a"], "repeated": repeated, "distinct": distinct}
    events = [start(outputs, unigram=None), *reports(1.2, 1.1, 1.0), sample]
    assert names(events) == ["repetitive-samples"] * told


def test_the_watcher_tells_each_finding_once_and_agrees_with_diagnose() -> None:
    events = [*with_validation((5.0, 5.1), (4.5, 4.9), (4.2, 4.95), (3.9, 5.05), (3.5, 5.2)), gates("hidden", dead=0.5)]
    watcher = Watcher()
    told = [[d.name for d in watcher.see(event)] for event in [*events, *events[-1:]]]
    assert told == [[], [], [], [], ["overfitting"], [], ["dead-units"], []]
    worse = gates("hidden", dead=1.0)
    assert [d.severity for d in watcher.see(worse)] == ["fault"]
    assert {d.name for d in diagnose([*events, worse])} == {"overfitting", "dead-units"}


def test_a_long_log_is_kept_in_bounded_memory_and_loses_no_mean() -> None:
    history = History()
    losses = np.random.default_rng(0).uniform(3, 5, 10_007).tolist()
    for number, loss in enumerate(losses, 1):
        history.add(report(number, loss))
        assert len(history.stretches) <= STRETCHES
    total = sum(part.loss * part.targets for part in history.stretches)
    assert total / 1000 == pytest.approx(sum(losses))
    assert [part.step for part in history.stretches] == sorted(part.step for part in history.stretches)
    lengths = {later.step - earlier.step for earlier, later in pairwise(history.stretches[:-1])}
    assert lengths == {256}  # 10,007 reports in at most 64 stretches: 2^8 each


# --- Real runs, broken on purpose -----------------------------------------------------------------------

V = 30


def language(tokens: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Ids of a small language: the next of three favourites of the last id, turned by the one before it."""
    chance = np.random.default_rng(7)
    frequent = 1 / np.arange(1, V + 1)
    favourites = chance.choice(V, (V, 2, 3), p=frequent / frequent.sum())
    picks = np.random.default_rng(seed).choice(3, tokens, p=[0.7, 0.2, 0.1])
    ids = [0, 1]
    for pick in picks.tolist():
        ids.append(int(favourites[ids[-1], ids[-2] % 2, pick]))
    return np.array(ids[2:])


def batches_of(ids: np.ndarray[Any, np.dtype[np.int64]], rows: int, length: int) -> list[Batch]:
    """One continuous stream in `rows` rows, cut every `length` steps."""
    columns = (len(ids) - 1) // rows // length * length
    inputs = ids[: rows * columns].reshape(rows, columns)
    targets = ids[1 : rows * columns + 1].reshape(rows, columns)
    return [
        Batch(
            np.ascontiguousarray(inputs[:, at : at + length]),
            np.ascontiguousarray(targets[:, at : at + length]),
            np.ones((rows, length), np.float32),
            np.full(rows, at == 0),
        )
        for at in range(0, columns, length)
    ]


class TinyLearner:
    """A network over the small language; `train`, `valid` and how it samples may be broken from outside."""

    def __init__(self, network: Network, tokens: int = 48_000, rows: int = 16, length: int = 15):
        self.network, self.greedy = network, False
        self.train = batches_of(language(tokens, seed=1), rows, length)
        self.valid = batches_of(language(4_000, seed=2), rows, length)

    def start_event(self) -> Event:
        counts = np.bincount(np.concatenate([batch.targets.reshape(-1) for batch in self.train]), minlength=V)
        shares = counts[counts > 0] / counts.sum()
        return {
            "outputs": V,
            "unigram_nats": float(-(shares * np.log(shares)).sum()),
            "train_tokens": int(counts.sum()),
        }

    def batches(self, epoch: int) -> list[Batch]:
        return self.train

    def init_state(self, rows: int) -> Any:
        return self.network.init_state(rows)

    def loss(self, state: Any, batch: Batch) -> tuple[Tensor, Any]:
        arrays = (torch.from_numpy(array) for array in (batch.inputs, batch.targets, batch.weight))
        return self.network.loss(state, *arrays)

    def gradients(self, state: Any, batch: Batch, scale: float, add: bool) -> tuple[float, Any]:
        if not add:
            self.network.zero_grad(set_to_none=False)
        return backward(*self.loss(state, batch), scale)

    def told(self, loss: float, best: float) -> str:
        return f"{loss:.2f}"

    def probe(self, batch: Batch) -> Event:
        return probe(self.network, batch)

    def validate(self) -> Validation:
        self.network.eval()
        state, nats, count = self.init_state(len(self.valid[0].fresh)), 0.0, 0
        with torch.no_grad():
            for batch in self.valid:
                loss, state = self.loss(state, batch)
                nats, count = nats + float(loss), count + int(batch.weight.sum())
        self.network.train()
        return Validation(nats / count, nats / count)

    def sample(self) -> Event:
        self.network.eval()
        chance, drawn = torch.Generator().manual_seed(5), [torch.arange(4)[:, None]]
        state = self.init_state(4)
        with torch.no_grad():
            for _ in range(60):
                features, state = self.network.features(state, drawn[-1])
                shares = self.network.log_probs(features[:, 0]).exp()
                drawn.append(shares.argmax(1)[:, None] if self.greedy else shares.multinomial(1, generator=chance))
        self.network.train()
        rows = torch.cat(drawn, dim=1).tolist()
        texts = [" ".join(map(str, row)) for row in rows]
        twice, different = ([measure(row, n) for row in rows] for measure, n in ((repeated, 4), (distinct, 2)))
        return {"text": texts, "repeated": float(np.mean(twice)), "distinct": float(np.mean(different))}

    def save(self, run: RunDir) -> None:
        """Nothing is needed of the weights."""


def learner_of(kind: str = "lstm", options: Any = None, **sizes: int) -> TinyLearner:
    torch.manual_seed(0)
    return TinyLearner(networks[kind](V, options or LSTMOptions(hidden=32, dropout=0.0)), **sizes)


def fit(learner: TinyLearner, folder: Path, **options: Any) -> list[Diagnosis]:
    """Train, and return what the doctor says; the watcher must have told the same on the way."""
    with RunDir.create(folder / "run") as new:
        new.write_config("")
    run, told = RunDir.open(folder / "run"), []
    options = {"epochs": 2, "report_every": 25, "threads": 1, "learning_rate": 0.005, **options}
    with contextlib.suppress(DivergedError):
        Trainer(learner, run, TrainOptions(**options), warn=told.append).fit()
    found = diagnose(run.events())
    assert {d.name for d in found} <= {d.name for d in told}
    return found


def change(network: Network, how: Callable[[Any], None]) -> None:
    """Change every cell of a network in place."""
    assert isinstance(network, RecurrentNetwork)
    with torch.no_grad():
        for cell in network.stack.cells:
            how(cell)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("lstm", LSTMOptions(hidden=32)),
        ("gru", GRUOptions(hidden=32)),
        ("rnn", ElmanOptions(hidden=32)),
        ("nplm", NPLMOptions(order=3, hidden=32, embedding=16)),
        ("lstm", LSTMOptions(hidden=24, layers=2, tied=False, layer_norm=True, residual=True)),
    ],
)
def test_a_healthy_run_draws_no_diagnosis_not_even_on_the_way(kind: str, options: Any, tmp_path: Path) -> None:
    with RunDir.create(tmp_path / "run") as new:
        new.write_config("")
    run, told = RunDir.open(tmp_path / "run"), []
    settings = TrainOptions(epochs=3, report_every=25, threads=1, learning_rate=0.005, validate_every=50)
    Trainer(learner_of(kind, options), run, settings, warn=told.append).fit()
    assert told == []
    assert diagnose(run.events()) == []


def test_a_learning_rate_near_zero_is_found(tmp_path: Path) -> None:
    (found,) = fit(learner_of(), tmp_path, learning_rate=1e-7)
    assert (found.name, found.evidence["cause"]) == ("loss-near-uniform", "learning-rate-too-small")


@pytest.mark.parametrize(("optimiser", "rate"), [("adamw", 10.0), ("sgd", 1000.0)])
def test_a_huge_learning_rate_is_found(optimiser: str, rate: float, tmp_path: Path) -> None:
    first, *implied = fit(learner_of(), tmp_path, optimiser=optimiser, learning_rate=rate)
    assert (first.name, first.evidence["cause"]) == ("loss-near-uniform", "learning-rate-too-large")
    weights_grew = {"saturated-gates", "saturated-activations", "vanishing-gradients", "exploding-gradients"}
    assert {d.name for d in implied} <= weights_grew | {"repetitive-samples", "validation-above-uniform"}


def test_nan_in_a_weight_is_found_in_that_weight(tmp_path: Path) -> None:
    learner = learner_of()
    change(learner.network, lambda cell: cell.from_hidden.weight[3, 5].fill_(math.nan))
    (found,) = fit(learner, tmp_path)
    assert found.name == "not-finite"
    assert found.evidence["parameter"] == "stack.layers.0.from_hidden.weight"
    assert (found.evidence["update"], found.evidence["batch"], found.evidence["value"]) == (1, 1, "nan")


def test_shuffled_targets_are_found(tmp_path: Path) -> None:
    learner = learner_of()
    for batch in learner.train:
        np.random.default_rng(3).shuffle(batch.targets.reshape(-1))
    (found,) = fit(learner, tmp_path)
    assert found.name == "context-unused"


def test_frozen_parameters_are_found(tmp_path: Path) -> None:
    learner = learner_of()
    frozen = "stack.layers.0.from_hidden.weight"
    learner.network.get_parameter(frozen).requires_grad_(False)
    (found,) = fit(learner, tmp_path)
    assert (found.name, found.evidence["parameters"]) == ("frozen-parameters", frozen)


def test_a_network_that_is_frozen_but_for_a_bias_is_found_as_the_cause_of_its_loss(tmp_path: Path) -> None:
    learner = learner_of("lstm", LSTMOptions(hidden=32, dropout=0.0, tied=False))
    for name, parameter in learner.network.named_parameters():
        parameter.requires_grad_(name == "embedding.weight")
    names = [d.name for d in fit(learner, tmp_path, learning_rate=1e-4)]
    assert names == ["loss-near-uniform", "frozen-parameters"]


def test_a_relu_network_whose_recurrence_doubles_each_step_is_found(tmp_path: Path) -> None:
    learner = learner_of("rnn", ElmanOptions(hidden=32, activation="relu", dropout=0.0))
    change(learner.network, lambda cell: cell.from_hidden.weight.mul_(2))
    for batch in learner.train + learner.valid:
        batch.fresh[:] = True  # or the state overflows after some batches: the test below
    found = fit(learner, tmp_path, learning_rate=1e-6)
    assert "exploding-gradients" in {d.name for d in found}
    exploding = next(d for d in found if d.name == "exploding-gradients")
    assert exploding.evidence["growth"] > 10
    huge_states = {"validation-above-uniform", "repetitive-samples"}
    assert {d.name for d in found} <= {"exploding-gradients", "loss-near-uniform"} | huge_states


def test_a_state_that_doubles_each_step_and_is_carried_on_overflows(tmp_path: Path) -> None:
    learner = learner_of("rnn", ElmanOptions(hidden=32, activation="relu", dropout=0.0))
    change(learner.network, lambda cell: cell.from_hidden.weight.mul_(2))
    (found,) = fit(learner, tmp_path, learning_rate=1e-6)
    assert (found.name, found.evidence["epoch"]) == ("not-finite", 1)
    assert found.evidence["parameter"] != "none"
    assert int(found.evidence["batch"]) == int(found.evidence["update"]) <= 30


def test_gates_saturated_by_large_weights_are_found(tmp_path: Path) -> None:
    learner = learner_of()
    change(learner.network, lambda cell: cell.from_input.weight.mul_(1000))
    gates, candidates = fit(learner, tmp_path)
    assert (gates.name, candidates.name) == ("saturated-gates", "saturated-activations")
    assert "layer 1" in str(gates.evidence["where"])


def test_a_saturated_nplm_is_found(tmp_path: Path) -> None:
    learner = learner_of("nplm", NPLMOptions(order=3, hidden=32, embedding=16, dropout=0.0))
    learner.network.get_parameter("hidden.weight").data.mul_(300)
    (found,) = fit(learner, tmp_path)
    assert (found.name, found.evidence["where"]) == ("saturated-activations", "hidden units of layer 1")


def test_dead_relu_units_are_found(tmp_path: Path) -> None:
    learner = learner_of("rnn", ElmanOptions(hidden=32, activation="relu", dropout=0.0))
    change(learner.network, lambda cell: cell.from_input.bias.fill_(-5))
    first, *implied = fit(learner, tmp_path)
    assert (first.name, first.severity, first.evidence["share"]) == ("dead-units", "fault", 1.0)
    assert {d.name for d in implied} <= {"context-unused"}  # what is left is an output bias


def test_a_recurrence_near_zero_is_found_as_a_vanishing_gradient(tmp_path: Path) -> None:
    learner = learner_of("rnn", ElmanOptions(hidden=32, dropout=0.0))
    change(learner.network, lambda cell: cell.from_hidden.weight.mul_(1e-3).requires_grad_(False))
    names = [d.name for d in fit(learner, tmp_path)]
    assert sorted(names) == ["frozen-parameters", "vanishing-gradients"]


def test_overfitting_on_fifty_sentences_is_found(tmp_path: Path) -> None:
    learner = learner_of("lstm", LSTMOptions(hidden=64, dropout=0.0), tokens=50 * 10 + 1, rows=10, length=10)
    (found,) = fit(learner, tmp_path, epochs=60, report_every=5, learning_rate=0.02, schedule="constant")
    assert found.name == "overfitting"
    assert found.evidence["rise"] > 0.03


def test_samples_of_a_greedy_decoder_are_found_to_repeat(tmp_path: Path) -> None:
    learner = learner_of()
    learner.greedy = True
    (found,) = fit(learner, tmp_path)
    assert found.name == "repetitive-samples"


# --- What the monitor measures --------------------------------------------------------------------------


def test_the_gradient_through_time_is_that_of_finite_recurrence() -> None:
    """With h' = tanh(Wx + Uh + b) and U = u I, d loss / d h shrinks by u (1 - h'^2) a step: here by almost u."""
    learner = learner_of("rnn", ElmanOptions(hidden=8, dropout=0.0))
    change(learner.network, lambda cell: cell.from_hidden.weight.copy_(0.5 * torch.eye(8)))
    (through,) = probe(learner.network, learner.train[0])["through_time"]
    assert len(through) == 15
    for older, newer in pairwise(through):
        assert 0.48 < older / newer < 0.5


def test_a_relu_beyond_one_is_not_saturated() -> None:
    learner = learner_of("rnn", ElmanOptions(hidden=8, activation="relu", dropout=0.0))
    change(learner.network, lambda cell: cell.from_input.bias.fill_(5))
    (gates,) = probe(learner.network, learner.train[0])["activations"]
    assert gates["hidden"]["high"] == gates["hidden"]["low"] == gates["hidden"]["dead"] == 0


def test_the_first_parameter_not_finite_is_the_cause_and_not_the_first_by_name() -> None:
    network = learner_of().network
    assert first_not_finite(network) is None
    for parameter in network.parameters():
        parameter.grad = torch.full_like(parameter, math.nan)
    name, value = first_not_finite(network) or ("", 0.0)
    assert name == list(dict(network.named_parameters()))[-1]
    assert math.isnan(value)
    network.zero_grad()
    network.get_parameter("head.bias").grad = torch.full((V,), 1e30)  # finite, but not its norm
    assert first_not_finite(network) == ("head.bias", math.inf)
    assert gradient_norms(network)["head.bias"] == math.inf


def test_every_rule_has_a_sentence_that_says_what_it_finds() -> None:
    assert all(rule.__doc__ and rule.__doc__.rstrip().endswith(".") for rule in RULES)
    assert len(set(RULES)) == len(RULES) == 13


# --- The same in Chinese --------------------------------------------------------------------------------

LOGS: dict[str, list[Event]] = {
    "not-finite": [start(), *reports(6.5, 6.0), diverged(220, checkpoint="000200")],
    "not-finite at once": [start(), diverged(0, what="loss", value="nan", parameter="none")],
    "loss-near-uniform": [start(), *reports(6.9, 6.9, 6.89)],
    "loss-near-uniform, no gradient": [start(), *reports(6.9, 6.9, 6.89, norm=0.0)],
    "loss-near-uniform, frozen": [start(frozen=["a", "b", "c", "d", "e"]), *reports(6.9, 6.9, 6.89)],
    "loss-near-uniform, dead": [start(), *reports(6.9, 6.9, 6.89), gates("hidden", dead=0.5)],
    "loss-near-uniform, too large": [start(), *reports(6.5, 9.0, 7.0)],
    "loss-near-uniform, saturated": [start(), *reports(6.9, 6.9, 6.89), gates("forget", low=0.3, high=0.65)],
    "loss-near-uniform, few": [start(), *reports(6.9, 6.9, 6.89, every=10), stop(30)],
    "loss-near-uniform, targets": [start(unigram=None), report(100, 6.9, norm=0.5), *reports(6.9, 6.9, 6.89, norm=0.1)],
    "context-unused": [start(), *reports(*[5.5] * 12)],
    "context-unused, short": [start(), *reports(*[5.5] * 5), stop(500)],
    "loss-rising": [start(), *reports(6.0, 5.0, 4.5, 4.4, 5.1, 5.2, 5.3)],
    "overfitting": [start(), *(report(100 * n, 5 - n, valid=4.0 + n * 0.1) for n in range(1, 5))],
    "validation-above-uniform": [start(), *reports(6.0, 5.0, 4.5), report(400, 4.4, valid=8.0)],
    "exploding-gradients": [start(), *reports(*FALLING, norm=300.0), probed(through_time=[[9.0, 1.0, 0.5]])],
    "vanishing-gradients": [start(), *reports(*FALLING), probed(through_time=[[1e-9, 1e-6, 1e-4, 0.02]])],
    "vanishing-gradients by name": [start(), *reports(*FALLING), probed(gradients={"layer 0": 1e-6, "output": 0.2})],
    "saturated-gates": [start(), *reports(*FALLING), gates("forget", low=0.3, high=0.65)],
    "saturated-activations": [start(), *reports(*FALLING), gates("hidden", low=0.45, high=0.5)],
    "dead-units": [start(), *reports(*FALLING), gates("hidden", dead=0.5)],
    "frozen-parameters": [start(frozen=["a", "b", "c", "d", "e"]), *reports(*FALLING), probed()],
    "frozen-parameters without gradient": [start(), *reports(*FALLING), *[probed(gradients={"a": 0.0})] * 2],
    "repetitive-samples": [start(unigram=None), *reports(1.2, 1.1), {"event": "sample", "step": 800, "text": ["a"],
                           "repeated": 0.9, "distinct": 0.05}],
}  # fmt: skip


def numbers(text: str) -> list[str]:
    return sorted(re.findall(r"\d+(?:[,.]\d+)*(?:e[+-]?\d+)?%?", text.replace("ln|V|", "")))


@pytest.mark.parametrize("case", LOGS)
def test_a_diagnosis_says_the_same_numbers_in_chinese(case: str) -> None:
    found = next(one for one in diagnose(LOGS[case]) if one.name == case.split(",")[0].split(" ")[0])
    for english, chinese in ((found.finding, found.chinese.finding), (found.advice, found.chinese.advice)):
        assert numbers(chinese) == numbers(english)
        assert sorted(re.findall(r"--[\w.-]+", chinese)) == sorted(re.findall(r"--[\w.-]+", english))
        assert re.search("[\u4e00-\u9fff]", chinese)
        assert chinese == chinese.strip()
        assert "\n" not in chinese
    assert re.fullmatch("[\u4e00-\u9fff]+", found.chinese.name)


def test_every_rule_and_every_cause_is_said_in_chinese() -> None:
    found = [one for log in LOGS.values() for one in diagnose(log)]
    assert {one.name for one in found} == {rule.__name__.replace("_", "-") for rule in RULES}
    causes = {one.evidence["cause"] for one in found if one.name == "loss-near-uniform"}
    assert len(causes) == len(CAUSES)


def test_the_doctor_and_the_lab_name_units_and_gates_alike() -> None:
    texts = json.loads((TEXTS / "zh.json").read_text("utf8"))["common"]
    assert {name: texts[f"part_{name}"] for name in GATES} == GATES
    assert {f"part_{name}" for name in GATES} == {key for key in texts if key.startswith("part_")} - {"part_cell"}
