"""What is looked at while a network trains: gradients by layer and by step, gates, activations.

Every event is one line of log.jsonl:

    start    step 0, outputs, parameters, train_tokens, frozen (names of parameters that do not train),
             unigram_nats (entropy of the training words counted alone, nats a token), engine and engine_reason
             (what computes the gradients, and why), processes
    report   step, epoch, tokens, seconds, loss, perplexity (training, since the last report),
             valid_loss, valid_perplexity (null unless measured at this report), gradient_norm (largest since
             the last report), clipped_norm, learning_rate, tokens_per_second
    probe    step, gradients {parameter: norm}, through_time [layer][step] (norm of d loss at the last step /
             d output at each step, the newest last), activations [layer] {gate: {low, high, mean, dead}}
    sample   step, text [..], repeated (share of 4-grams seen before), distinct (distinct-2)
    diverged step, epoch, batch, what ("loss" or "gradient"), parameter (the first that is not finite), value,
             checkpoint (the newest one, or null)
    stop     step, reason ("epochs" | "patience" | "interrupted" | "diverged"), best (lowest validation loss or
             null), best_step, seconds, peak_memory (bytes, of the GPU or of the first process)
    resume   step, damaged (names of checkpoints that could not be read), processes, engine, engine_reason

Losses are nats a token. `low` and `high` are the shares of a gate's values within 0.01 of the two ends of
its range; `dead` the share of units that never leave zero (relu).
"""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ostinato.core.errors import ConfigError
from ostinato.nn.networks import NPLM, RecurrentNetwork
from ostinato.text.batch import Batch

EDGE = 0.01  # how near to the end of its range an activation counts as saturated
ROWS, STEPS = 16, 64  # as much of a batch as a probe reads


def describe(network: nn.Module) -> dict[str, Any]:
    """What the start event says of a network: `parameters`, and the names of those that do not train: `held` because an
    option says so, which the network has in `held_parameters`, or `frozen`.
    """
    named = list(network.named_parameters())
    asked = set(getattr(network, "held_parameters", ()))
    still = [name for name, parameter in named if not parameter.requires_grad]
    return {
        "parameters": sum(parameter.numel() for _, parameter in named),
        "frozen": [name for name in still if name not in asked],
        "held": [name for name in still if name in asked],
    }


def require_tensorboard() -> None:
    """Raise ConfigError if TensorBoard is not installed."""
    if importlib.util.find_spec("tensorboard") is None:
        raise ConfigError("--tensorboard needs a package: `pip install 'ostinato[tensorboard]'`")


class Board:
    """Writes the numbers of every event for TensorBoard."""

    def __init__(self, folder: Path):
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def write(self, event: dict[str, Any]) -> None:
        """Write the numbers of an event as scalars named event/key."""
        for key, value in event.items():
            if isinstance(value, int | float) and key != "step":
                self.writer.add_scalar(f"{event['event']}/{key}", value, event["step"])
        self.writer.flush()


def gradient_norms(network: nn.Module) -> dict[str, float]:
    """The norm of every parameter's gradient, by name; a parameter without gradient has 0."""
    return {
        name: 0.0 if parameter.grad is None else float(torch.linalg.vector_norm(parameter.grad))
        for name, parameter in network.named_parameters()
    }


def first_not_finite(network: nn.Module) -> tuple[str, float] | None:
    """The parameter that is not finite first, and that number (its gradient's norm if only that overflows).

    Values are looked at from the input up, since one makes all gradients NaN; then gradients from the loss
    down, the order in which they are made.
    """
    named = list(network.named_parameters())
    sources = [(name, parameter.data) for name, parameter in named]
    sources += [(name, parameter.grad) for name, parameter in reversed(named) if parameter.grad is not None]
    for name, values in sources:
        bad = values[~torch.isfinite(values)]
        if len(bad):
            return name, float(bad[0])
        norm = float(torch.linalg.vector_norm(values))
        if not math.isfinite(norm):
            return name, norm
    return None


def probe(network: nn.Module, batch: Batch) -> dict[str, Any]:
    """Activations and the gradient through time on part of a batch, dropout off, nothing changed.

    Only networks whose outputs are their state have a gradient through time; the NPLM has one hidden layer, others
    an empty list.
    """
    was_training = network.training
    network.eval()
    try:
        if isinstance(network, RecurrentNetwork):
            return _look(network, batch)
        layers = [_hidden(network, batch)] if isinstance(network, NPLM) else []
        return {"through_time": [], "activations": layers}
    finally:
        network.train(was_training)


def _look(network: RecurrentNetwork, batch: Batch) -> dict[str, Any]:
    inputs, targets, weight = (
        torch.from_numpy(array[:ROWS, :STEPS]).to(network.embedding.weight.device)
        for array in (batch.inputs, batch.targets, batch.weight)
    )
    xs = network.embedding(inputs).detach().requires_grad_()
    features, layers = network.stack.look(network.stack.init_state(len(inputs)), xs)
    outputs = [layer.outputs for layer in layers]
    activations = [
        {name: _shares(name, [step[place] for step in seen]) for place, name in enumerate(seen[0]._fields)}
        for seen in (layer.gates for layer in layers)
    ]
    last = (weight > 0).long().cumsum(1).argmax(1)  # the last counted place of each row
    rows = torch.arange(len(inputs), device=inputs.device)
    goals = targets[rows, last]
    log_probs = network.log_probs(network.project(features[rows, last]))
    loss = -log_probs.gather(1, goals[:, None]).mean()
    if not hasattr(network.stack.cells[0].init_state(1), "hidden"):
        outputs = []  # with a state apart from the outputs nothing flows from one step's to the next's
    flat = [output for steps in outputs for output in steps]
    grads = iter(torch.autograd.grad(loss, flat) if flat else ())
    by_layer = [torch.stack([next(grads) for _ in steps], dim=1) for steps in outputs]
    return {"through_time": [_by_distance(grad, last) for grad in by_layer], "activations": activations}


def _hidden(network: NPLM, batch: Batch) -> dict[str, dict[str, float]]:
    kept: list[Tensor] = []
    hook = network.hidden.register_forward_hook(lambda layer, read, total: kept.append(torch.tanh(total)))
    try:
        inputs = torch.from_numpy(batch.inputs[:ROWS, :STEPS]).to(network.hidden.weight.device)
        with torch.no_grad():
            network.features(network.init_state(len(inputs)), inputs)
    finally:
        hook.remove()
    return {"hidden": _shares("hidden", list(kept[0].unbind(dim=1)))}


def _by_distance(grad: Tensor, last: Tensor) -> list[float]:
    """Mean norm over rows of the gradient at each distance from the last place; the newest step last."""
    norms = grad.norm(dim=2)  # [B, T]
    steps = int(last.max()) + 1
    sums = [
        [float(norms[row, int(end) - back]) for row, end in enumerate(last) if int(end) >= back]
        for back in range(steps)
    ]
    return [sum(values) / len(values) for values in reversed(sums)]


def _shares(name: str, steps: list[Tensor]) -> dict[str, float]:
    values = torch.stack(steps).detach()  # [T, B, H]
    signed = name in ("candidate", "hidden")
    floor = -1.0 if signed else 0.0
    bounded = bool(values.max() <= 1)  # a relu knows no upper end
    return {
        "low": float((values < floor + EDGE).float().mean()),
        "high": float((values > 1 - EDGE).float().mean()) if bounded else 0.0,
        "mean": float(values.mean()),
        "dead": float((values == 0).flatten(0, 1).all(dim=0).float().mean()),
    }
