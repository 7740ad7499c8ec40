"""State: all that a step of training changes, kept and put back so that the step can be repeated.

Values are copied into the tensors that are there: compiled code, CUDA graphs and buckets of
distributed training know them by their addresses.
"""

import copy
import gc
import random
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import GradScaler
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from pitstop import internals

SPARE = 3.0  # times the state must be free on the GPU, or copies of it lie in host memory
SWITCHES = {"params", "fused", "foreach", "capturable"}  # of a group: no state of the training
NUMBERS = (bool, int, float)


class Living:
    """What is alive and has a state: modules, optimizers, schedulers, scalers."""

    def __init__(self) -> None:
        self.modules: list[nn.Module] = []
        self.optimizers: list[Optimizer] = []
        self.schedulers: list[Any] = []
        self.scalers: list[GradScaler] = []
        for each in gc.get_objects():
            kind = type(each)
            for wanted, found in (
                (nn.Module, self.modules),
                (Optimizer, self.optimizers),
                (LRScheduler, self.schedulers),
                (GradScaler, self.scalers),
            ):
                if issubclass(kind, wanted):
                    found.append(each)
        self.parameters = self._named_parameters()

    def _named_parameters(self) -> dict[str, nn.Parameter]:
        """Those of optimizers first, by their numbers; then all others of modules."""
        found: dict[int, tuple[str, nn.Parameter]] = {}
        for number, optimizer in enumerate(self.optimizers):
            place = 0
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    found.setdefault(id(parameter), (f"{number}.{place}", parameter))
                    place += 1
        for number, module in enumerate(self.modules):
            for name, parameter in internals.own_parameters(module).items():
                if parameter is not None:
                    found.setdefault(id(parameter), (f"m{number}.{name}", parameter))
        return {name: each for name, each in found.values() if _is_plain(each)}

    def bytes(self) -> int:
        """How much of memory one copy takes."""
        tensors: list[Tensor] = [*self.parameters.values()]
        tensors += [each.grad for each in self.parameters.values() if each.grad is not None]
        tensors += [each for _, _, each in self.buffers()]
        tensors += [each for _, each in self.averages()]
        return sum(each.numel() * each.element_size() for each in tensors)

    def buffers(self) -> list[tuple[nn.Module, str, Tensor]]:
        """All buffers of all modules."""
        return [
            (module, name, each)
            for module in self.modules
            for name, each in internals.own_buffers(module).items()
            if each is not None and _is_plain(each)
        ]

    def averages(self) -> list[tuple[str, Tensor]]:
        """The tensors of the optimizers' states, by name."""
        names = {id(each): name for name, each in self.parameters.items()}
        return [
            (f"{names.get(id(parameter), '')}.{key}", value)
            for optimizer in self.optimizers
            for parameter, values in optimizer.state.items()
            for key, value in values.items()
            if isinstance(value, Tensor) and id(parameter) in names
        ]


class Snapshot:
    """A state that can be put back."""

    def __init__(self, living: Living, to_host: bool = False) -> None:
        self._to_host = to_host
        hold = self._hold
        self.parameters = {name: hold(each) for name, each in living.parameters.items()}
        self.gradients = {
            name: None if each.grad is None else (each.grad, hold(each.grad))
            for name, each in living.parameters.items()
        }
        self.buffers = [(module, name, hold(each)) for module, name, each in living.buffers()]
        self._numbers = [(vars(each), _numbers_of(each)) for each in living.modules]
        self._groups = [
            [(group, hold_all(_settings(group), hold)) for group in each.param_groups]
            for each in living.optimizers
        ]
        self.states = [
            {key: hold_all(dict(value), hold) for key, value in each.state.items()}
            for each in living.optimizers
        ]
        self._schedulers = [(each, _plain_values(vars(each))) for each in living.schedulers]
        self._scalers = [(each, _of_scaler(each)) for each in living.scalers]
        self._generators = Generators()
        self._living = living

    def put_back(self) -> None:
        """Make everything as it was."""
        with torch.no_grad():
            for name, parameter in self._living.parameters.items():
                parameter.data.copy_(self.parameters[name])
                _put_gradient(parameter, self.gradients[name])
            for module, name, saved in self.buffers:
                internals.own_buffers(module)[name] = put(
                    internals.own_buffers(module).get(name), saved
                )
            self._put_optimizers()
            for scaler, values in self._scalers:
                _put_scaler(scaler, values)
        for attributes, numbers in self._numbers:
            attributes.update(numbers)
        for scheduler, values in self._schedulers:
            vars(scheduler).update(copy.deepcopy(values))
        self._generators.put_back()

    def _put_optimizers(self) -> None:
        for optimizer, groups, states in zip(
            self._living.optimizers, self._groups, self.states, strict=True
        ):
            for group, settings in groups:
                for key, saved in settings.items():
                    group[key] = put(group.get(key), saved)
            for parameter in [each for each in optimizer.state if each not in states]:
                del optimizer.state[parameter]
            for parameter, saved_state in states.items():
                state = optimizer.state[parameter]
                for key in [each for each in state if each not in saved_state]:
                    del state[key]
                for key, saved in saved_state.items():
                    state[key] = put(state.get(key), saved)

    def _hold(self, tensor: Tensor) -> Tensor:
        detached = tensor.detach()
        if self._to_host and detached.is_cuda:
            held = torch.empty(detached.shape, dtype=detached.dtype, pin_memory=True)
            return held.copy_(detached, non_blocking=True)
        return detached.clone()


