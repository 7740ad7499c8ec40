"""Internals: the private names of torch and Triton that Pitstop touches, each once and checked.

A new version may lose any of them. Here each has a plain name, which all rooms use: a function of
torch itself, a class, or a getter of one attribute, none of which is a frame of Python. A name that
is lost stands for an ``AttributeError`` that says so when it is used, not before; ``lost()`` tries
every one of them. This file lies below all rooms that know torch, and knows none of ours.
"""

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache
from operator import attrgetter, methodcaller
from typing import Any

import torch
from torch import nn
from torch.utils import _python_dispatch, _pytree

LAUNCH_KNOWN = ((3, 3), (3, 9))  # Tritons whose compiled kernels are handed what ``parts`` hands


class Lost:
    """Stands in for what this version has not."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *_: Any, **__: Any) -> Any:
        """Say so."""
        raise AttributeError(f"torch {torch.__version__} has no {self.path}")


def _found(path: str) -> Any:
    try:
        return pkgutil.resolve_name(f"torch.{path}")
    except (AttributeError, ImportError, RuntimeError):
        return Lost(f"torch.{path}")


# What torch does right now
backward_pass: Callable[[], int] = _found("_C._current_graph_task_id")  # its number, or -1
keeps_graph = _found("_C._autograd._get_current_graph_task_keep_graph")  # for another backward pass
running_node = _found("_C._current_autograd_node")
next_sequence_number = _found("_C._autograd._get_sequence_nr")  # of the next node
is_profiling = _found("_C._autograd._profiler_enabled")
is_tracing = _found("_C._is_tracing")
is_transformed: Callable[[], bool] = _found("_C._are_functorch_transforms_active")
saved_tensor_hooks = _found("_C._autograd._top_saved_tensors_default_hooks")
dispatch_modes = _found("_C._len_torch_dispatch_stack")  # how many
function_modes = _found("_C._len_torch_function_stack")
dispatch_mode = _found("utils._python_dispatch._get_current_dispatch_mode")
dispatch_mode_stack = _found("utils._python_dispatch._get_current_dispatch_mode_stack")
function_mode_stack = _found("overrides._get_current_function_mode_stack")
without_modes = _found("utils._python_dispatch._disable_current_modes")
without_function_modes = _found("_C.DisableTorchFunction")
without_subclasses = _found("_C.DisableTorchFunctionSubclass")  # as in torch's own subclasses
without_dispatch_modes = _found("_C._DisableTorchDispatch")
fp32_precision = getattr(torch._C, "_get_fp32_precision_getter", None)  # from torch 2.9 on

# Functions
tensor_address = _found("_C.TensorBase.data_ptr")  # as no class or script has wrapped them
tensor_to_numpy = _found("_C.TensorBase.numpy")
foreach_copy = _found("_foreach_copy_")
foreach_multiply = _found("_foreach_mul")
unscale_and_check = _found("_amp_foreach_non_finite_check_and_unscale_")
fused_attention_choice = _found("_fused_sdp_choice")
cpu_has_bfloat16 = _found("ops.mkldnn._is_mkldnn_bf16_supported")
dynamo_frames = _found("_C._dynamo.eval_frame")
current_device = _found("_C._cuda_getDevice")
current_stream = _found("_C._cuda_getCurrentRawStream")

# Classes and modules
DeviceType = _found("_C._autograd.DeviceType")
SavedTensor = _found("_C._autograd.SavedTensor")
FakeTensor = _found("_subclasses.fake_tensor.FakeTensor")
FakeTensorMode = _found("_subclasses.fake_tensor.FakeTensorMode")
DeviceContext = _found("utils._device.DeviceContext")
LoaderIterator = _found("utils.data.dataloader._BaseDataLoaderIter")
WorkersIterator = _found("utils.data.dataloader._MultiProcessingDataLoaderIter")
worker = _found("utils.data._utils.worker")
BatchNorm = _found("nn.modules.batchnorm._BatchNorm")
NormWithStatistics = _found("nn.modules.batchnorm._NormBase")
TorchDispatchMode = _python_dispatch.TorchDispatchMode
TreeSpec = _pytree.TreeSpec
tree_flatten = _pytree.tree_flatten
tree_iter = _pytree.tree_iter
tree_leaves = _pytree.tree_leaves
tree_map = _pytree.tree_map
tree_unflatten = _pytree.tree_unflatten

# Attributes, asked for by ``getter(owner)``
storage_key = attrgetter("_cdata")  # of a storage: one number for all that share the memory
version = attrgetter("_version")  # of a tensor: how often it was changed in place
schema = attrgetter("_schema")  # of an operator
overloads = attrgetter("_overloadpacket")  # likewise: all operators of its name
indices = methodcaller("_indices")  # of a sparse tensor, also where it is not coalesced
values = methodcaller("_values")  # likewise
sequence_number = methodcaller("_sequence_nr")  # of a node of autograd
call_of = attrgetter("_call_impl")  # of a module: what a call of it runs
compiled_call = attrgetter("_compiled_call_impl")  # of a module: what runs instead
COMPILED_CALL = "_compiled_call_impl"
own_parameters = attrgetter("_parameters")
own_buffers = attrgetter("_buffers")
own_modules = attrgetter("_modules")
forward_hooks = attrgetter("_forward_hooks")
forward_pre_hooks = attrgetter("_forward_pre_hooks")
backward_hooks = attrgetter("_backward_hooks")
global_forward_hooks = attrgetter("_global_forward_hooks")  # of ``torch.nn.modules.module``
global_pre_hooks = attrgetter("_global_forward_pre_hooks")  # likewise
dataset_of = attrgetter("_dataset")  # of an iterator of a loader
sampler_of = attrgetter("_index_sampler")
workers_of = attrgetter("_num_workers")
given_by = attrgetter("_num_yielded")
pins = attrgetter("_pin_memory")
optimizer_states = attrgetter("_per_optimizer_states")  # of a GradScaler
step_hooks = attrgetter("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
is_autocast_on = attrgetter("_enabled")  # of an autocast context


def writes(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; -1 where inference mode does not count that."""
    return -1 if tensor.is_inference() else int(version(tensor))


