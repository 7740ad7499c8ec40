import pytest

from pitstop.scan.rules.dynamo_disable_attribute_ignored import dynamo_disable_attribute_ignored
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "line",
    [
        "torch._dynamo.config.disable = True",
        "self._dynamo_disable = True",  # an option of the project's own
        "module.forward._torchdynamo_disable = True",  # what torch itself puts on functions
        "module._dynamo_disable = False",
        "module._dynamo_disable = True\nif module._dynamo_disable:\n    skip()",
        "model.disabled = True",
    ],
)
def test_leaves_alone(line):
    assert dynamo_disable_attribute_ignored(Source(f"import torch\n{line}\n")) == []


@pytest.mark.parametrize(
    "name",
    ["_dynamo_disable", "_torchdynamo_disable", "_torch_dynamo_disabled", "_compile_disable"],
)
def test_finds(name):
    (finding,) = dynamo_disable_attribute_ignored(Source(f"block.{name} = True\n"))
    assert finding.severity == "error"
    assert finding.cure == "block.forward = torch.compiler.disable(block.forward)"
