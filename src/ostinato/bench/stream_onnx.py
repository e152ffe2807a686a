"""The LSTM as an ONNX graph such as PyTorch's exporter makes: a step with the states going in and out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ostinato.bench.stream_case import StreamCase, weights

OPSET, IR = 17, 8
"""Versions of the operators and of the format; old, so that any runtime of these years reads them."""


def input_names(case: StreamCase) -> list[str]:
    """The states in the order in which they go in and come out: h and c of each layer."""
    return [f"{name}{layer}" for layer in range(case.layers) for name in "hc"]


def save_step(path: Path, case: StreamCase) -> None:
    """Write the step: `tokens` [sessions] and states [1, sessions, H] in, `log_probs` and the new states out."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    node, arrays = helper.make_node, onnx_weights(case)
    nodes = [node("Gather", ["embedding", "tokens"], ["x"]), node("Unsqueeze", ["x", "time"], ["y0"])]
    for layer in range(case.layers):
        reads = [f"y{layer}", f"W{layer}", f"R{layer}", f"B{layer}", "", f"h{layer}", f"c{layer}"]
        gives = [f"each{layer}", f"next_h{layer}", f"next_c{layer}"]
        nodes.append(node("LSTM", reads, gives, f"lstm{layer}", hidden_size=case.hidden))
        nodes.append(node("Squeeze", [f"each{layer}", "direction"], [f"y{layer + 1}"]))
    nodes += [
        node("Squeeze", [f"y{case.layers}", "time"], ["features"]),
        node("MatMul", ["features", "output"], ["products"]),
        node("Add", ["products", "output_bias"], ["scores"]),
        node("LogSoftmax", ["scores"], ["log_probs"], axis=-1),
    ]
    sessions, hidden = "sessions", case.hidden

    def states(prefix: str) -> list[Any]:
        shape: list[str | int | None] = [1, sessions, hidden]
        return [helper.make_tensor_value_info(prefix + name, TensorProto.FLOAT, shape) for name in input_names(case)]

    words = helper.make_tensor_value_info("tokens", TensorProto.INT64, [sessions])
    log_probs = helper.make_tensor_value_info("log_probs", TensorProto.FLOAT, [sessions, case.vocabulary])
    constants = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in arrays.items()]
    inputs, outputs = [words, *states("")], [log_probs, *states("next_")]
    graph = helper.make_graph(nodes, "step", inputs, outputs, constants)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    onnx.checker.check_model(made)
    onnx.save(made, str(path))


def onnx_weights(case: StreamCase) -> dict[str, NDArray[Any]]:
    """The arrays of the graph; ONNX has the gates in the order i, o, f, c, and two biases."""
    ours = weights(case)
    found: dict[str, NDArray[Any]] = {
        "embedding": ours["embedding.weight"][: case.vocabulary],
        "output": ours["embedding.weight"][: case.vocabulary].T,
        "output_bias": ours["head.bias"],
        "time": np.array([0]),
        "direction": np.array([1]),
    }
    for layer in range(case.layers):
        prefix = f"stack.layers.{layer}"
        found[f"W{layer}"] = reordered(ours[f"{prefix}.from_input.weight"])[None]
        found[f"R{layer}"] = reordered(ours[f"{prefix}.from_hidden.weight"])[None]
        bias = reordered(ours[f"{prefix}.from_input.bias"])
        found[f"B{layer}"] = np.concatenate([bias, np.zeros_like(bias)])[None]
    return found


def reordered(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows of the gates i, f, g, o as i, o, f, g."""
    i, f, g, o = np.split(rows, 4)
    return np.concatenate([i, o, f, g])
