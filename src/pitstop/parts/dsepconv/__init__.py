"""Deformable separable convolution: drop-in for LDMVFI's ``cupy_module.dsepconv``.

Every output pixel is a sum over F x F taps. Tap (i, j) reads the padded image with bilinear
weights at the pixel's own position plus (i, j) plus a learned offset, and counts
``vertical[i] * horizontal[j] * mask[i, j]``. Conventions of the original, kept to the letter:
``offset_x`` moves along y and ``offset_y`` along x; the window starts at ``1 - (F - 1) // 2``;
past the border both bilinear neighbours are the border pixel with weight one, so it counts twice.

Why it is slow in plain PyTorch: 25 ``grid_sample`` calls write and re-read 25 warped images. The
original CuPy kernel runs each gradient in a kernel of its own (six passes that gather the same
pixels again), rewrites its source on every call, and leaves the image gradient at zero.

What is fused: the forward is one kernel; the whole backward is one kernel that gathers each
corner once for all channels and all five field gradients. The image gradient, when asked for, is
added in the same pass with atomics.

Layout: contiguous NCHW; other inputs are copied. fp32, bf16 and fp16 (mixed too), positions and
sums in fp32. fp64, CPU tensors and machines without Triton take the twin.

Floor: fields are 10 + 3 * 25 planes against 6 planes of image, so the bytes are the fields', read
twice and their gradients written once. On an H200 (4.3 TB/s) at (10, 3, 256, 256), fp32: forward
0.056 ms, with backward 0.163 ms; at (1, 3, 1080, 1920): 0.176 and 0.516 ms. Tuned there for F = 5
with 3 channels; other odd and even F and any channel count work.

Determinism: outputs and field gradients are bitwise reproducible. The image gradient on CUDA sums
by atomics in arbitrary order; under ``torch.use_deterministic_algorithms(True)`` the twin computes
it in a fixed order. Second derivatives and ``torch.func`` take the twin. Not supported: F different
per axis.

A call ``cupy_module.dsepconv.FunctionDSepconv`` needs another import and nothing else, which is why
this package is public, not only the function ``dsepconv`` in it. ``operator`` is the function as
autograd and ``torch.compile`` see it, ``kernels`` are the two kernels, ``twin`` is plain PyTorch,
``alike`` tells whether somebody else's function computes the same.
"""

from pitstop.parts.dsepconv.operator import FunctionDSepconv, ModuleDSepconv, dsepconv
from pitstop.parts.dsepconv.twin import dsepconv_twin

__all__ = ["FunctionDSepconv", "ModuleDSepconv", "dsepconv", "dsepconv_twin"]
