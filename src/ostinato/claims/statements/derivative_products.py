"""The product of derivatives through a tanh unit is bounded by |w|^n. Source: [Pascanu2013], [Bengio1994]."""

from __future__ import annotations

from ostinato.claims.claim import Claim, Figure, Interval, Quantity, Size, Source, Text, add
from ostinato.claims.evidence import Finding, Points
from ostinato.core.progress import Watch

STEPS: dict[Size, int] = {"quick": 100, "full": 200}
UNITS_DRAWN, ROWS_DRAWN = 100, {"quick": 20, "full": 100}
ROUNDING = 1e-9


def measure(size: Size, seed: int, watch: Watch) -> Finding:
    """Products of many units with drawn weights and inputs, by automatic differentiation through the Elman cell."""
    import numpy as np

    from ostinato.claims.recurrences import products

    steps, rows = STEPS[size], ROWS_DRAWN[size]
    rng = np.random.default_rng(seed)
    w = rng.uniform(0.1, 2, UNITS_DRAWN) * rng.choice([-1, 1], UNITS_DRAWN)
    u = rng.uniform(-2, 2, UNITS_DRAWN)
    xs = rng.standard_normal((rows, steps, UNITS_DRAWN))
    bound = np.abs(w) ** np.arange(steps, 0, -1)[:, None, None]
    driven = np.abs(products(w, u, xs)[:-1]) / bound
    quiet = np.abs(np.abs(products(w, 0 * u, xs)[:-1]) / bound - 1)
    same = np.repeat(xs[:1, :, :1], 3, axis=2)
    lines = np.abs(products(np.full(3, 0.9), np.array([0.0, 0.3, 1.0]), same))[::-1, 0]
    x = np.arange(steps + 1)[:101]
    curves: dict[str, Points] = {"bound": (x, 0.9 ** x.astype(float))}
    curves |= {f"u = {label}": (x, lines[: len(x), place]) for place, label in enumerate(("0", "0.3", "1"))}
    return Finding({"ratio": float(driven.max()), "gap": float(quiet.max())}, {"products": curves})


CLAIM = add(
    Claim(
        id="derivative-products",
        level="provable",
        statement=Text(
            "Through n steps of h' = tanh(w h + u x), the product of derivatives is at most |w|^n, and equal to it at "
            "u = 0 from the state 0.",
            "经过 h' = tanh(w h + u x) 的 n 步，导数之积不超过 |w|^n；当 u = 0 且初始状态为 0 时取等号。",
        ),
        misreading=Text(
            "“The gradient is |w|^n.” It is a bound: inputs that move the state away from zero make the product "
            "smaller, often by many powers of ten.",
            "“梯度等于 |w|^n。”这只是上界：输入使状态偏离零时，乘积会更小，往往小许多个数量级。",
        ),
        premises=Text(
            "One unit; its non-linearity is tanh, whose derivative 1 - tanh² lies between 0 and 1 and is 1 only at 0; "
            "exact arithmetic.",
            "单个单元；非线性为 tanh，其导数 1 - tanh² 介于 0 与 1 之间，仅在 0 处等于 1；精确算术。",
        ),
        experiment=Text(
            "Units of the Elman cell with drawn w (0.1 to 2 in size), u and inputs, 100 steps and 2,000 products "
            "a seed (full: 200 and 10,000), "
            "in double precision; d h_n / d h_t for every t by automatic differentiation.",
            "Elman 单元，w（绝对值 0.1 到 2）、u 与输入随机抽取，每个种子 100 步、2,000 个乘积"
            "（完整运行 200 步、10,000 个），双精度；对每个 t 用自动微分求 d h_n / d h_t。",
        ),
        sources=(
            Source(
                "Pascanu2013",
                Text(
                    "eq. 5-7: the Jacobian of many steps is a product of matrices, bounded by a power of the largest "
                    "singular value times the bound of the derivative (1 for tanh).",
                    "式 5-7：多步的雅可比矩阵是矩阵之积，其范数以最大奇异值与导数上界（tanh 为 1）之积的幂为界。",
                ),
            ),
            Source(
                "Bengio1994",
                Text(
                    "shows that where a recurrent unit latches information robustly, these products shrink "
                    "exponentially.",
                    "证明当循环单元稳健地锁存信息时，这些乘积按指数缩小。",
                ),
            ),
        ),
        quantities=(
            Quantity(
                "ratio",
                Text("largest |product| / |w|^n", "|乘积| / |w|^n 的最大值"),
                "ratio",
                Interval(0, 1 + ROUNDING),
                Text("the bound itself, and rounding", "上界本身，外加舍入误差"),
            ),
            Quantity(
                "gap",
                Text("largest relative distance from |w|^n at u = 0", "u = 0 时与 |w|^n 的最大相对差"),
                "ratio",
                Interval(0, ROUNDING),
                Text("equality, and rounding", "取等号，外加舍入误差"),
            ),
        ),
        figures={
            "products": Figure(
                Text("Product of derivatives, w = 0.9", "导数之积，w = 0.9"),
                Text("steps", "步数"),
                Text("|product|", "|乘积|"),
                y_log=True,
                names={"bound": Text("bound |w|^n", "上界 |w|^n")},
            )
        },
        measure=measure,
    )
)
