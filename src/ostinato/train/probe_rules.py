"""What is wrong inside a network, by its last probe: gradients, gates, units, frozen parameters.

"Measured" below means: LSTM, GRU, tanh and relu RNN and NPLM of 64-128 units, AdamW and SGD, 200-1,000 updates
on characters (tiny Shakespeare) and words (State of the Union), against the same runs broken on purpose.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ostinato.train.diagnosis import Chinese, Diagnosis, Evidence, Words
from ostinato.train.history import History

EXPLODED = 50.0  # gradient norm of a mean loss: measured 0.1-4 when healthy, 50-1e17 when broken
GROWTH = 10.0  # gradient at an older step over the newest: measured below 1 when healthy, 13-1e16 when broken
BACK = 3  # steps back at which a gradient through time must still be alive
FADED = 1e-4  # gradient BACK steps ago over the newest: measured 2e-2-6e-1 when healthy, below 1e-5 when broken
SHALLOW = 1e-4  # gradient of a parameter over the largest: measured 8e-3 and more when healthy, 2e-5 when too deep

SATURATED = 0.9  # share of a gate's values at the ends: up to 0.84 early in healthy word models, 0.95-1 when broken
DEAD = 0.4  # share of relu units that never fire: measured up to 0.01 when healthy
DEAD_LAYER = 0.9  # share at which a layer passes nothing on
DEAD_ADVICE = Words(
    "use a smaller learning rate or another activation, and do not start biases far below 0",
    "用更小的学习率或别的激活函数，偏置的初值不要远低于 0",
)
SATURATED_ADVICE = Words(
    "start with smaller weights, use a smaller learning rate, or --train.weight-decay",
    "用更小的初始权重、更小的学习率，或者 --train.weight-decay",
)


def exploding_gradients(history: History) -> Diagnosis | None:
    """Gradients too large: the norm in most of the last reports, or growing from step to step back in time."""
    norms = sorted(stretch.norm for stretch in history.recent)
    norm = norms[(len(norms) - 1) // 2] if norms else 0.0  # the (lower) median: one spike is what clipping is for
    growth, layer, back = max(growths(history), default=(0.0, 0, 0))
    if norm <= EXPLODED and growth <= GROWTH:
        return None
    clipped = history.clipped / max(1, history.reports)
    parts = []
    if norm > EXPLODED:
        after = history.recent[-1].clipped
        en = f"the gradient norm is {norm:.3g} ({after:.3g} after clipping)"
        parts.append(Words(en, f"梯度范数是 {norm:.3g}（裁剪后 {after:.3g}）"))
    if growth > GROWTH:
        en = f"{back} steps back in time the gradient of layer {layer + 1} is {growth:.3g} times the newest"
        parts.append(Words(en, f"往回 {back} 步，第 {layer + 1} 层的梯度是最新一步的 {growth:.3g} 倍"))
    evidence: Evidence = {"gradient_norm": norm, "clipped_share": clipped, "growth": growth, "steps_back": back}
    if largest := largest_gradient(history):
        parts.append(Words(f"the largest gradient is in {largest[0]}", f"最大的梯度在 {largest[0]}"))
        evidence["parameter"] = largest[0]
    return Diagnosis(
        "exploding-gradients",
        "fault" if norm > EXPLODED else "warning",
        f"{'; '.join(part.en for part in parts)}; {clipped:.0%} of the reports were clipped",
        "clip with --train.clip norm, start with smaller recurrent weights (--model.recurrent-init orthogonal), "
        "lower the learning rate, or take tanh units, an LSTM or a GRU",
        evidence,
        Chinese(
            "梯度爆炸",
            f"{'；'.join(part.zh for part in parts)}；{clipped:.0%} 的报告经过裁剪",
            "用 --train.clip norm 裁剪，用更小的循环初始权重（--model.recurrent-init orthogonal），降低学习率，或改用 "
            "tanh 单元、LSTM 或 GRU",
        ),
    )


def growths(history: History) -> Iterator[tuple[float, int, int]]:
    """Largest gradient over the newest, for each layer: the ratio, the layer, how many steps back."""
    for layer, norms in enumerate(history.probe.get("through_time", [])):
        if norms and norms[-1] > 0:
            place = max(range(len(norms)), key=norms.__getitem__)
            yield norms[place] / norms[-1], layer, len(norms) - 1 - place


def largest_gradient(history: History) -> tuple[str, float] | None:
    """The parameter with the largest gradient at the last probe, and its norm."""
    gradients = history.probe.get("gradients", {})
    return max(gradients.items(), key=lambda item: item[1]) if gradients else None


RECURRENT = re.compile(r"steps back|\bstack\.|\blayers\.|\bembedding\.")
"""What stands in or below recurrent layers, by its name."""

RECURRENT_ADVICE = Words(
    "take an LSTM or GRU, --model.recurrent-init orthogonal, fewer layers or --model.residual, and look for "
    "saturated units",
    "改用 LSTM 或 GRU、--model.recurrent-init orthogonal、更少的层数或 --model.residual，并检查单元是否饱和",
)
OTHER_ADVICE = Words(
    "look for saturated units, masks or a normalisation between it and the loss; a bias that is normalised away learns "
    "nothing and need not",
    "检查它与损失之间有没有饱和的单元、掩码或归一化；被归一化抵消的偏置学不到东西，也不需要学",
)


def vanishing_gradients(history: History) -> Diagnosis | None:
    """Gradients that do not arrive: a few steps back in time, or in a parameter far from the loss."""
    found = [*faded_steps(history), *faded_parameters(history)]
    if not found:
        return None
    ratio, what, beside = min(found)
    advice = RECURRENT_ADVICE if RECURRENT.search(what.en) else OTHER_ADVICE
    return Diagnosis(
        "vanishing-gradients",
        "warning",
        f"the gradient of {what.en} is {ratio:.1g} times that of {beside.en}: next to nothing is learnt there",
        advice.en,
        {"where": what.en, "ratio": ratio},
        Chinese(
            "梯度消失",
            f"{what.zh}的梯度只有{beside.zh}的 {ratio:.1g} 倍：那里几乎学不到东西".lstrip(),
            advice.zh,
        ),
    )


def faded_steps(history: History) -> Iterator[tuple[float, Words, Words]]:
    """Layers whose gradient is gone BACK steps before the newest; a layer of dead units is told elsewhere."""
    for layer, norms in enumerate(history.probe.get("through_time", [])):
        if len(norms) <= BACK or norms[-1] <= 0 or dead_share(history, layer) >= DEAD_LAYER:
            continue
        ratio = norms[-1 - BACK] / norms[-1]
        if ratio < FADED:
            where = Words(f"layer {layer + 1} {BACK} steps back in time", f"第 {layer + 1} 层往回 {BACK} 步处")
            yield ratio, where, Words("the newest step", "最新一步")


def faded_parameters(history: History) -> Iterator[tuple[float, Words, Words]]:
    """Parameters whose gradient is not 0 but next to nothing beside the largest."""
    largest = largest_gradient(history)
    for name, norm in history.probe.get("gradients", {}).items():
        if largest and 0 < norm < SHALLOW * largest[1]:
            yield norm / largest[1], Words(name, f" {name} "), Words(largest[0], f" {largest[0]} ")


def saturated_gates(history: History) -> Diagnosis | None:
    """Gates at 0 or 1: their derivative is next to nothing."""
    return _saturated("saturated-gates", "门饱和", most_saturated(history, units=False), Words("0 or 1", "0 或 1"))


def saturated_activations(history: History) -> Diagnosis | None:
    """Tanh units beyond 0.99: their derivative is next to nothing."""
    worst = most_saturated(history, units=True)
    return _saturated("saturated-activations", "激活值饱和", worst, Words("-1 or 1", "-1 或 1"))


def _saturated(name: str, name_zh: str, worst: tuple[float, Words] | None, ends: Words) -> Diagnosis | None:
    if worst is None or worst[0] < SATURATED:
        return None
    share, where = worst
    finding = f"{share:.0%} of the values of the {where.en} are within 0.01 of {ends.en}"
    chinese = Chinese(name_zh, f"{where.zh}有 {share:.0%} 的取值离 {ends.zh} 不到 0.01", SATURATED_ADVICE.zh)
    return Diagnosis(name, "warning", finding, SATURATED_ADVICE.en, {"where": where.en, "share": share}, chinese)


UNITS = ("candidate", "hidden")  # activations in (-1, 1), or relu; all others are gates in (0, 1)
GATES = {
    "hidden": "隐藏状态", "candidate": "候选值", "input": "输入门", "forget": "遗忘门", "output": "输出门",
    "reset": "重置门", "update": "更新门", "keep": "保留比例", "write": "写入比例",
}  # fmt: skip
"""What the lab's pages call units and gates in Chinese."""


