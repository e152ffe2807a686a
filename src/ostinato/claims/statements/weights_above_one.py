"""A recurrent weight above 1 need not make gradients explode. Source: [Pascanu2013], [Saxe2014]."""

from __future__ import annotations

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Watch

STEPS = 100
UNITS_DRAWN: dict[Size, int] = {"quick": 100, "full": 1000}
HIDDEN, RADIUS, SCALE = 32, 1.3, 2.0
MATRICES: dict[Size, int] = {"quick": 4, "full": 20}


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """Products of units with w above 1, driven and left alone; gradient norms of matrices of radius 1.3, both ways."""
    import numpy as np

    from ostinato.claims.recurrences import gradient_norms, orthogonal, products

    rng = np.random.default_rng(seed)
    count = UNITS_DRAWN[size]
    w, u = rng.uniform(1.05, 3, count), rng.uniform(0.5, 2, count) * rng.choice([-1, 1], count)
    ones = np.ones((1, STEPS, count))
    driven, alone = np.abs(products(w, u, ones)), np.abs(products(w, 0 * u, ones))
    direction = np.eye(HIDDEN)[0]
    with_inputs, without = [], []
    for _ in range(MATRICES[size]):
        matrix = RADIUS * orthogonal(rng, HIDDEN)
        xs = SCALE * rng.standard_normal((4, STEPS, HIDDEN))
        with_inputs.append(gradient_norms(matrix, xs, direction))
        without.append(gradient_norms(matrix, 0 * xs, direction))
    back = np.arange(STEPS + 1)
    curves: dict[str, Points] = {
        "inputs": (back, np.median(np.concatenate(with_inputs, axis=1), axis=1)[::-1]),
        "no inputs": (back, np.median(np.concatenate(without, axis=1), axis=1)[::-1]),
    }
    numbers = {
        "driven": float(driven[0].max()),
        "alone": float((alone[0] / w**STEPS).min()),
        "matrix driven": float(np.max([norms[0] for norms in with_inputs])),
        "matrix alone": float(np.min([norms[0] for norms in without]) / RADIUS**STEPS),
    }
    return Finding(numbers, {"norms": curves})


CLAIM = add(
    Claim(
        id="weights-above-one",
        level="provable",
        statement=Text(
            "A recurrent weight, or spectral radius, above 1 is necessary for gradients to explode through tanh units, "
            "not sufficient: driven into saturation, the same weights make them vanish.",
            "循环权重（或谱半径）大于 1 是梯度经 tanh 单元爆炸的必要条件，而非充分条件：被输入推入饱和区时，"
            "同样的权重使梯度消失。",
        ),
        misreading=Text(
            "“w > 1 explodes, w < 1 vanishes.” Only the second half is a theorem. What decides is w (1 - h²) along the "
            "path, and the path depends on the inputs.",
            "“w > 1 就爆炸，w < 1 就消失。”只有后半句是定理。起决定作用的是沿轨迹的 w (1 - h²)，而轨迹取决于输入。",
        ),
        premises=Text(
            "tanh units; inputs large enough that w (1 - h²) stays below 1, which exist for every w; that there is "
            "such a case is all that is claimed.",
            "tanh 单元；输入足够大，使 w (1 - h²) 保持小于 1（对每个 w 都存在这样的输入）；论断只说这种情形存在。",
        ),
        experiment=Text(
            "The Elman cell in double precision, 100 steps. Single units with w from 1.05 to 3, with a constant input "
            "times u from 0.5 to 2 in size, and without; 32 units whose matrix is 1.3 times an orthogonal one, with "
            "normal inputs of scale 2, and without.",
            "双精度 Elman 单元，100 步。单个单元：w 从 1.05 到 3，常数输入乘以绝对值 0.5 到 2 的 u，或无输入；"
            "32 个单元：矩阵为正交矩阵的 1.3 倍，标准差为 2 的正态输入，或无输入。",
        ),
        sources=(
            Source(
                "Pascanu2013",
                Text(
                    "section 2.1: for gradients to explode it is necessary that the largest singular value of the "
                    "recurrent matrix exceeds 1/γ, γ the bound of the derivative; they say that it is not sufficient.",
                    "2.1 节：梯度爆炸的必要条件是循环矩阵的最大奇异值大于 1/γ（γ 为导数上界）；文中指出它并不充分。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "driven",
                Text("largest |product| with inputs", "有输入时 |乘积| 的最大值"),
                "ratio",
                Interval(0, 1e-6),
                Text(
                    "the fixed point of the smallest w and u has w (1 - h²) about 0.3, so the product is far below "
                    "any 100th power that could be seen",
                    "最小的 w 与 u 的不动点处 w (1 - h²) 约为 0.3，故 100 步的乘积极小",
                ),
            ),
            Quantity(
                "alone",
                Text("least product / w^100 without inputs", "无输入时 乘积 / w^100 的最小值"),
                "ratio",
                Interval(1 - 1e-9, 1 + 1e-9),
                Text(
                    "at the state 0 the slope of tanh is 1: explosion, w^100", "状态为 0 时 tanh 斜率为 1：爆炸，w^100"
                ),
            ),
            Quantity(
                "matrix driven",
                Text(
                    "largest gradient norm after 100 steps, matrices with inputs",
                    "有输入的矩阵：100 步后梯度范数最大值",
                ),
                "ratio",
                Interval(0, 1e-3),
                Text(
                    "inputs of scale 2 shrink a gradient by E ln(1 - tanh²), about -2 a step, against ln 1.3 = 0.26",
                    "标准差为 2 的输入每步使梯度对数减少约 2（E ln(1 - tanh²)），而 ln 1.3 = 0.26",
                ),
            ),
            Quantity(
                "matrix alone",
                Text(
                    "least gradient norm / 1.3^100, matrices without inputs",
                    "无输入的矩阵：梯度范数 / 1.3^100 的最小值",
                ),
                "ratio",
                Interval(1 - 1e-9, 1 + 1e-9),
                Text("an orthogonal matrix keeps lengths", "正交矩阵保持长度"),
            ),
        ),
        figures={
            "norms": Figure(
                Text("Gradient norms, spectral radius 1.3", "梯度范数，谱半径 1.3"),
                Text("steps back", "向回的步数"),
                Text("norm", "范数"),
                y_log=True,
                names={
                    "inputs": Text("inputs of scale 2", "标准差为 2 的输入"),
                    "no inputs": Text("no inputs", "无输入"),
                },
            )
        },
        measure=measure,
    )
)
