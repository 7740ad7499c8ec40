import pytest

from pitstop.scan.rules.stream_captured_at_import import stream_captured_at_import
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "def launch():\n    s = torch.cuda.current_stream()",
        "torch.cuda.current_stream().synchronize()",  # used at once, not kept
        "stream = lambda: torch.cuda.current_stream()",
        "if __name__ == '__main__':\n    s = torch.cuda.current_stream()",
        "s = torch.cuda.current_stream()\nfor x in loader:\n    model(x)",  # a script's own
    ],
)
def test_leaves_alone(text):
    assert stream_captured_at_import(Source(f"import torch\n{text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "STREAM = torch.cuda.current_stream()",
        "class Stream:\n    ptr = torch.cuda.current_stream().cuda_stream",
        "def launch(stream=torch.cuda.current_stream()):\n    pass",
    ],
)
def test_finds(text):
    (finding,) = stream_captured_at_import(Source(f"import torch\n{text}\n"))
    assert finding.severity == "error"