def activations(history: History) -> Iterator[tuple[Words, str, int, dict[str, float]]]:
    """Name to show, gate, layer and shares of every activation of the last probe."""
    for layer, gates in enumerate(history.probe.get("activations", [])):
        for gate, shares in gates.items():
            en = f"{gate} {'units' if gate in UNITS else 'gates'} of layer {layer + 1}"
            yield Words(en, f"第 {layer + 1} 层的{GATES.get(gate, gate)}"), gate, layer, shares


def most_saturated(history: History, units: bool | None = None) -> tuple[float, Words] | None:
    """Share at the ends and name to show of the most saturated gate, tanh unit (`units`), or either (None)."""
    shares = [
        (share["low"] + share["high"], where)
        for where, gate, _, share in activations(history)
        if units is None or (gate in UNITS) == units
    ]
    return max(shares, default=None)


def most_dead(history: History) -> tuple[float, Words] | None:
    """Share of dead units and name to show of the deadest activation."""
    return max(((shares["dead"], where) for where, _, _, shares in activations(history)), default=None)


def dead_share(history: History, layer: int) -> float:
    """The share of units of a layer that never leave 0."""
    return max((shares["dead"] for _, _, place, shares in activations(history) if place == layer), default=0.0)


def dead_units(history: History) -> Diagnosis | None:
    """Relu units that never fire: no gradient passes them."""
    worst = most_dead(history)
    if worst is None or worst[0] < DEAD:
        return None
    share, where = worst
    return Diagnosis(
        "dead-units",
        "fault" if share >= DEAD_LAYER else "warning",
        f"{share:.0%} of the {where.en} never fire",
        DEAD_ADVICE.en,
        {"where": where.en, "share": share},
        Chinese("死单元", f"{where.zh}有 {share:.0%} 的单元从不激活", DEAD_ADVICE.zh),
    )


