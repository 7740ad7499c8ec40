import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.cache_emptied_in_loop import cache_emptied_in_loop
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "torch.cuda.empty_cache()",
        "for epoch in range(9):\n    torch.cuda.empty_cache()",  # once per epoch
        "for i, x in enumerate(loader):\n    if i % 100 == 0:\n        torch.cuda.empty_cache()",
        "for x in loader:\n    try:\n        step(x)\n    except RuntimeError:\n"
        "        torch.cuda.empty_cache()",  # after running out of memory
        "def sample_images(step):\n    torch.cuda.empty_cache()\n"
        "for x in loader:\n    sample_images(1)",  # called every step, but seldom does something
        "def log(step):\n    if step % 100:\n        return\n    torch.cuda.empty_cache()\n"
        "for step, x in enumerate(loader):\n    log(step)",
    ],
)
def test_leaves_alone(text):
    assert cache_emptied_in_loop(Source(f"import torch\n{text}\n")) == []


def test_found_in_a_function_that_the_loop_calls():
    text = "import torch\ndef free():\n    torch.cuda.empty_cache()\nfor x in loader:\n    free()\n"
    (finding,) = cache_emptied_in_loop(Source(text))
    assert "loop over loader" in finding.message
    assert finding.fix is not None
    assert "    pass\n" in apply_fix(text, finding.fix)


def test_no_fix_within_an_expression():
    text = "import torch\nfor x in loader:\n    torch.cuda.empty_cache() if x else None\n"
    (finding,) = cache_emptied_in_loop(Source(text))
    assert finding.fix is None
