"""Deformable separable convolution: CuPy kernels, forward and backward.

Each output pixel is a sum over 5x5 taps. A tap reads the padded frame bilinearly at its own
place plus its own offset; its weight is vertical[i] * horizontal[j] * mask[i * 5 + j].
``offset_x`` moves a tap down, ``offset_y`` moves it right. A tap on or beyond the last pixel
reads that pixel as both of its neighbours, so it counts double along that axis.
"""

import re
from typing import Any

import cupy
import torch
from torch import Tensor

THREADS = 512  # per block


class Stream:
    """The stream that all kernels are launched on."""

    ptr = torch.cuda.current_stream().cuda_stream  # pit: stream-at-import


# SIZE(tensor, axis) and AT(tensor, indices) are replaced by numbers; BODY by one of the below.
KERNEL = """
#define TAPS SIZE(vertical, 1)
#define VERTICAL AT(vertical, b, i, y, x)
#define HORIZONTAL AT(horizontal, b, j, y, x)
#define MASK AT(mask, b, i * TAPS + j, y, x)
#define PIXEL(c, row, column) AT(input, b, c, row, column)
#define TOP(c) (PIXEL(c, top, left) * to_left + PIXEL(c, top, right) * to_right)
#define BOTTOM(c) (PIXEL(c, bottom, left) * to_left + PIXEL(c, bottom, right) * to_right)
#define LEFT(c) (PIXEL(c, top, left) * to_top + PIXEL(c, bottom, left) * to_bottom)
#define RIGHT(c) (PIXEL(c, top, right) * to_top + PIXEL(c, bottom, right) * to_bottom)
#define FOR_EACH_CHANNEL for (int c = 0; c < SIZE(input, 1); c++)

#define LOCATE \\
    const float free_y = AT(offset_x, b, i * TAPS + j, y, x) + y + i - (TAPS - 1) / 2 + 1; \\
    const float free_x = AT(offset_y, b, i * TAPS + j, y, x) + x + j - (TAPS - 1) / 2 + 1; \\
    const float last_y = SIZE(input, 2) - 1, last_x = SIZE(input, 3) - 1; \\
    const float place_y = fminf(fmaxf(free_y, 0), last_y); \\
    const float place_x = fminf(fmaxf(free_x, 0), last_x); \\
    const int top = fminf(fmaxf(floorf(free_y), 0), last_y); \\
    const int left = fminf(fmaxf(floorf(free_x), 0), last_x); \\
    const int bottom = fminf(fmaxf(floorf(free_y) + 1, 0), last_y); \\
    const int right = fminf(fmaxf(floorf(free_x) + 1, 0), last_x); \\
    const float to_top = 1 + (top - place_y), to_bottom = 1 - (bottom - place_y); \\
    const float to_left = 1 + (left - place_x), to_right = 1 - (right - place_x);

extern "C" __global__ void NAME(
    const int count, const float* input, const float* vertical, const float* horizontal,
    const float* offset_x, const float* offset_y, const float* mask, const float* gradient,
    float* result
) {
    const int first = blockIdx.x * blockDim.x + threadIdx.x;
    for (int index = first; index < count; index += blockDim.x * gridDim.x) {
        const int x = index % SIZE(result, 3);
        const int y = index / SIZE(result, 3) % SIZE(result, 2);
        const int channel = index / SIZE(result, 3) / SIZE(result, 2) % SIZE(result, 1);
        const int b = index / SIZE(result, 3) / SIZE(result, 2) / SIZE(result, 1);
        float sum = 0;
        BODY
        result[index] = sum;
    }
}
"""