def frozen_parameters(history: History) -> Diagnosis | None:
    """Parameters that do not train, or that no gradient reaches."""
    names = still_parameters(history)
    if not names:
        return None
    told = [name for name in names if name in history.start.get("frozen", [])]
    meant, named = told == names, listed(names)
    why = Words("without any gradient", "没有任何梯度")
    advice = Words("check that the loss depends on them", "检查损失是否依赖于它们")
    if meant:
        why = Words("set not to train (requires_grad is False)", "被设为不训练（requires_grad 是 False）")
        advice = Words("set requires_grad to True unless this is meant", "如果不是有意如此，把 requires_grad 设为 True")
    return Diagnosis(
        "frozen-parameters",
        "warning" if meant else "fault",
        f"{named.en}: {why.en}",
        advice.en,
        {"parameters": ", ".join(names), "count": len(names)},
        Chinese("参数不训练", f"{named.zh}：{why.zh}", advice.zh),
    )


def still_parameters(history: History) -> list[str]:
    """Frozen parameters and those whose gradient is 0 at every probe, if no dead or saturated layer explains it.

    Those that an option holds are none of them.
    """
    names, held = list(history.start.get("frozen", [])), history.start.get("held", [])
    dead, full = most_dead(history), most_saturated(history)
    if (dead and dead[0] >= DEAD_LAYER) or (full and full[0] >= SATURATED):
        return names
    return names + sorted((history.silent or set()) - {*names, *held})


def listed(names: list[str]) -> Words:
    """A few names in words."""
    first, more = names[:3], len(names) - 3
    zh = f"参数 {'、'.join(first)}"
    if more > 0:
        return Words(f"{', '.join(first)} and {more} more parameters", f"{zh} 等（另有 {more} 个）")
    return Words(f"parameter{'s' * (len(names) > 1)} {', '.join(names)}", zh)
