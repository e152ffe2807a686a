"""Everything training needs to go on bit for bit: weights, optimiser, their mean, carried state, random numbers.

Numbers are kept by the names of parameters, so a checkpoint does not depend on how weights lie in memory, and the
carried state of all rows together, so it does not depend on how many processes share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ostinato.core.errors import FormatError
from ostinato.core.state import leaves, map_leaves
from ostinato.train.average import Average
from ostinato.train.optimise import Optimiser

Arrays = dict[str, NDArray[Any]]


def pack(
    network: nn.Module, optimiser: Optimiser, average: Average, carried: Any, random: Tensor
) -> tuple[Arrays, dict[str, Any]]:
    """The arrays of a checkpoint under `network/`, `optimiser/SLOT/`, `average/`, `carried/`, `random`, and its values.

    carried: the state of all rows; random: [processes, bytes], the generators.
    """
    flat = optimiser.flat
    arrays = {f"network/{name}": as_array(tensor) for name, tensor in network.state_dict().items()}
    for slot, numbers in optimiser.slots.items():
        arrays |= {f"optimiser/{slot}/{name}": as_array(part) for name, part in flat.views(numbers).items()}
    if average.mean is not None:
        arrays |= {f"average/{name}": as_array(part) for name, part in flat.views(average.mean).items()}
    kept = [] if carried is None else list(leaves(carried))
    arrays |= {f"carried/{place}": as_array(leaf) for place, leaf in enumerate(kept)}
    arrays["random"] = as_array(random)
    return arrays, {"carried": len(kept), "updates": optimiser.count, "averaged": average.count}


def set_weights(network: nn.Module, arrays: Mapping[str, NDArray[Any]], where: str) -> None:
    """Give a network the weights of a model file. Raises FormatError, naming `where`, if they are another's."""
    try:
        network.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
    except RuntimeError as fault:
        raise FormatError(f"{where}: the weights do not fit the network: {fault}") from None


def restore(
    arrays: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any],
    network: nn.Module,
    optimiser: Optimiser,
    average: Average,
    init_state: Callable[[int], Any],
) -> tuple[Any, Tensor]:
    """Put a checkpoint back into network, optimiser and average; return the carried state and the generators' states.

    Both stay on the processor. Raises FormatError if it was written for another network or by an older version.
    """
    if "updates" not in about:
        raise FormatError(
            "the checkpoint was written by an older Ostinato, which kept the optimiser in another form; "
            "end the training with that version, or train again"
        )
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    try:
        network.load_state_dict(below(tensors, "network/"))
        for slot, numbers in optimiser.slots.items():
            fill(optimiser.flat.views(numbers), below(tensors, f"optimiser/{slot}/"))
        if about["averaged"]:
            average.mean = torch.zeros_like(optimiser.flat.values)
            fill(optimiser.flat.views(average.mean), below(tensors, "average/"))
    except (RuntimeError, KeyError) as fault:
        raise FormatError(f"the checkpoint does not fit the configured model: {fault}") from None
    optimiser.count, average.count = about["updates"], about["averaged"]
    carried = None
    if about["carried"]:
        kept = iter([tensors[f"carried/{place}"] for place in range(about["carried"])])
        carried = map_leaves(lambda _: next(kept), init_state(1))
    return carried, tensors["random"]


def fill(views: Mapping[str, Tensor], kept: Mapping[str, Tensor]) -> None:
    """Copy every named tensor into its view."""
    for name, view in views.items():
        view.copy_(kept[name])


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name begins with `prefix`, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def as_array(tensor: Tensor) -> NDArray[Any]:
    """A copy of a tensor as an array."""
    array: NDArray[Any] = np.array(tensor.detach().cpu().numpy())
    return array
