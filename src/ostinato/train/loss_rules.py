"""What is wrong by the losses and the samples of a run. "Measured" is explained in `probe_rules`."""

from __future__ import annotations

import math

from ostinato.train.diagnosis import Chinese, Diagnosis, Evidence, Words
from ostinato.train.history import History, mean_loss
from ostinato.train.near_uniform import NEAR, TARGETS_ADVICE, is_near_uniform

PLATEAU = 1000  # updates at the unigram entropy before it is told: measured, word models stay there for 150-300
AROUND = (0.97, 1.05)  # times the unigram entropy: below it context was used, above it is still being learnt
STILL = 0.01  # fall of the loss, as a share, between the last two quarters of a run that has stopped learning

OVERFIT = 0.03  # nats that validation must rise and training fall: 3% of perplexity, above the noise between epochs
WORSE = 2  # validations in a row above the best: one may be chance
RISE = 0.5  # nats that training rises above its lowest: parts of a corpus differ by up to 0.2

REPEATED = 0.5  # share of 4-grams seen before: up to 0.36 in 1,000 characters of real English, 0.24 in words
DISTINCT = 0.1  # distinct-2: 0.26 and more in the same real texts
PIECES = 20  # below so many outputs 4-grams repeat by necessity

KINDS = {"loss": "损失", "gradient": "梯度"}  # what may become NaN or Inf


def not_finite(history: History) -> Diagnosis | None:
    """NaN or Inf ended the run: in which update, in which batch, in which parameter first."""
    event = history.diverged
    if event is None:
        return None
    parameter = event.get("parameter", "none")
    where = "" if parameter == "none" else f", first in {parameter}"
    saved = ", and what was saved before is good" if event.get("checkpoint") else ""
    update = event["step"] + 1
    evidence: Evidence = {"update": update, "epoch": event.get("epoch", 0) + 1, "batch": event.get("batch", 0) + 1}
    evidence |= {"what": event["what"], "parameter": parameter, "value": str(event["value"])}
    if history.recent:
        evidence["gradient_norm"] = history.recent[-1].norm
    where_zh = "" if parameter == "none" else f"，最先出现在 {parameter}"
    advice = Words("look for NaN or Inf in the first weights and the data", "检查初始权重和数据里有没有 NaN 或 Inf")
    if update > 1:
        advice = Words(
            "train again with a smaller --train.learning-rate, --train.clip norm or a smaller --train.clip-at",
            "用更小的 --train.learning-rate、--train.clip norm 或更小的 --train.clip-at 重新训练",
        )
    return Diagnosis(
        "not-finite",
        "fault",
        f"the {event['what']} became {event['value']} in update {update:,} (epoch {evidence['epoch']}, batch "
        f"{evidence['batch']}){where}; training stopped{saved}",
        advice.en,
        evidence,
        Chinese(
            "出现非有限数",
            f"{KINDS.get(event['what'], event['what'])}在第 {update:,} 次更新（第 {evidence['epoch']} 轮，第 "
            f"{evidence['batch']} 批）变成了 {event['value']}{where_zh}；训练已停止"
            f"{'，此前保存的仍然可用' if saved else ''}",
            advice.zh,
        ),
    )


def context_unused(history: History) -> Diagnosis | None:
    """The loss has stopped at the entropy of single words: as good as a model that reads nothing."""
    unigram, parts = history.unigram, history.stretches
    if unigram is None or len(parts) < 4 or is_near_uniform(history):
        return None
    quarter = len(parts) // 4
    before, now = mean_loss(parts[-2 * quarter : -quarter]), mean_loss(parts[-quarter:])
    waited = history.finished or history.step >= PLATEAU
    if not (waited and AROUND[0] * unigram < now < AROUND[1] * unigram and abs(before - now) < STILL * before):
        return None
    if history.last is not None and history.last.valid < AROUND[0] * unigram:
        return None  # dropout can keep the training loss up
    advice = Words(
        f"{TARGETS_ADVICE.en}; if it is, change the learning rate", f"{TARGETS_ADVICE.zh}；若确实如此，换一个学习率"
    )
    if history.step < PLATEAU:
        advice = Words(
            "train longer first: word models stay here for some hundred updates",
            "先多训练一会儿：词模型会在这里停留几百次更新",
        )
    return Diagnosis(
        "context-unused",
        "warning",
        f"after {history.step:,} updates the training loss stays at {now:.2f} nats, the entropy of single tokens "
        f"without context ({unigram:.2f}), though the gradient norm is {history.recent[-1].norm:.2g}: the context "
        "is not used",
        advice.en,
        {"loss": now, "unigram_nats": unigram, "fall": before - now, "gradient_norm": history.recent[-1].norm},
        Chinese(
            "没有用到上文",
            f"{history.step:,} 次更新之后，训练损失停在 {now:.2f} 奈特，即不看上文时单个词元的熵（{unigram:.2f}），"
            f"而梯度范数仍有 {history.recent[-1].norm:.2g}：上文没有用上",
            advice.zh,
        ),
    )


