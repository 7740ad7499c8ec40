import pytest

from pitstop.scan.rules.workers_without_main_guard import workers_without_main_guard
from pitstop.scan.source import Source

HEAD = "from torch.utils.data import DataLoader\n"


@pytest.mark.parametrize(
    "text",
    [
        "for x in DataLoader(clips):\n    pass",
        "for x in DataLoader(clips, num_workers=0):\n    pass",
        "def main():\n    for x in DataLoader(clips, num_workers=2):\n        pass",
        "if __name__ == '__main__':\n    for x in DataLoader(clips, num_workers=2):\n        pass",
        "loader = DataLoader(clips, num_workers=2)",  # made, but not started
        "loader = DataLoader(clips, num_workers=2)\nfor name in names:\n    pass",
        "class A:\n    def go(self):\n        for x in DataLoader(clips, num_workers=2):\n"
        "            pass\n    def run(self):\n        self.go()",
    ],
)
def test_leaves_alone(text):
    assert workers_without_main_guard(Source(f"{HEAD}{text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "for x in DataLoader(clips, num_workers=2):\n    pass",
        "loader = DataLoader(clips, num_workers=2)\nfor e in range(3):\n"
        "    for i, x in enumerate(loader):\n        pass",
        "loader = DataLoader(clips, num_workers=2)\ndef train(epoch):\n"
        "    for x in loader:\n        pass\nfor epoch in range(3):\n    train(epoch)",
        "def train():\n    for x in DataLoader(clips, num_workers=n):\n        pass\ntrain()",
    ],
)
def test_finds(text):
    assert len(workers_without_main_guard(Source(f"{HEAD}{text}\n"))) == 1