BODIES = {
    "dsepconv_output": """
        for (int i = 0; i < TAPS; i++)
            for (int j = 0; j < TAPS; j++) {
                LOCATE
                const float sample = TOP(channel) * to_top + BOTTOM(channel) * to_bottom;
                sum += sample * VERTICAL * HORIZONTAL * MASK;
            }
    """,
    "dsepconv_gradient_vertical": """
        const int i = channel;
        for (int j = 0; j < TAPS; j++) {
            LOCATE
            FOR_EACH_CHANNEL {
                const float sample = TOP(c) * to_top + BOTTOM(c) * to_bottom;
                sum += AT(gradient, b, c, y, x) * sample * HORIZONTAL * MASK;
            }
        }
    """,
    "dsepconv_gradient_horizontal": """
        const int j = channel;
        for (int i = 0; i < TAPS; i++) {
            LOCATE
            FOR_EACH_CHANNEL {
                const float sample = TOP(c) * to_top + BOTTOM(c) * to_bottom;
                sum += AT(gradient, b, c, y, x) * sample * VERTICAL * MASK;
            }
        }
    """,
    "dsepconv_gradient_offset_x": """
        const int i = channel / TAPS, j = channel % TAPS;
        LOCATE
        FOR_EACH_CHANNEL sum += AT(gradient, b, c, y, x) * (BOTTOM(c) - TOP(c));
        sum *= VERTICAL * HORIZONTAL * MASK;
    """,
    "dsepconv_gradient_offset_y": """
        const int i = channel / TAPS, j = channel % TAPS;
        LOCATE
        FOR_EACH_CHANNEL sum += AT(gradient, b, c, y, x) * (RIGHT(c) - LEFT(c));
        sum *= VERTICAL * HORIZONTAL * MASK;
    """,
    "dsepconv_gradient_mask": """
        const int i = channel / TAPS, j = channel % TAPS;
        LOCATE
        FOR_EACH_CHANNEL {
            const float sample = TOP(c) * to_top + BOTTOM(c) * to_bottom;
            sum += AT(gradient, b, c, y, x) * sample;
        }
        sum *= VERTICAL * HORIZONTAL;
    """,
}


def dsepconv(
    frame: Tensor,
    vertical: Tensor,
    horizontal: Tensor,
    offset_x: Tensor,
    offset_y: Tensor,
    mask: Tensor,
) -> Tensor:
    """Warp a frame that is padded by 2 on each side: (B, C, H + 4, W + 4) to (B, C, H, W)."""
    weights = (vertical, horizontal, offset_x, offset_y, mask)
    out: Tensor = DSepConv.apply(frame, *weights)  # type: ignore[no-untyped-call]
    return out


class DSepConv(torch.autograd.Function):
    """Gradients reach everything but the frame."""

    @staticmethod
    def forward(ctx: Any, frame: Tensor, *weights: Tensor) -> Tensor:
        """Check the shapes and launch one kernel."""
        vertical = weights[0]
        batch, taps, height, width = vertical.shape
        assert frame.shape[2:] == (height + taps - 1, width + taps - 1)
        assert all(tensor.is_cuda and tensor.is_contiguous() for tensor in (frame, *weights))
        ctx.save_for_backward(frame, *weights)
        output = frame.new_zeros(batch, frame.shape[1], height, width)
        return launch("dsepconv_output", (frame, *weights), output, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Launch one kernel for each of the five inputs."""
        assert gradient.is_contiguous()
        inputs = ctx.saved_tensors
        names = [name for name in BODIES if name.startswith("dsepconv_gradient")]
        gradients = [
            launch(name, inputs, gradient, torch.zeros_like(tensor))
            for name, tensor in zip(names, inputs[1:], strict=True)
        ]
        return None, *gradients


def launch(name: str, inputs: tuple[Tensor, ...], gradient: Tensor, result: Tensor) -> Tensor:
    """Run one kernel with a thread for each number of the result."""
    count, tensors = result.numel(), (*inputs, gradient, result)
    source = build_source(name, tensors)
    compile_kernel(name, source)(
        grid=((count + THREADS - 1) // THREADS, 1, 1),
        block=(THREADS, 1, 1),
        args=(count, *(tensor.data_ptr() for tensor in tensors)),
        stream=Stream,
    )
    return result


def build_source(name: str, tensors: tuple[Tensor, ...]) -> str:
    """The kernel's text for tensors of these sizes and strides."""
    names = (
        "input",
        "vertical",
        "horizontal",
        "offset_x",
        "offset_y",
        "mask",
        "gradient",
        "result",
    )
    named = dict(zip(names, tensors, strict=True))

    def size(match: re.Match[str]) -> str:
        return str(named[match[1]].size(int(match[2])))

    def element(match: re.Match[str]) -> str:
        indices = zip(match[2].split(","), named[match[1]].stride(), strict=True)
        return match[1] + "[" + " + ".join(f"({i.strip()}) * {step}" for i, step in indices) + "]"

    source = KERNEL.replace("NAME", name).replace("BODY", BODIES[name])
    source = re.sub(r"SIZE\((\w+), (\d)\)", size, source)
    return re.sub(r"AT\((\w+), ([^()]*)\)", element, source)


@cupy.memoize(for_each_device=True)  # type: ignore[untyped-decorator]
def compile_kernel(name: str, source: str) -> Any:
    """The compiled kernel, kept for the next call with the same text."""
    return cupy.RawKernel(source, name)