def loss_rising(history: History) -> Diagnosis | None:
    """The training loss has gone up again and stays there."""
    if len(history.stretches) < 3 or history.diverged or is_near_uniform(history):
        return None
    lowest = min(history.stretches, key=lambda stretch: stretch.loss)
    now = min(stretch.loss for stretch in [*history.recent, history.stretches[-1]])
    if len(history.recent) < 3 or now - lowest.loss < RISE:
        return None
    return Diagnosis(
        "loss-rising",
        "fault",
        f"the training loss rose from {lowest.loss:.2f} nats at step {lowest.step:,} to {now:.2f} or more",
        "train again with a smaller --train.learning-rate or --train.clip-at; the best weights so far are kept",
        {"lowest": lowest.loss, "lowest_step": lowest.step, "loss": now, "rise": now - lowest.loss},
        Chinese(
            "损失回升",
            f"训练损失从第 {lowest.step:,} 步的 {lowest.loss:.2f} 奈特升到 {now:.2f} 或更高",
            "用更小的 --train.learning-rate 或 --train.clip-at 重新训练；到目前为止最好的权重已保留",
        ),
    )


def overfitting(history: History) -> Diagnosis | None:
    """Validation rises while training falls: from which step, by how much."""
    best, last = history.best, history.last
    if best is None or last is None or history.worse < WORSE:
        return None
    rise, gain = last.valid - best.valid, best.train - last.train
    if rise < OVERFIT or gain < OVERFIT:
        return None
    return Diagnosis(
        "overfitting",
        "warning",
        f"from step {best.step:,} to {last.step:,} the validation loss rose by {rise:.2f} nats ({best.valid:.2f} to "
        f"{last.valid:.2f}) while the training loss fell by {gain:.2f} ({best.train:.2f} to {last.train:.2f})",
        "stop early with --train.patience 2, raise --model.dropout, or make the model smaller; the best weights "
        "are kept",
        {"best_step": best.step, "step": last.step, "rise": rise, "fall": gain, "valid_loss": last.valid},
        Chinese(
            "过拟合",
            f"从第 {best.step:,} 步到第 {last.step:,} 步，验证损失上升了 {rise:.2f} 奈特（{best.valid:.2f} 到 "
            f"{last.valid:.2f}），训练损失却下降了 {gain:.2f}（{best.train:.2f} 到 {last.train:.2f}）",
            "用 --train.patience 2 提前停止，增大 --model.dropout，或者把模型改小；最好的权重已保留",
        ),
    )


def validation_above_uniform(history: History) -> Diagnosis | None:
    """The network learns its training text and yet predicts validation worse than guessing evenly."""
    uniform, last = history.uniform, history.last
    if uniform is None or last is None or overfitting(history) or is_near_uniform(history):
        return None
    if last.valid < (1 + NEAR) * uniform or last.train > (1 - NEAR) * uniform:
        return None
    return Diagnosis(
        "validation-above-uniform",
        "fault",
        f"the validation loss is {last.valid:.2f} nats, above ln|V| = {uniform:.2f}, while the training loss is "
        f"{last.train:.2f}",
        "check that both texts were prepared in the same way; a recurrence that grows does this too: "
        "lower the learning rate or take an LSTM or GRU",
        {"valid_loss": last.valid, "loss": last.train, "uniform": uniform, "step": last.step},
        Chinese(
            "验证损失高于均匀猜测",
            f"验证损失是 {last.valid:.2f} 奈特，高于 ln|V| = {uniform:.2f}，而训练损失是 {last.train:.2f}",
            "检查两份文本是否以同样的方式预处理；不断放大的循环也会这样：降低学习率，或改用 LSTM 或 GRU",
        ),
    )


def repetitive_samples(history: History) -> Diagnosis | None:
    """Generated texts that go round in circles."""
    repeated, distinct = history.sample.get("repeated"), history.sample.get("distinct")
    if repeated is None or distinct is None or history.start.get("outputs", math.inf) < PIECES:
        return None
    if repeated < REPEATED and distinct > DISTINCT:
        return None
    return Diagnosis(
        "repetitive-samples",
        "warning",
        f"{repeated:.0%} of the 4-grams in the samples of step {history.sample['step']:,} came before in the same "
        f"sample, and only {distinct:.0%} of the bigrams are different",
        "sample at temperature 1 instead of greedily, forbid repeated n-grams, train longer, or look for repeated "
        "lines in the training text",
        {"repeated": repeated, "distinct": distinct, "step": history.sample["step"]},
        Chinese(
            "样例重复",
            f"第 {history.sample['step']:,} 步的样例中，{repeated:.0%} 的 4 元组在同一样例里出现过，二元组只有 "
            f"{distinct:.0%} 互不相同",
            "生成时不用贪心，而用温度 1，禁止重复的 n 元组，训练更久，或检查训练文本里有没有重复的行",
        ),
    )
