"""A loss that stays near ln|V|, and which of the possible causes the other numbers point to."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TypeAlias

from ostinato.train.diagnosis import Chinese, Diagnosis, Words
from ostinato.train.history import History
from ostinato.train.probe_rules import (
    DEAD,
    DEAD_ADVICE,
    SATURATED,
    SATURATED_ADVICE,
    listed,
    most_dead,
    most_saturated,
    still_parameters,
)

PATIENCE = 200  # updates before a loss near ln|V| is a fault: measured, healthy runs leave it within 50
FEW = 100  # updates after which an ended run says nothing about its settings
NEAR = 0.02  # share of ln|V| below it that still counts as near it
EASY = 0.25  # share of the way from ln|V| to the unigram entropy, which the output bias learns alone
ABOVE = 1.1  # times ln|V|: worse than guessing by more than noise
JUMP = 0.03  # mean change of the loss from stretch to stretch, as a share of ln|V|, that is no longer noise
UNMOVED = 0.7  # gradient norm now over the first: measured 0.99 at a rate near 0, below 0.5 once it learns


def loss_near_uniform(history: History) -> Diagnosis | None:
    """The loss is no better than guessing evenly, and what the other numbers say about why."""
    if not is_near_uniform(history):
        return None
    loss, uniform = history.loss, history.uniform
    assert uniform is not None
    cause, why, advice = next(found for check in CAUSES if (found := check(history)))
    return Diagnosis(
        "loss-near-uniform",
        "fault",
        f"the training loss is {loss:.2f} nats after {history.step:,} updates, ln|V| = {uniform:.2f} is what guessing "
        f"evenly costs: {why.en}",
        advice.en,
        {"cause": cause, "loss": loss, "uniform": uniform, "step": history.step, "fall": fall(history)},
        Chinese(
            "损失接近均匀猜测",
            f"{history.step:,} 次更新之后，训练损失是 {loss:.2f} 奈特，而均匀猜测的损失就是 ln|V| = {uniform:.2f}："
            f"{why.zh}",
            advice.zh,
        ),
    )


def is_near_uniform(history: History) -> bool:
    """Whether the loss is near or above ln|V| though there was time to learn."""
    uniform = history.uniform
    if uniform is None or not history.stretches or history.diverged:
        return False
    waited = history.step >= PATIENCE and history.reports >= 3 and not history.warming_up
    gap = uniform - (uniform if history.unigram is None else history.unigram)
    return (waited or history.finished) and history.loss > uniform - max(NEAR * uniform, EASY * gap)


def fall(history: History) -> float:
    """How much lower the loss is now than in the first stretch, in nats."""
    return history.stretches[0].loss - history.loss


Cause: TypeAlias = tuple[str, Words, Words] | None  # its name, why the numbers point to it, what to do


def no_gradient_cause(history: History) -> Cause:
    if any(stretch.norm > 0 for stretch in history.stretches):
        return None
    return (
        "no-gradient",
        Words("every gradient is 0", "所有梯度都是 0"),
        Words(
            "check that the loss depends on the parameters: no detach, no empty mask",
            "检查损失是否依赖于参数：没有 detach，掩码不为空",
        ),
    )


def frozen_cause(history: History) -> Cause:
    names = still_parameters(history)
    if not names:
        return None
    named = listed(names)
    return "frozen-parameters", Words(f"no training of {named.en}", f"没有参与训练的是{named.zh}"), FROZEN_ADVICE


def dead_cause(history: History) -> Cause:
    if not (worst := most_dead(history)) or worst[0] < DEAD:
        return None
    share, where = worst
    why = Words(f"{share:.0%} of the units of {where.en} never fire", f"{where.zh}有 {share:.0%} 的单元从不激活")
    return "dead-units", why, DEAD_ADVICE


def too_large_cause(history: History) -> Cause:
    uniform, losses = history.uniform or 0.0, [stretch.loss for stretch in history.stretches]
    jump = sum(abs(b - a) for a, b in pairwise(losses)) / max(1, len(losses) - 1)
    if history.loss < ABOVE * uniform and jump < JUMP * uniform:
        return None
    why = Words(
        f"it jumps by {jump:.2f} nats from report to report at a learning rate of {peak_rate(history):g}, too large",
        f"两次报告之间平均跳动 {jump:.2f} 奈特，学习率 {peak_rate(history):g} 太大了",
    )
    advice = Words(
        "divide --train.learning-rate by 10, or warm up with --train.warmup",
        "把 --train.learning-rate 除以 10，或用 --train.warmup 预热",
    )
    return "learning-rate-too-large", why, advice


def saturated_cause(history: History) -> Cause:
    if not (worst := most_saturated(history)) or worst[0] < SATURATED:
        return None
    share, where = worst
    why = Words(
        f"{share:.0%} of the values of {where.en} are at the ends of their range",
        f"{where.zh}有 {share:.0%} 的取值处在两端",
    )
    return "saturated", why, SATURATED_ADVICE


def few_updates_cause(history: History) -> Cause:
    if history.step >= FEW:
        return None
    why = Words(f"{history.step} updates are too few to tell more", f"{history.step} 次更新太少，看不出更多")
    return "too-few-updates", why, Words("train longer: more --train.epochs", "训练更久：增大 --train.epochs")


def too_small_cause(history: History) -> Cause:
    first, now = history.stretches[0].norm, history.recent[-1].norm
    has_gap = history.unigram is not None and history.unigram < (1 - NEAR) * (history.uniform or 0.0)
    if not has_gap and now < UNMOVED * first:
        return None
    why = Words(
        f"the loss fell by only {fall(history):.3f} nats and the gradient norm is still {now:.2g} (first {first:.2g}), "
        f"so the parameters hardly move at a learning rate of {peak_rate(history):.1g}, too small",
        f"损失只下降了 {fall(history):.3f} 奈特，梯度范数仍有 {now:.2g}（起初 {first:.2g}），可见参数几乎没有移动，"
        f"学习率 {peak_rate(history):.1g} 太小了",
    )
    return (
        "learning-rate-too-small",
        why,
        Words("multiply --train.learning-rate by 10", "把 --train.learning-rate 乘以 10"),
    )


def targets_cause(history: History) -> Cause:
    why = Words(
        f"the gradient norm fell to {history.recent[-1].norm:.2g}, so nothing in the inputs tells the targets",
        f"梯度范数降到了 {history.recent[-1].norm:.2g}，可见输入里没有任何东西能说明目标",
    )
    return "targets", why, TARGETS_ADVICE


CAUSES: list[Callable[[History], Cause]] = [
    no_gradient_cause,
    frozen_cause,
    dead_cause,
    too_large_cause,
    saturated_cause,
    few_updates_cause,
    too_small_cause,
    targets_cause,
]
FROZEN_ADVICE = Words(
    "set requires_grad to True, and check that the loss depends on them",
    "把 requires_grad 设为 True，并检查损失是否依赖于它们",
)
TARGETS_ADVICE = Words(
    "check that the target at each place is the input at the next one, in the same row and document",
    "检查每个位置的目标是否就是同一行、同一文档里下一个位置的输入",
)


def peak_rate(history: History) -> float:
    """The largest learning rate so far."""
    return max(stretch.rate for stretch in history.stretches)
