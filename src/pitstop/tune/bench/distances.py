"""Distances: how far the second pass of a twin lies from the first, quantity by quantity.

Each is a share of what the first pass did: of a loss, of a gradient, of the way that a parameter
was moved. What is no matter of size, such as a parameter that stays where it moved, is told in
words.
"""

import math
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch import Tensor

from pitstop.core.units import count
from pitstop.tune.bench.state import Living, Snapshot
from pitstop.tune.inside.numbers import RELATIVE

SMALL = 1e-12  # beside this a number is nothing
BIAS = "bias"  # how much longer or shorter the second pass is along the first; signed
STILL = 1e-3  # of the way of all parameters together: what moves less may be rounding alone


def moved_by(tensor: Tensor, precision: str, units: int, seed: int) -> Tensor:
    """The same with each number moved up or down by units in the last place of a precision."""
    finest = RELATIVE.get(precision) or torch.finfo(getattr(torch, precision)).eps
    share = max(units * finest, torch.finfo(tensor.dtype).eps)
    drawn = torch.Generator(tensor.device).manual_seed(seed)
    signs = torch.empty_like(tensor, memory_format=torch.contiguous_format)
    signs.bernoulli_(0.5, generator=drawn).mul_(2 * share).sub_(share)
    return tensor * (1 + signs)


def of_step(
    living: Living,
    start: Snapshot,
    off: Snapshot,
    starts: Mapping[str, Tensor],
    still_share: float,
    left: Collection[int] = (),
) -> tuple[dict[str, float], str]:
    """What the second pass made of the state, against what the first one did.

    ``starts`` are the parameters with which the second pass began, where these were moved. Beside
    ``still_share`` of the whole, the gradient of a parameter is nothing. ``left`` are the modules
    whose buffers a change leaves as they are, which it says by itself.
    """
    rows: dict[str, Tensor] = {}
    sized: dict[str, Tensor] = {}
    parted: dict[str, Tensor] = {}
    still: dict[str, Tensor] = {}
    whole: list[Tensor] = []
    for name, parameter in living.parameters.items():
        here = parameter.detach()
        before, after = (_like(each.parameters[name], here) for each in (start, off))
        way = after - before
        ours = here.float() - _like(starts.get(name, start.parameters[name]), here)
        parted[f"way {name}"] = _parted(ours, way)
        rows[f"weight {name}"] = _length(here.float() - after) if not starts else way.new_zeros(())
        still[name] = torch.stack([_length(way), _length(ours)])
        whole.append(_products(way, ours, before))
        kept = off.gradients[name]
        if kept is not None and parameter.grad is not None:
            gradient = _like(kept[1], here)
            parted[f"gradient {name}"] = _parted(_like(parameter.grad, here), gradient)
            sized[f"gradient {name}"] = torch.stack([_length(gradient)] * 2)
    parted |= _of_buffers(start, off, left)
    for name in _without_gradient(sized, still_share):  # rounding alone decides where it goes
        del parted[f"way {name}"], parted[f"gradient {name}"]
    wrong, averages = _of_averages(living, start, off)
    found = _read(rows) | _beside_the_whole(_rows(averages), still_share)
    for name, (bias, noise) in _rows(parted).items():
        found |= {f"{BIAS} {name}": bias, name: noise}
    if whole:
        found |= _of_all(torch.stack([each.cpu() for each in whole]).sum(0).tolist())
    return found, wrong or _standing(still)


def of_outputs(ours: list[Tensor], null: list[Tensor]) -> tuple[dict[str, float], str]:
    """How far what a model returned is from what it returned before."""
    if [list(each.shape) for each in ours] != [list(each.shape) for each in null]:
        return {}, "its output has another shape"
    found: dict[str, float] = {}
    for number, (here, there) in enumerate(zip(ours, null, strict=True)):
        a, b = here.detach().double(), there.detach().double()
        marks = ~torch.isfinite(b)
        if not torch.equal(marks, ~torch.isfinite(a)):
            return {}, "its output is not finite in other places"
        a, b = a.masked_fill(marks, 0.0), b.masked_fill(marks, 0.0)
        found[f"output {number}"] = float(_ratio(a - b, b))
        power = float((b * b).sum())
        found[f"size of output {number}"] = abs(float((a * b).sum()) / power - 1) if power else 0.0
    return found, ""


