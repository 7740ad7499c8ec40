"""What the first run tells of a script before anything is tried on it."""

import pytest

from pitstop.core.evidence import NOWHERE, Evidence, Operation, Settings
from pitstop.tune.seen import own_precision

CONVOLUTION, PRODUCT = (
    Operation(name, NOWHERE, "float32[4,4]", 1, 1.0) for name in ("aten::conv2d", "aten::mm")
)


@pytest.mark.parametrize(
    ("settings", "operation", "precision"),
    [
        (None, CONVOLUTION, "float32"),
        (Settings("cuda:0", autocast="bfloat16", tf32_cudnn=True), CONVOLUTION, "bfloat16"),
        (Settings("cpu", autocast="float16"), PRODUCT, "float16"),
        (Settings("cuda:0", tf32_cudnn=True), CONVOLUTION, "tfloat32"),  # as torch is by default
        (Settings("cuda:0", tf32_cudnn=True), PRODUCT, "float32"),
        (Settings("cuda:0", tf32_matmul=True), PRODUCT, "tfloat32"),
        (Settings("cpu", tf32_cudnn=True), CONVOLUTION, "float32"),
    ],
)
def test_a_script_rounds_to_what_it_computes_in(settings, operation, precision):
    evidence = Evidence(settings=settings, operations=(operation,))
    assert own_precision(evidence) == precision
