"""The peers' side of the streaming benchmark: `python -m ostinato.bench.stream_peers SPEC`, driven as serve.py says.

Engines: onnxruntime with float32 weights, onnxruntime with int8 weights (`quantize_dynamic`), PyTorch eager.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ostinato.bench.serve import Channel, time_steps
from ostinato.bench.stream_case import StreamCase, tokens, weights
from ostinato.bench.stream_check import Read, alone, loss


def onnxruntime_reader(case: StreamCase, quantised: bool, threads: int) -> Read:
    """A session of onnxruntime, fed with the states it gave."""
    import onnxruntime

    from ostinato.bench.stream_onnx import input_names, save_step

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "step.onnx"
        save_step(path, case)
        if quantised:
            path = smaller(path)
        session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    shape = 1, case.sessions, case.hidden
    state = {name: np.zeros(shape, np.float32) for name in input_names(case)}

    def read(words: Any) -> Any:
        log_probs, *after = session.run(None, {"tokens": words, **state})
        state.update(zip(state, after, strict=True))
        return log_probs

    return read


def smaller(path: Path) -> Path:
    """The graph with weights in int8, what they multiply rounded as it comes."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = path.with_name("int8.onnx")
    quantize_dynamic(path, target, weight_type=QuantType.QInt8)
    return target


def torch_reader(case: StreamCase, threads: int) -> Read:
    """nn.LSTM between an embedding and a linear layer, called eagerly."""
    import torch
    from torch import nn

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    arrays = {name: torch.from_numpy(array) for name, array in weights(case).items()}
    lstm = nn.LSTM(case.hidden, case.hidden, case.layers).eval()
    for layer in range(case.layers):
        names = {"weight_ih": "from_input.weight", "weight_hh": "from_hidden.weight", "bias_ih": "from_input.bias"}
        for theirs, ours in names.items():
            getattr(lstm, f"{theirs}_l{layer}").copy_(arrays[f"stack.layers.{layer}.{ours}"])
        getattr(lstm, f"bias_hh_l{layer}").zero_()
    words_in, words_out = arrays["embedding.weight"], arrays["embedding.weight"][: case.vocabulary]
    state = (torch.zeros(case.layers, case.sessions, case.hidden),) * 2

    def read(words: Any) -> Any:
        nonlocal state
        outputs, state = lstm(nn.functional.embedding(torch.from_numpy(words), words_in)[None], state)
        return torch.log_softmax(nn.functional.linear(outputs[0], words_out, arrays["head.bias"]), dim=-1).numpy()

    return read


def reader(engine: str, case: StreamCase, threads: int) -> Read:
    """The peer of that name, which has read nothing."""
    if engine == "torch":
        return torch_reader(case, threads)
    return onnxruntime_reader(case, engine == "onnxruntime-int8", threads)


def serve(case: StreamCase, engine: str, threads: int) -> None:
    """Step in blocks."""
    channel, words = Channel(), tokens(case)
    read = reader(engine, alone(case), threads)
    facts = loss(case, read)
    if case != alone(case):
        read = reader(engine, case, threads)
    for request in channel.requests():
        channel.say(time_steps(lambda number: read(words[number % len(words)]), request["seconds"]) | facts)


if __name__ == "__main__":
    spec = json.loads(sys.argv[1])
    serve(StreamCase(**spec["case"]), spec["engine"], spec["threads"])