def of_losses(ours: list[float], null: list[float]) -> tuple[dict[str, float], str]:
    """How far the losses of the two passes are apart."""
    if len(ours) != len(null):
        return {}, f"its steps have {len(ours)} losses instead of {len(null)}"
    found = {}
    for number, (a, b) in enumerate(zip(ours, null, strict=True)):
        if math.isfinite(b) and not math.isfinite(a):
            return {}, "its loss is not finite"
        size = max(abs(a), abs(b), SMALL)
        found[f"loss {number}"] = abs(a - b) / size if math.isfinite(b) else 0.0
    return found, ""


def _of_buffers(start: Snapshot, off: Snapshot, left: Collection[int]) -> dict[str, Tensor]:
    """All buffers of one name as one: a single one may hardly move, and then by rounding."""
    sums: dict[str, Tensor] = {}
    for (_, _, first), (module, name, second) in zip(start.buffers, off.buffers, strict=True):
        here = module._buffers.get(name)
        if here is None or here.shape != second.shape or id(module) in left:
            continue
        if not here.is_floating_point():
            continue
        after, before = _like(second, here).double(), _like(first, here).double()
        null, ours = after - before, here.double() - before
        pairs = (null, null), (ours - null, null), (ours - null, ours - null), (after, after)
        row = torch.stack([(a * b).sum() for a, b in pairs]).cpu()
        sums[name] = sums.get(name, torch.zeros_like(row)) + row
    return {f"buffer {name}": _of_sums(row) for name, row in sums.items()}


def _of_sums(row: Tensor) -> Tensor:
    """Bias and noise, of squares and products over many tensors."""
    power, along, apart, values = row
    size = torch.maximum(power, values * STILL**2).clamp_min(SMALL**2)
    bias = along / size
    noise = ((apart - along * along / power.clamp_min(SMALL**2)).clamp_min(0.0) / size).sqrt()
    known = torch.isfinite(power)
    return torch.stack(
        [
            torch.where(known, bias.nan_to_num(-1.0), 0.0),
            torch.where(known, noise.nan_to_num(1.0), 0.0),
        ]
    )


def _of_averages(living: Living, start: Snapshot, off: Snapshot) -> tuple[str, dict[str, Tensor]]:
    """The state of the optimizers: its averages, and the type that they have."""
    rows: dict[str, Tensor] = {}
    names = {id(each): name for name, each in living.parameters.items()}
    for place, optimizer in enumerate(living.optimizers):
        for parameter, saved in off.states[place].items():
            before = start.states[place].get(parameter, {})
            for key, value in saved.items():
                here = optimizer.state.get(parameter, {}).get(key)
                if not isinstance(value, Tensor) or not value.is_floating_point():
                    continue
                if not isinstance(here, Tensor) or here.shape != value.shape:
                    return f"the optimizer no longer keeps {key}", rows
                if here.dtype != value.dtype:
                    kinds = (str(each.dtype).removeprefix("torch.") for each in (here, value))
                    return "the optimizer keeps {} in {} instead of {}".format(key, *kinds), rows
                old = before.get(key)
                after = _like(value, here)
                way = after - _like(old, here) if isinstance(old, Tensor) else after
                size = torch.where(_length(way) > 0, _length(way), _length(after))
                apart = _length(here.float() - after)
                rows[f"{key} {names.get(id(parameter), place)}"] = torch.stack([apart, size])
    return "", rows


