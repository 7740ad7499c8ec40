import pytest

from diagnose.builders import line, operation
from pitstop.diagnose.facts.batching import paid_once_ms


def convolution(pictures, weights, calls=1):
    return operation("convolution", line(1), f"{pictures} {weights}", calls=calls)


SMALL = convolution("float32[64,512,1,1]@cpu", "float32[512,512,3,3]@cpu")
LARGE = convolution("float32[1,32,512,512]@cpu", "float32[32,32,3,3]@cpu")


def test_weights_are_read_once_for_a_stacked_batch_and_pictures_are_not():
    assert paid_once_ms(SMALL, 10.0, on_gpu=False) > 9.0
    assert paid_once_ms(LARGE, 10.0, on_gpu=False) < 0.1


def test_starts_are_paid_once():
    relu = operation("relu", line(1), "float32[64,512,1,1]@cpu", calls=8)
    assert paid_once_ms(relu, 10.0, on_gpu=False) == pytest.approx(0.08)
    assert paid_once_ms(relu, 0.03, on_gpu=False) == pytest.approx(0.03)


def test_a_gpu_is_filled_by_a_larger_batch():
    assert paid_once_ms(LARGE, 10.0, on_gpu=True) == 10.0
