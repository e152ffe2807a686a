"""Where a network lives while it trains."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Literal, TypeVar

import torch

from ostinato.core.errors import ConfigError
from ostinato.train.options import LoopOptions

Options = TypeVar("Options", bound=LoopOptions)


def settle(options: Options) -> Options:
    """The options with what depends on this machine decided, so that a resumed run does the same.

    Raises ConfigError if a device is asked for that is not here.
    """
    device = choose(options.device)
    precision = options.precision
    if precision == "auto":
        precision = "bf16" if has_bf16(device) else "fp32"
    cores = max(1, (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
    return replace(options, threads=options.threads or cores, precision=precision, device=device)


def choose(asked: Literal["auto", "cpu", "cuda"]) -> Literal["cpu", "cuda"]:
    """The kind of device to train on. Raises ConfigError for cuda where there is none."""
    if asked == "cpu":
        return "cpu"
    if torch.cuda.is_available():
        return "cuda"
    if asked == "cuda":
        raise ConfigError(
            "train.device cuda: torch sees no CUDA device here; give --train.device cpu or auto, or install a torch "
            "that was built for your driver"
        )
    return "cpu"


def device_of(options: LoopOptions) -> torch.device:
    """The device of this process: on a machine with several GPUs, each process has its own."""
    kind = choose(options.device)
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if kind == "cuda" else torch.device("cpu")


def has_bf16(device: Literal["cpu", "cuda"]) -> bool:
    """Whether the device multiplies bfloat16 natively; where it does not, bfloat16 is slower than float32."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    ask = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    return bool(ask and ask())


def peak_memory(device: torch.device) -> int:
    """Bytes of memory used at most so far: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    import resource
    import sys

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def random_state(device: torch.device) -> torch.Tensor:
    """The state [bytes] of the generator that training on this device draws from."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_random_state(device: torch.device, state: torch.Tensor) -> None:
    """Put back what `random_state` gave."""
    state = state.clone()  # torch crashes on a tensor that does not begin its memory
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)
