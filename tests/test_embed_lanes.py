"""Narrower registers give the same vectors, to rounding."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ostinato.embed.options import VectorOptions
from ostinato.embed.training import train_vectors

TEXT = [" ".join(f"w{number}" for number in np.random.default_rng(line).integers(0, 30, 12)) for line in range(60)]
OPTIONS = VectorOptions(dimensions=20, window=3, epochs=2, threads=1, sample=0.01)

CHILD = """
import sys
import numpy as np
from tests.test_embed_lanes import trained
from ostinato.kernels.rows import LANES
np.save(sys.argv[1], trained())
print(LANES)
"""


def trained() -> np.ndarray:
    return np.array(train_vectors(TEXT, OPTIONS, min_count=1).vectors.array)


@pytest.mark.parametrize("lanes", [8, 4])
def test_registers_of_another_width_give_the_same_vectors(lanes: int, tmp_path: Path) -> None:
    target = tmp_path / "vectors.npy"
    command = [sys.executable, "-c", CHILD, str(target)]
    root = Path(__file__).parent.parent
    environment = os.environ | {"OSTINATO_LANES": str(lanes), "PYTHONPATH": str(root)}
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(lanes)]
    np.testing.assert_allclose(np.load(target), trained(), atol=1e-6)
