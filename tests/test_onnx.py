"""The step of a model as ONNX: onnxruntime gives the same numbers, for any batch."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install 'ostinato[onnx]'")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

from ostinato.core.errors import MismatchError  # noqa: E402
from ostinato.stream.onnx_file import largest_difference, named, save_onnx  # noqa: E402
from test_laws import NEURAL, VOCABULARY  # noqa: E402
from test_streaming import TEXT, exported  # noqa: E402


@pytest.mark.parametrize("name", NEURAL)
def test_onnxruntime_gives_the_same_numbers(name: str, tmp_path: Path) -> None:
    """Eight steps of one row and of three, states handed on by name."""
    model = exported(name)
    save_onnx(tmp_path / "m.onnx", model, TEXT, {})
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for rows in (1, 3):
        state = model.init_state(rows)
        theirs = dict(named(state))
        for tokens in np.random.default_rng(rows).integers(0, len(VOCABULARY), (8, rows)):
            wanted, state = model.step(state, tokens)
            found, *after = session.run(None, {"tokens": tokens, **theirs})
            np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-5)
            theirs = dict(zip(theirs, after, strict=True))
        for one, other in zip(theirs.values(), (leaf for _, leaf in named(state)), strict=True):
            np.testing.assert_allclose(one, other, rtol=3e-6, atol=1e-5)


def test_the_file_says_what_a_user_of_it_must_know(tmp_path: Path) -> None:
    model = exported("nplm")
    save_onnx(tmp_path / "m.onnx", model, TEXT, {"regime": "sentence"})
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    facts = json.loads(session.get_modelmeta().custom_metadata_map["ostinato"])
    assert tuple(facts["vocabulary"]) == VOCABULARY.pieces
    assert (facts["start"], facts["text"], facts["about"]["regime"]) == (VOCABULARY.start, TEXT, "sentence")
    assert facts["init"] == {"window": [VOCABULARY.start] * 2}
    assert [(one.name, one.shape) for one in session.get_inputs()] == [("tokens", ["batch"]), ("window", ["batch", 2])]
    assert [one.name for one in session.get_outputs()] == ["log_probs", "next.window"]


def test_a_tied_matrix_is_stored_once(tmp_path: Path) -> None:
    model = exported("lstm")
    save_onnx(tmp_path / "m.onnx", model, TEXT, {})
    kept = onnx.load(str(tmp_path / "m.onnx")).graph.initializer
    numbers = sum(int(np.prod(tensor.dims)) for tensor in kept if tensor.data_type == onnx.TensorProto.FLOAT)
    assert numbers == model.parameters


def test_a_file_with_other_numbers_is_told(tmp_path: Path) -> None:
    save_onnx(tmp_path / "m.onnx", exported("gru"), TEXT, {})
    difference = largest_difference(tmp_path / "m.onnx", exported("gru"))
    assert difference is not None
    assert difference < 1e-5
    with pytest.raises(MismatchError, match="nats away"):
        largest_difference(tmp_path / "m.onnx", exported("gru", "int8"))
