import pytest

from pitstop.scan.rules.python_objects_in_dataset import python_objects_in_dataset
from pitstop.scan.source import Source

HEAD = """\
import cv2, torch
class Clips(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.kept = {}
        self.cache = {}
        self.frames = []
"""


@pytest.mark.parametrize(
    "line",
    [
        "self.frames.append((path, caption))",  # small, and harmless
        "self.kept[path] = len(path)",
        "self.cache[path] = count",
        "frames.append(torch.load(path))",  # not the dataset's own
        "self.cache[path] = self.lengths[path]",
    ],
)
def test_leaves_alone(line):
    assert python_objects_in_dataset(Source(f"{HEAD}        {line}\n")) == []


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("self.kept[path] = cv2.imread(path)", 4),
        ("self.frames.append(torch.zeros(8))", 6),
        ("self.frames.append(to_tensor(cv2.imread(path)))", 6),
        ("x = self.read(path)\n        self.cache[path] = x", 5),
    ],
)
def test_points_at_the_container(line, at):
    (finding,) = python_objects_in_dataset(Source(f"{HEAD}        {line}\n"))
    assert finding.span is not None
    assert finding.span.line == at


def test_only_datasets_are_copied_to_workers():
    text = "import cv2\nclass Viewer:\n    def __init__(self):\n        self.cache = {}\n"
    assert python_objects_in_dataset(Source(f"{text}        self.cache[p] = cv2.imread(p)\n")) == []