class Generators:
    """The states of all random generators that a script may draw from."""

    def __init__(self) -> None:
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
        self._python = random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state() if numpy else None

    def put_back(self) -> None:
        """Draw again what was drawn since."""
        torch.set_rng_state(self._cpu)
        if self._cuda is not None:
            torch.cuda.set_rng_state(self._cuda)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def seed_all(seed: int) -> None:
    """Seed what ``Generators`` keeps."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed(seed)
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)


def fits_on_gpu(living: Living) -> bool:
    """Whether copies of the state may lie on the GPU, where they are made in no time."""
    if not torch.cuda.is_initialized():
        return True
    free, _ = torch.cuda.mem_get_info()
    unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
    return SPARE * living.bytes() < free + unused


def hold_all(value: Any, hold: Any) -> Any:
    """A copy of nested values; tensors are held, parameters of others stay what they are."""
    if isinstance(value, nn.Parameter):
        return value
    if isinstance(value, Tensor):
        return hold(value) if _is_plain(value) else value
    if type(value) is dict:
        return {key: hold_all(each, hold) for key, each in value.items()}
    if type(value) in {list, tuple}:
        return type(value)(hold_all(each, hold) for each in value)
    return copy.deepcopy(value) if isinstance(value, (*NUMBERS, str)) else value


def put(living: Any, saved: Any) -> Any:
    """What is to stand where ``living`` does: the same tensor with the saved values, if it can."""
    if isinstance(saved, nn.Parameter):
        return saved
    if isinstance(saved, Tensor):
        if isinstance(living, Tensor) and living.shape == saved.shape:
            return living.copy_(saved)
        return saved.clone()
    if type(saved) is dict:
        known = living if isinstance(living, dict) else {}
        return {key: put(known.get(key), each) for key, each in saved.items()}
    if type(saved) in {list, tuple}:
        return type(saved)(put(None, each) for each in saved)
    return saved


def _put_gradient(parameter: nn.Parameter, saved: tuple[Tensor, Tensor] | None) -> None:
    if saved is None:
        parameter.grad = None
        return
    gradient, values = saved
    gradient.detach().copy_(values)
    if parameter.grad is not gradient:
        layout = parameter.data.stride() == gradient.stride()
        parameter.grad = gradient if layout else gradient.detach().clone()


def _settings(group: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in SWITCHES}


def _numbers_of(module: nn.Module) -> dict[str, Any]:
    return {
        key: value
        for key, value in vars(module).items()
        if type(value) in NUMBERS and not key.startswith("__")
    }


def _plain_values(attributes: dict[str, Any]) -> dict[str, Any]:
    """Numbers, and lists and dictionaries of them."""
    return {key: copy.deepcopy(each) for key, each in attributes.items() if _is_data(each)}


def _is_data(value: Any) -> bool:
    if isinstance(value, (*NUMBERS, str, type(None))):
        return True
    if type(value) in {list, tuple}:
        return all(map(_is_data, value))
    return type(value) is dict and all(map(_is_data, value.values()))


def _of_scaler(scaler: GradScaler) -> dict[str, Any]:
    found = {
        name: value.clone()
        for name in ("_scale", "_growth_tracker")
        if isinstance(value := getattr(scaler, name, None), Tensor)
    }
    return {"tensors": found, "infinite": {key: each.clone() for key, each in _infinite(scaler)}}


def _put_scaler(scaler: GradScaler, saved: dict[str, Any]) -> None:
    for name, value in saved["tensors"].items():
        setattr(scaler, name, put(getattr(scaler, name), value))
    for key, tensor in _infinite(scaler):
        if key in saved["infinite"]:
            tensor.copy_(saved["infinite"][key])


def _infinite(scaler: GradScaler) -> list[tuple[tuple[int, Any], Tensor]]:
    """Whether the gradients of the last step were: ``update`` reads it in the next one."""
    return [
        ((optimizer, device), each)
        for optimizer, state in getattr(scaler, "_per_optimizer_states", {}).items()
        for device, each in state.get("found_inf_per_device", {}).items()
    ]


def _is_plain(tensor: Tensor) -> bool:
    """Whether all of it is here and dense."""
    return tensor.layout == torch.strided and type(tensor.data) is Tensor and not tensor.is_meta
