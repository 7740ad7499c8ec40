import pytest

from pitstop.scan.rules.memory_estimate_hard_coded import memory_estimate_hard_coded
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "activation_gb = measure()\ntotal_gb = model_gb + activation_gb",
        "activation_gb = batch * 2\ntotal_gb = model_gb + activation_gb",
        "activation_gb = 0\ntotal_gb = model_gb + activation_gb",  # a sum starts here
        "activation_gb = 10",  # a limit, a setting: nobody adds it to other memory
        "activation_gb = 10\nprint(activation_gb)",
        "activation_gb = 10\nx = activation_gb + offset",
        "activation_dropout = 0.1\ny = x_gb + activation_dropout",
        "intermediate_size = 3072\ny = memory + intermediate_size",  # a width, in no unit
        "def f():\n    activation_gb = 10\ndef g(activation_gb):\n    return a_gb + activation_gb",
    ],
)
def test_leaves_alone(text):
    assert memory_estimate_hard_coded(Source(f"import torch\n{text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "activation_memory_gb = 2.0\ntotal = model_gb + optimizer_gb + activation_memory_gb",
        "overhead_bytes = 2 * 1024**3\nneed = weights_bytes + overhead_bytes",
        "workspace_mb = 512\ntotal_mb = (model_mb + workspace_mb) * 1.2",
    ],
)
def test_finds(text):
    (finding,) = memory_estimate_hard_coded(Source(f"import torch\n{text}\n"))
    assert (finding.code, finding.span.line) == ("PIT507", 2)
