import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.rules.unused_suppression import unused_suppression
from pitstop.scan.source import Source

USED = "import torch\nx = torch.zeros(8).to(device)"


@pytest.mark.parametrize(
    "text",
    [
        f"{USED}  # pitstop: ignore[PIT202]\n",
        f"{USED}  # pitstop: ignore\n",
        f"# pitstop: ignore-file[PIT202]\n{USED}\n",
        "x = 1  # noqa: PIT202\n",  # other tools look after those
        "x = '# pitstop: ignore'\n",
    ],
)
def test_leaves_alone(text):
    assert unused_suppression(Source(text)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # pitstop: ignore[PIT202]\n", "x = 1\n"),
        ("x = 1  # pitstop: ignore[PIT202] because\n", "x = 1  # because\n"),
        ("# pitstop: ignore-file\nx = 1\n", "\nx = 1\n"),
        (f"{USED}  # pitstop: ignore[PIT101]\n", f"{USED}\n"),
    ],
)
def test_fix(before, after):
    (finding,) = unused_suppression(Source(before))
    assert finding.fix is not None
    assert apply_fix(before, finding.fix) == after
