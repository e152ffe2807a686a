"""Everything training needs to go on bit for bit: weights, optimiser, carried state, random numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.core.errors import FormatError
from ostinato.core.state import leaves, map_leaves


def pack(
    network: nn.Module, optimiser: torch.optim.Optimizer, carried: Any
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays of a checkpoint under `network/`, `optimiser/`, `carried/`, `random`, and its plain values."""
    arrays = {f"network/{name}": as_array(tensor) for name, tensor in network.state_dict().items()}
    content = optimiser.state_dict()
    for number, slots in content["state"].items():
        for name, value in slots.items():
            if value is not None:
                arrays[f"optimiser/{number}/{name}"] = as_array(torch.as_tensor(value))
    kept = [] if carried is None else list(leaves(carried))
    arrays |= {f"carried/{place}": as_array(leaf) for place, leaf in enumerate(kept)}
    arrays["random"] = torch.get_rng_state().numpy().copy()
    return arrays, {"carried": len(kept)}


def restore(
    arrays: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any],
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    init_state: Callable[[int], Any],
) -> Any:
    """Put a checkpoint back into network, optimiser and the random numbers; return the carried state.

    Raises FormatError if it was written for another network.
    """
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    try:
        network.load_state_dict(below(tensors, "network/"))
    except RuntimeError as fault:
        raise FormatError(f"the checkpoint does not fit the configured model: {fault}") from None
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in below(tensors, "optimiser/").items():
        number, slot = name.split("/")
        state.setdefault(int(number), {})[slot] = tensor
    optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
    torch.set_rng_state(tensors["random"])
    if not about["carried"]:
        return None
    kept = iter([tensors[f"carried/{place}"] for place in range(about["carried"])])
    return map_leaves(lambda _: next(kept), init_state(1))


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name begins with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A copy of a tensor as an array."""
    array: NDArray[Any] = np.array(tensor.detach().cpu().numpy())
    return array
