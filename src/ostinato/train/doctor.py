"""The doctor: reads the events of log.jsonl and says, in words and with numbers, what is wrong with a run.

    diagnose(run.events())        all that is wrong with a run, going on or ended
    Watcher().see(event)          what is newly wrong since the event before

The events are described in `monitor`; the rules stand with their thresholds in `loss_rules`, `near_uniform`
and `probe_rules`, and are listed here in the order in which their findings are told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ostinato.train import loss_rules, near_uniform, probe_rules
from ostinato.train.diagnosis import Diagnosis, Rule, Severity
from ostinato.train.history import History

__all__ = ["RULES", "Diagnosis", "Severity", "Watcher", "diagnose"]

RULES: list[Rule] = [
    loss_rules.not_finite,
    near_uniform.loss_near_uniform,
    loss_rules.context_unused,
    loss_rules.loss_rising,
    loss_rules.overfitting,
    loss_rules.validation_above_uniform,
    probe_rules.exploding_gradients,
    probe_rules.vanishing_gradients,
    probe_rules.saturated_gates,
    probe_rules.saturated_activations,
    probe_rules.dead_units,
    probe_rules.frozen_parameters,
    loss_rules.repetitive_samples,
]


def diagnose(events: Sequence[Mapping[str, Any]]) -> list[Diagnosis]:
    """What is wrong with the run at its last event, faults before warnings; nothing for a healthy or empty log."""
    history = History()
    for event in events:
        history.add(event)
    return examine(history)


def examine(history: History) -> list[Diagnosis]:
    """What every rule finds, faults before warnings."""
    found = [diagnosis for rule in RULES if (diagnosis := rule(history))]
    return sorted(found, key=lambda diagnosis: diagnosis.severity != "fault")


class Watcher:
    """Watches a run while it goes on; what an event costs does not grow with the log."""

    def __init__(self) -> None:
        self.history = History()
        self.told: set[tuple[str, Severity]] = set()

    def see(self, event: Mapping[str, Any]) -> list[Diagnosis]:
        """What is wrong now and was not told before; a warning that became a fault is told again."""
        self.history.add(event)
        new = [found for found in examine(self.history) if (found.name, found.severity) not in self.told]
        self.told |= {(found.name, found.severity) for found in new}
        return new
