"""Time attention in windows against eager PyTorch, torch's fused ones and the hardware's floor.

Run ``python benchmarks/window_attention.py [--quick]`` on a GPU machine. It compares numbers with
float64 first, then times the forward pass, and forward and backward, of: eager PyTorch as Swin and
VRT write it; ``scaled_dot_product_attention`` with bias and mask written out as one tensor;
compiled ``flex_attention``; and ours. The floor is the larger of the fewest bytes over the copy
bandwidth measured here, and the operations of the products over the matrix rate.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from parts import copy_bytes_per_ms, error, time_ms
from pitstop.parts.windows.operator import by_kernel
from pitstop.parts.windows.twin import window_attention_twin

ROUNDS = 15
MATRIX_FLOPS = {"float32": 790e12, "tf32": 395e12, "bfloat16": 790e12}  # an H200; float32: 3 x TF32
LIMIT = {"float32": 5e-6, "tf32": 2e-4, "bfloat16": 2e-3}  # or twice what eager is off by
Tensors = list[Any]  # queries, keys, values, bias, mask
Run = Callable[..., torch.Tensor]


@dataclass(frozen=True, slots=True)
class Case:
    """One network's windows."""

    name: str
    windows: int
    heads: int
    tokens: int
    width: int
    positions: int  # with a mask each; 0: no mask
    bias: bool = True

    def tensors(self, dtype: torch.dtype) -> Tensors:
        """Random numbers: three parts of one ``qkv``, a bias, a mask of the outermost windows."""
        windows, heads, tokens, width = self.windows, self.heads, self.tokens, self.width
        qkv = torch.randn(windows, tokens, 3, heads, width, device="cuda", dtype=dtype)
        parts = [each.detach().requires_grad_() for each in qkv.permute(2, 0, 3, 1, 4).unbind()]
        bias = mask = None
        if self.bias:
            bias = torch.randn(heads, tokens, tokens, device="cuda").requires_grad_()
        if self.positions:
            side = max(int(self.positions**0.5), 1)
            mask = torch.zeros(self.positions, tokens, tokens, device="cuda")
            mask[-2 * side :, : tokens // 2, tokens // 2 :] = -100
            mask[-2 * side :, tokens // 2 :, : tokens // 2] = -100
        return [*parts, bias, mask]

    def floor_ms(self, bandwidth: float, flops: float, item: int, backward: bool) -> float:
        """Bytes: four tensors of queries forward, nine backward; products: two, then five."""
        one = self.windows * self.heads * self.tokens * self.width
        masks = self.positions * self.tokens**2 * 4
        moved = one * item * (12 if backward else 4) + masks * (2 if backward else 1)
        work = 2 * one * self.tokens * (7 if backward else 2)
        return max(moved / bandwidth, 1e3 * work / flops)


CASES = (
    Case("VRT 384 x 16, shifted", 144, 6, 384, 16, 144),
    Case("VRT 384 x 16", 144, 6, 384, 16, 0),
    Case("VRT mutual 64 x 16", 432, 6, 64, 16, 0, bias=False),
    Case("SwinIR 64 x 30, shifted", 1024, 6, 64, 30, 64),
    Case("SwinIR 64 x 32", 1024, 6, 64, 32, 0),
    Case("HAT 256 x 30", 128, 6, 256, 30, 0),
    Case("Swin 49 x 32, shifted", 2048, 3, 49, 32, 64),
)


def written_out(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> torch.Tensor:
    """Torch's own, with bias and mask as one tensor of the size of the scores."""
    added = None if bias is None else bias[None].to(q.dtype)
    if mask is not None:
        masks = mask.repeat(q.shape[0] // mask.shape[0], 1, 1)[:, None].to(q.dtype)
        added = masks if added is None else added + masks
    return F.scaled_dot_product_attention(q, k, v, added)


def eager(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> torch.Tensor:
    """As the networks write it; in half precision as under autocast, softmax in float32."""
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = (scores.unflatten(0, (-1, mask.shape[0])) + mask[:, None]).flatten(0, 1)
    answer: torch.Tensor = scores.float().softmax(-1).to(v.dtype) @ v
    return answer


def ours(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> torch.Tensor:
    """The kernel, whatever would be chosen."""
    return by_kernel(q, k, v, bias, mask, None)


def flex() -> Run:
    """Compiled ``flex_attention``, bias and mask by a function of the score."""
    from torch.nn.attention.flex_attention import flex_attention  # noqa: PLC0415 not in every torch

    compiled: Any = torch.compile(flex_attention, dynamic=False)

    def run(q: Any, k: Any, v: Any, bias: Any, mask: Any) -> torch.Tensor:
        def added(score: Any, window: Any, head: Any, i: Any, j: Any) -> Any:
            score = score if bias is None else score + bias[head, i, j]
            return score if mask is None else score + mask[window % mask.shape[0], i, j]

        result: torch.Tensor = compiled(q, k, v, score_mod=added)
        return result

    return run


def step(run: Run, tensors: Tensors, grad: torch.Tensor) -> Any:
    """Forward and backward, to the bias too."""
    wanted = [each for each in tensors if each is not None and each.requires_grad]
    return torch.autograd.grad(run(*tensors), wanted, grad)


def check(case: Case, dtype: torch.dtype, limit: float) -> str:
    """The largest error against float64, ours and eager's; raise where ours is twice as far off."""
    tensors = case.tensors(dtype)
    few = min(case.windows, max(case.positions, 16))
    tensors = [each[:few].detach().requires_grad_() for each in tensors[:3]] + tensors[3:]
    exact: Tensors = [
        None if each is None else each.detach().double().requires_grad_(each.requires_grad)
        for each in tensors
    ]
    grad = torch.randn_like(tensors[0])
    expected = [window_attention_twin(*exact), *step(window_attention_twin, exact, grad.double())]
    errors = []
    for run in (ours, eager):
        found = [run(*tensors), *step(run, tensors, grad)]
        errors.append([error(a, b) for a, b in zip(found, expected, strict=True)])
    for own, other in zip(*errors, strict=True):
        assert own < max(limit, 2 * other), f"{case.name}: {own:.1e}, eager {other:.1e}"
    return f"error {max(errors[0]):.1e} (eager {max(errors[1]):.1e})"


def rows(case: Case, name: str, bandwidth: float, runs: dict[str, Run]) -> Iterator[str]:
    """Forward, and forward and backward; each way's time, ours against eager and the floor."""
    dtype = torch.bfloat16 if name == "bfloat16" else torch.float32
    torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
    said = check(case, dtype, LIMIT[name])
    tensors = case.tensors(dtype)
    grad = torch.randn_like(tensors[0])
    item = tensors[0].element_size()
    for backward in (False, True):
        floor = case.floor_ms(bandwidth, MATRIX_FLOPS[name], item, backward)
        times = {}
        for label, run in runs.items():
            work = partial(step, run, tensors, grad) if backward else partial(run, *tensors)
            with torch.set_grad_enabled(backward):
                times[label] = _time(work)
        columns = "".join(f"{times[label]:8.3f}" for label in runs)
        gain = times["eager"] / times["ours"]
        label = f"{case.name} {name} {'step' if backward else 'forward'}"
        end = said if backward else ""
        yield f"{label:44s}{columns}{gain:8.2f}{times['ours'] / floor:8.1f}  {end}"


def _time(work: Callable[[], Any]) -> float:
    try:
        return time_ms(work, ROUNDS)
    except Exception as failure:  # noqa: BLE001 one way that fails costs its column only
        print(f"failed: {type(failure).__name__}: {str(failure)[:200]}")
        return float("nan")


def main() -> int:
    """Check, measure, and print the table last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="without flex_attention and float32")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("benchmarks/window_attention.py times GPU kernels: run it on a machine with a GPU")
        return 2
    torch.manual_seed(0)
    bandwidth = copy_bytes_per_ms()
    runs: dict[str, Run] = {"eager": eager, "sdpa": written_out, "ours": ours}
    if not options.quick:
        runs["flex"] = flex()
    names = ("tf32", "bfloat16") if options.quick else ("tf32", "bfloat16", "float32")
    lines = [line for case in CASES for name in names for line in rows(case, name, bandwidth, runs)]
    print(f"{torch.cuda.get_device_name()}: copy {bandwidth / 1e9:.2f} TB/s; milliseconds")
    print(f"{'':44s}" + "".join(f"{label:>8s}" for label in (*runs, "gain", "x floor")))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