def _without_gradient(sized: dict[str, Tensor], share: float) -> list[str]:
    """The parameters whose gradient is next to nothing beside that of all together."""
    sizes = {name.partition(" ")[2]: size for name, (_, size) in _rows(sized).items()}
    whole = math.hypot(*filter(math.isfinite, sizes.values()))
    return [name for name, size in sizes.items() if not size >= share * whole]


def _beside_the_whole(lengths: dict[str, list[float]], share: float) -> dict[str, float]:
    """Shares of what each is; what is next to nothing beside all of its kind has no share."""
    squares: dict[str, float] = {}
    for name, (_, size) in lengths.items():
        kind = name.partition(" ")[0]
        squares[kind] = squares.get(kind, 0.0) + (size * size if math.isfinite(size) else 0.0)
    return {
        name: apart / (size + share * math.sqrt(squares[name.partition(" ")[0]]) + SMALL)
        for name, (apart, size) in lengths.items()
        if math.isfinite(size)
    }


def _of_all(sums: list[float]) -> dict[str, float]:
    """All parameters as one: what is wrong everywhere shows in this far above rounding."""
    ways, both, along, ours_along, weights = sums
    if not ways:
        return {}
    size = math.sqrt(ways) * math.sqrt(weights) + SMALL
    return {
        f"{BIAS} of all": both / ways - 1,
        "way along the weights": abs(ours_along - along) / size,
    }


def _products(way: Tensor, ours: Tensor, weights: Tensor) -> Tensor:
    pairs = (way, way), (way, ours), (way, weights), (ours, weights), (weights, weights)
    return torch.stack([(a.double() * b.double()).sum() for a, b in pairs])


def _standing(ways: dict[str, Tensor]) -> str:
    """Which parameters no longer move, though they did."""
    lengths = _rows(ways)
    whole = math.hypot(*(off for off, _ in lengths.values())) if lengths else 0.0
    lost = [name for name, (off, on) in lengths.items() if not on and off > STILL * whole]
    return f"it no longer moves {count(len(lost), 'parameter')}" if lost else ""


def _read(rows: dict[str, Tensor]) -> dict[str, float]:
    return {name: value[0] for name, value in _rows(rows).items()}


def _rows(rows: dict[str, Tensor]) -> dict[str, list[float]]:
    """All numbers at once: to ask a GPU for each of them would take long."""
    by_device: dict[Any, list[str]] = {}
    for name, each in rows.items():
        by_device.setdefault(each.device, []).append(name)
    found: dict[str, list[float]] = {}
    for names in by_device.values():
        values = torch.stack([rows[name].double().reshape(-1) for name in names]).tolist()
        found |= dict(zip(names, values, strict=True))
    return found


def _like(tensor: Tensor, here: Tensor) -> Tensor:
    return tensor.detach().to(here.device, torch.float32)


def _length(tensor: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(tensor)
    return length


def _parted(ours: Tensor, null: Tensor) -> Tensor:
    """What the second pass has of the first, less all of it; and what points elsewhere, as shares.

    Of nothing that was there before, all of it points elsewhere.
    """
    power = (null.double() * null.double()).sum()
    along = (ours.double() * null.double()).sum()
    share = torch.where(power > 0, along / power.clamp_min(SMALL**2), 1.0)
    elsewhere = _ratio(ours.double() - share * null.double(), null.double())
    bias = torch.where(torch.isfinite(power), (share - 1).nan_to_num(-1.0, 1.0, -1.0), 0.0)
    return torch.stack([bias, torch.where(torch.isfinite(power), elsewhere, 0.0)])


def _ratio(difference: Tensor, whole: Tensor) -> Tensor:
    """The share; of nothing it is 1 where there is something now.

    What was no number before tells nothing; what is none now is infinitely far off.
    """
    apart, size = _length(difference), _length(whole)
    share = torch.where(size > 0, apart / (size + SMALL), (apart > 0).to(apart))
    return torch.where(torch.isfinite(size), share.nan_to_num(math.inf, math.inf), 0.0)
