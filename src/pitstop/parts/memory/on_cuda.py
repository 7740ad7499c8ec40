"""On CUDA: fake tensors take the ways that they would take on a GPU, also where there is none.

A torch without CUDA cannot make fake tensors "on" a GPU, so they are on the CPU, and four things
would differ. Dropout keeps a mask of bytes on a GPU, and one of floats on the CPU. Attention is
fused there, and hands out no scores. Autocast knows more functions: norms and softmax are computed
in fp32, and what they return is kept in it. Optimizers go through all parameters at once, which
takes temporary memory of the size of the weights.

Where torch has CUDA, the tensors are fake CUDA tensors and torch itself takes these ways.
"""

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from pitstop import internals

# The lists of ATen's ``autocast_mode.h`` for CUDA, by the names under which Python calls them.
_LOWER = (
    "_convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d "
    "convolution cudnn_convolution prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear "
    "addbmm baddbmm bmm chain_matmul multi_dot __matmul__ __rmatmul__ "
    "scaled_dot_product_attention"
)
_FP32 = (
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow __pow__ "
    "__rpow__ softplus layer_norm native_layer_norm group_norm norm nuclear_norm cosine_similarity "
    "poisson_nll_loss cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div "
    "l1_loss smooth_l1_loss huber_loss mse_loss margin_ranking_loss multilabel_margin_loss "
    "soft_margin_loss triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits "
    "cross_entropy cross_entropy_loss dist pdist cdist renorm logsumexp "
    "prod softmax log_softmax cumprod cumsum sum"
)
LOWER, FP32 = frozenset(_LOWER.split()), frozenset(_FP32.split())
TYPED = frozenset(("prod", "softmax", "log_softmax", "cumprod", "cumsum", "sum"))  # as dtype= says
HEAD_LIMIT = 256  # numbers of a head that flash attention takes
HALVES = (torch.float16, torch.bfloat16)


class OnCuda(TorchFunctionMode):
    """A mode of torch functions; what they call in Python goes through it again."""

    def __init__(self) -> None:
        super().__init__()
        self._cast: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # weights in lower precision

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        """Call it, or what stands in its place on a GPU."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if torch.is_autocast_enabled("cuda"):
            args, kwargs = self._autocast(name, args, kwargs)
        elif self._cast:
            self._cast.clear()
        instead = INSTEAD.get(name)
        if instead is not None and (result := instead(*args, **kwargs)) is not None:
            return result
        body = _body(func)
        if body is None:
            return func(*args, **kwargs)
        with self:  # what it calls is to be seen as well
            return body(*args, **kwargs)

    def _autocast(self, name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if name in LOWER:
            dtype = torch.get_autocast_dtype("cuda")
        elif name in FP32 and not (name in TYPED and kwargs.get("dtype") is not None):
            dtype = torch.float32
        else:
            return args, kwargs

        def cast(value: Any) -> Any:
            wanted = isinstance(value, torch.Tensor) and value.is_floating_point()
            if not wanted or value.dtype in {dtype, torch.float64}:
                return value
            return self._converted(value, dtype)

        return internals.tree_map(cast, args), internals.tree_map(cast, kwargs)

    def _converted(self, value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        kept = (
            dtype in HALVES
            and value.is_leaf
            and value.requires_grad
            and torch.is_autocast_cache_enabled()
        )
        if not kept:
            return value.to(dtype)
        if id(value) not in self._cast:
            self._cast[id(value)] = value, value.to(dtype)
        return self._cast[id(value)][1]


@cache
def _body(func: Any) -> Callable[..., Any] | None:
    """A function of torch that is written in Python, without its question for modes like ours."""
    if not isinstance(func, FunctionType):
        return None
    questions = [name for name in func.__globals__ if name.startswith("has_torch_function")]
    if not questions:
        return None
    known = {**func.__globals__, **dict.fromkeys(questions, lambda *_: False)}
    body = FunctionType(func.__code__, known, func.__name__, func.__defaults__, func.__closure__)
    body.__kwdefaults__ = func.__kwdefaults__
    return body


def _dropout(x: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not training or inplace or p == 0 or not torch.is_grad_enabled() or not x.requires_grad:
        return None
    return torch.native_dropout(x, p, True)[0]


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor | None:
    if query.dim() != 4 or query.dtype not in {torch.float32, *HALVES}:
        return None
    if enable_gqa and query.shape[1] != key.shape[1]:
        repeats = query.shape[1] // key.shape[1]
        key, value = (each.repeat_interleave(repeats, 1) for each in (key, value))
    head = query.shape[-1]
    flash = query.dtype in HALVES and head <= HEAD_LIMIT and value.shape[-1] == head
    if attn_mask is None and flash:
        # Padded to a multiple of 8, as torch does for flash attention.
        pad = -head % 8
        if pad:
            query, key, value = (
                torch.nn.functional.pad(each, (0, pad)) for each in (query, key, value)
            )
        found = torch.ops.aten._scaled_dot_product_flash_attention(
            query, key, value, dropout_p, is_causal, scale=scale or head**-0.5
        )
        return found[0][..., :head] if pad else found[0]  # type: ignore[no-any-return]
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(
            attn_mask.logical_not(), float("-inf")
        )
    if attn_mask is not None:
        attn_mask = attn_mask.expand(*query.shape[:3], key.shape[2])
    grad = torch.is_grad_enabled() and any(
        each.requires_grad for each in (query, key, value, attn_mask) if each is not None
    )
    found = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, attn_mask, grad, dropout_p, is_causal, scale=scale
    )
    return found[0]  # type: ignore[no-any-return]


INSTEAD: dict[str, Callable[..., Any]] = {
    "dropout": _dropout,
    "scaled_dot_product_attention": _attention,
}


def take_foreach(optimizer: torch.optim.Optimizer) -> None:
    """Let it go through all parameters at once, as torch's own do by default on a GPU."""
    for group in optimizer.param_groups:
        plain = not group.get("differentiable") and not isinstance(group.get("lr"), torch.Tensor)
        if "foreach" in group and group["foreach"] is None and not group.get("fused") and plain:
            group["foreach"] = True
