"""The step of a model as an ONNX graph: tokens and states in, log-probs and states out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.core import state as states
from ostinato.core.errors import ConfigError, MismatchError
from ostinato.core.files import atomic_path
from ostinato.core.state import State
from ostinato.stream.model import StreamModel
from ostinato.stream.symbol import Record, Symbol

OPSET, IR = 18, 8
"""Versions of the operators and of the format, old enough for runtimes of 2023."""

TOKENS, LOG_PROBS, NEXT = "tokens", "log_probs", "next."
"""Names of the graph's inputs and outputs; NEXT comes before the name of a state that comes out."""

CLOSE = 1e-5
"""What the log-probs of another runtime may differ by, as a share of each, and in nats below one nat."""


def save_onnx(path: Path, model: StreamModel, text: Mapping[str, Any], about: Mapping[str, Any]) -> float | None:
    """Write the step of a model as an ONNX file, atomically, once onnxruntime has stepped it like the model.

    Returns what `largest_difference` found, None without onnxruntime.

    Inputs: `tokens` int64 [batch], and each array of the state under its name, such as `layers.0.hidden`, zeros in
    the beginning unless the metadata says otherwise. Outputs: `log_probs` float32 [batch, outputs] in nats, and the
    new states as `next.NAME`. The metadata `ostinato` is JSON: `vocabulary` (all pieces by id), `text` (how text is
    cut), `start` (the id to begin with), `init` (what states that are not zero begin with), and `about`.
    Raises ConfigError without the package onnx, MismatchError if onnxruntime finds other numbers, StorageError.
    """
    try:
        import onnx
    except ImportError:
        raise ConfigError("writing ONNX needs the package onnx: pip install 'ostinato[onnx]'") from None
    written = graph(model)
    made = onnx.helper.make_model(written, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR)
    made.producer_name = "ostinato"
    facts = {
        "vocabulary": model.vocabulary.pieces,
        "start": model.vocabulary.start,
        "text": dict(text),
        "init": {name: leaf[0].tolist() for name, leaf in named(model.init_state(1)) if leaf.any()},
        "about": {**about, "model": model.kind, "options": dict(model.options)},
    }
    onnx.helper.set_model_props(made, {"ostinato": json.dumps(facts)})
    onnx.checker.check_model(made)
    with atomic_path(path) as temporary:
        temporary.write_bytes(made.SerializeToString())
        return largest_difference(temporary, model)


def graph(model: StreamModel) -> Any:
    """The step of a model as an onnx.GraphProto: `step` run on symbols, and its record written down."""
    from onnx import TensorProto, helper, numpy_helper

    record, like = Record(), model.init_state(1)
    names = iter([name for name, _ in named(like)])
    before = states.map_leaves(lambda _: Symbol(record, next(names)), like)
    features, after = model.network.step(before, Symbol(record, TOKENS))
    log_probs = model.head.log_probs(features)
    made = {LOG_PROBS: log_probs.name} | {NEXT + name: symbol.name for name, symbol in named(after)}
    nodes = [
        helper.make_node(one.kind, one.inputs, one.outputs, f"node_{place}", **one.attributes)
        for place, one in enumerate(record.operations)
    ]
    nodes += [helper.make_node("Identity", [inner], [outer]) for outer, inner in made.items()]
    kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}

    def value(name: str, leaf: Any) -> Any:
        return helper.make_tensor_value_info(name, kinds[leaf.dtype], ["batch", *leaf.shape[1:]])

    inputs = [helper.make_tensor_value_info(TOKENS, TensorProto.INT64, ["batch"])]
    inputs += [value(name, leaf) for name, leaf in named(like)]
    outputs = [helper.make_tensor_value_info(LOG_PROBS, TensorProto.FLOAT, ["batch", model.outputs])]
    outputs += [value(NEXT + name, leaf) for name, leaf in named(like)]
    constants = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in record.constants.items()]
    return helper.make_graph(nodes, "step", inputs, outputs, constants)


def named(state: State, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The arrays of a state with their names, such as `layers.0.hidden`, in order."""
    names = getattr(state, "_fields", range(len(state)))
    for name, part in zip(names, state, strict=True):
        if isinstance(part, tuple):
            yield from named(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", part


def largest_difference(path: Path, model: StreamModel) -> float | None:
    """How far, in nats, onnxruntime's log-probs are from the model's at most, over a few steps of one and three rows.

    None if onnxruntime is not installed. Raises MismatchError if they differ by more than rounding, see CLOSE.
    """
    try:
        import onnxruntime
    except ImportError:
        return None
    session, worst, close = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]), 0.0, True
    chance = np.random.default_rng(0)
    for rows in (1, 3):
        state = model.init_state(rows)
        theirs = dict(named(state))
        tokens = np.full(rows, model.vocabulary.start)
        for _ in range(4):
            wanted, state = model.step(state, tokens)
            log_probs, *after = session.run(None, {TOKENS: tokens, **theirs})
            theirs = dict(zip(theirs, after, strict=True))
            worst = max(worst, float(np.abs(log_probs - wanted).max()))
            close = close and np.allclose(log_probs, wanted, CLOSE, CLOSE)
            tokens = chance.integers(0, model.outputs, rows)
    if not close:
        raise MismatchError(
            f"onnxruntime {onnxruntime.__version__} finds log-probs up to {worst:.2g} nats away from ours; nothing was "
            "written, try another version of it"
        )
    return worst
