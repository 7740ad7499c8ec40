"""Functions of a fast VAE block: biases with the residual, upsampling, attention of wide heads.

Each is plain PyTorch where the kernel cannot run (CPU, gradients, ``torch.compile``, which fuses
such sums itself), and the kernel is tested against that.
"""

import torch
import torch.nn.functional as F

from pitstop.parts.launch import HAS_TRITON, KERNEL_TYPES, launch

Maybe = torch.Tensor | None
SCORE_ROWS = 4096  # rows of attention scores at a time: 268 MB at 16,384 tokens, and full products
SOFTMAX_BLOCK, SOFTMAX_WARPS = 4096, 8
HALF_TYPES = (torch.bfloat16, torch.float16)
FLASH_HEAD = 256  # the widest head of PyTorch's flash attention


def add_biases(
    x: torch.Tensor,
    residual: Maybe,
    bias: Maybe,
    residual_bias: Maybe,
    scale: float = 1.0,
) -> torch.Tensor:
    """Compute ``(x + bias + residual + residual_bias) * scale``; may overwrite ``x``."""
    tensors = [t for t in (x, residual, bias, residual_bias) if t is not None]
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if recorded or not _kernel_runs(x):
        return add_biases_twin(x, residual, bias, residual_bias, scale)
    from pitstop.parts.group_norm.launch import plan  # noqa: PLC0415
    from pitstop.parts.layout import strides_of  # noqa: PLC0415
    from pitstop.parts.vae import kernels  # noqa: PLC0415 (needs triton)

    strides = strides_of(x)
    if strides is None or x.numel() == 0:
        return add_biases_twin(x, residual, bias, residual_bias, scale)
    if residual is not None and residual.stride() != x.stride():
        residual = torch.empty_like(x, dtype=residual.dtype).copy_(residual)
    grid = plan(tuple(x.shape), strides, x.shape[1], x.device)
    others = (residual, bias, residual_bias)
    types = [None if each is None else each.dtype for each in others]
    launch(
        *(kernels.add_kernel, grid.programs, grid.warps, (grid, scale, x.dtype, *types)),
        (x, *others),
        *(grid.channels, grid.length, grid.chunk, float(scale), *strides),
        *(residual is not None, bias is not None, residual_bias is not None),
        *(grid.block_s, grid.block_c),
    )
    return x


def add_biases_twin(
    x: torch.Tensor, residual: Maybe, bias: Maybe, residual_bias: Maybe, scale: float = 1.0
) -> torch.Tensor:
    """Compute the same in plain PyTorch, in fp32, rounded once."""
    per_channel = (1, -1, *[1] * (x.dim() - 2))
    exact = torch.promote_types(x.dtype, torch.float32)
    y = x.to(exact)
    for each in (bias, residual_bias):
        if each is not None:
            y = y + each.to(exact).view(per_channel)
    if residual is not None:
        y = y + residual
    return (y * scale).to(x.dtype)


def fold_upsample(weight: torch.Tensor) -> torch.Tensor:
    """Turn "double by nearest, then 3 x 3" into the 4 x 4 kernel of one transposed convolution.

    A pixel of the doubled image sees only 2 x 2 distinct source pixels, so 9 products become 4:
    the sums of the weights that meet the same source pixel.
    """
    meets = weight.new_tensor([[0, 0, 1], [0, 1, 1], [1, 1, 0], [1, 0, 0]], dtype=torch.float32)
    folded = torch.einsum("oiyx,py,qx->iopq", weight.float(), meets, meets)
    return folded.to(weight.dtype)


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention of one head, (B, T, D) each; a wide one takes a block of query rows at a time.

    PyTorch's flash kernels end at D = 256; beyond, its fallback takes 3.7 ms at 16,384 tokens of
    512 on an H200 where two matrix products with fp32 scores and a softmax take half of that.
    """
    tensors = (query, key, value)
    recorded = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
    by_kernel = HAS_TRITON and query.is_cuda and query.dtype in HALF_TYPES
    if recorded or not by_kernel or query.shape[2] <= FLASH_HEAD:
        return F.scaled_dot_product_attention(query[:, None], key[:, None], value[:, None])[:, 0]
    answer: torch.Tensor = _attend(query, key, value)
    return answer


@torch.library.custom_op("pitstop::attend", mutates_args=())
def _attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Inference on CUDA in half precision."""
    out = torch.empty((*query.shape[:2], value.shape[2]), dtype=query.dtype, device=query.device)
    scaled = query * query.shape[2] ** -0.5
    for sample in range(query.shape[0]):
        for start in range(0, query.shape[1], SCORE_ROWS):
            rows = slice(start, start + SCORE_ROWS)
            scores = torch.mm(scaled[sample, rows], key[sample].T, out_dtype=torch.float32)
            torch.mm(softmax_rows(scores, query.dtype), value[sample], out=out[sample, rows])
    return out


@_attend.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:  # noqa: ARG001
    return query.new_empty((*query.shape[:2], value.shape[2]))


def softmax_rows(scores: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Softmax of each row of an fp32 matrix, rounded to ``dtype`` as it is written."""
    from pitstop.parts.vae import kernels  # noqa: PLC0415 (needs triton)

    weights = torch.empty_like(scores, dtype=dtype)
    grid = (scores.shape[0], 1, 1)
    launch(
        *(kernels.softmax_kernel, grid, SOFTMAX_WARPS, (scores.shape[1], dtype)),
        *((scores, weights), scores.shape[1], SOFTMAX_BLOCK),
    )
    return weights


def _kernel_runs(x: torch.Tensor) -> bool:
    if torch.compiler.is_compiling():
        return False
    return HAS_TRITON and x.is_cuda and x.dtype in KERNEL_TYPES
