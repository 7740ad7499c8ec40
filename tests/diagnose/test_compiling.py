import pytest

from pitstop.diagnose.facts.compiling import first_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (
            "Unsupported Tensor.item() call Explanation: long Hint: x",
            "Unsupported Tensor.item() call",
        ),
        ("Call to print. Hint: drop it", "Call to print"),
        ("tensor 'x' size mismatch at index 0.", "tensor 'x' size mismatch at index 0"),
        ("first\nsecond", "first"),
        ("x" * 200, "x" * 160 + " ..."),
        ("", ""),
    ],
)
def test_keeps_the_first_sentence(reason, words):
    assert first_words(reason) == words