def convolved(convolution: Any, x: torch.Tensor, bias: torch.Tensor | None) -> Any:
    """What a convolution makes of ``x``, with another bias; Dynamo looks into this one."""
    return convolution._conv_forward(x, convolution.weight, bias)


def dynamo_config() -> Any:
    """The settings of Dynamo, imported when they are wanted: that takes a second."""
    return importlib.import_module("torch._dynamo.config")


def inductor_config() -> Any:
    """The settings of Inductor, likewise."""
    return importlib.import_module("torch._inductor.config")


def inlined(function: Callable[..., Any]) -> Any:
    """A call of ``function`` in a frame that Dynamo looks at."""
    return importlib.import_module("torch._dynamo.external_utils").wrap_inline(function)


def is_passed_over(function: Callable[..., Any]) -> bool:
    """Whether Dynamo does not look at the frames of ``function``."""
    return bool(importlib.import_module("torch._dynamo.trace_rules").check(function))


@cache
def launch_is_known() -> bool:
    """Whether this Triton takes a launch as ``parts`` makes it; another one launches by itself."""
    major, minor, *_ = importlib.import_module("triton").__version__.split(".")
    oldest, newest = LAUNCH_KNOWN
    return oldest <= (int(major), int(minor)) <= newest


def lost() -> list[str]:
    """Every name above that this version of torch has not."""
    missing = [each.path for each in globals().values() if isinstance(each, Lost)]
    return sorted([*missing, *(name for name in CHECKS if not _has(CHECKS[name]))])


def _has(check: Callable[[], object]) -> bool:
    try:
        check()
    except (AttributeError, ImportError):
        return False
    return True


def _iterator() -> Any:
    data: Any = [1]
    return iter(torch.utils.data.DataLoader(data))


def _node() -> Any:
    return (torch.ones(1, requires_grad=True) * 2).grad_fn


CHECKS: dict[str, Callable[[], object]] = {
    "storage._cdata": lambda: storage_key(torch.ones(1).untyped_storage()),
    "Tensor._version": lambda: version(torch.ones(1)),
    "Tensor._indices": lambda: indices(torch.ones(1).to_sparse()),
    "Tensor._values": lambda: values(torch.ones(1).to_sparse()),
    "OpOverload._schema": lambda: schema(torch.ops.aten.add.Tensor),
    "OpOverload._overloadpacket": lambda: overloads(torch.ops.aten.add.Tensor),
    "Node._sequence_nr": lambda: sequence_number(_node()),
    "Module._call_impl": lambda: call_of(nn.ReLU()),
    "Module._compiled_call_impl": lambda: compiled_call(nn.ReLU()),
    "Module._parameters": lambda: own_parameters(nn.ReLU()),
    "Module._buffers": lambda: own_buffers(nn.ReLU()),
    "Module._modules": lambda: own_modules(nn.ReLU()),
    "Module._forward_hooks": lambda: forward_hooks(nn.ReLU()),
    "Module._forward_pre_hooks": lambda: forward_pre_hooks(nn.ReLU()),
    "Module._backward_hooks": lambda: backward_hooks(nn.ReLU()),
    "module._global_forward_hooks": lambda: global_forward_hooks(nn.modules.module),
    "module._global_forward_pre_hooks": lambda: global_pre_hooks(nn.modules.module),
    "Conv2d._conv_forward": lambda: convolved(nn.Conv2d(1, 1, 1), torch.ones(1, 1, 1), None),
    "DataLoader iterator._dataset": lambda: dataset_of(_iterator()),
    "DataLoader iterator._index_sampler": lambda: sampler_of(_iterator()),
    "DataLoader iterator._num_workers": lambda: workers_of(_iterator()),
    "DataLoader iterator._num_yielded": lambda: given_by(_iterator()),
    "DataLoader iterator._pin_memory": lambda: pins(_iterator()),
    "GradScaler._per_optimizer_states": lambda: optimizer_states(torch.amp.GradScaler("cpu")),
    "autocast._enabled": lambda: is_autocast_on(torch.autocast("cpu")),
    "torch._dynamo.config": dynamo_config,
    "torch._inductor.config": inductor_config,
    "torch._dynamo.external_utils.wrap_inline": lambda: inlined(_iterator),
    "torch._dynamo.trace_rules.check": lambda: is_passed_over(_iterator),
}
