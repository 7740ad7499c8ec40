import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.pageable_batches import pageable_batches
from pitstop.scan.source import Source

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
LOOP = "for x in loader:\n    x = x.to(device)"


@pytest.mark.parametrize(
    "text",
    [
        f"loader = DataLoader(clips, pin_memory=True)\n{LOOP}",
        f"loader = DataLoader(clips, pin_memory=cuda)\n{LOOP}",
        f"loader = DataLoader(clips, **options)\n{LOOP}",
        "loader = DataLoader(clips)\nfor x in loader:\n    print(x)",  # stays on the CPU
        f"a = DataLoader(clips, pin_memory=True)\nloader = DataLoader(clips)\n{LOOP}",
        f"from accelerate import Accelerator\nAccelerator()\nloader = DataLoader(clips)\n{LOOP}",
        "test_dl = DataLoader(clips)\nfor x in test_dl:\n    x = x.to(device)",  # one pass
        # what is on the GPU cannot be pinned
        "class Rays:\n"
        "    def collate(self, index):\n        return torch.rand(8, device=self.device)\n"
        "    def loader(self):\n        loader = DataLoader(clips, collate_fn=self.collate)\n"
        "        for x in loader:\n            x = x.to(device)",
        # a file of datasets that tries them out
        "class Clips(torch.utils.data.Dataset):\n    pass\nif __name__ == '__main__':\n"
        "    loader = DataLoader(Clips())\n    for x in loader:\n        x.to(torch.uint8)",
    ],
)
def test_leaves_alone(text):
    assert pageable_batches(Source(f"{HEAD}{text}\n")) == []


@pytest.mark.parametrize("given", ["", ", pin_memory=False"])
def test_fix(given):
    text = f"{HEAD}loader = DataLoader(clips{given})\n{LOOP}\n"
    (finding,) = pageable_batches(Source(text))
    assert finding.fix is not None
    assert "DataLoader(clips, pin_memory=True)" in apply_fix(text, finding.fix)


def test_a_setting_counts_where_code_reads_it():
    code = Source("loader = build(cfg['pin_memory'])\n", "train.py")
    config = Source("pin_memory: false\n", "train.yaml")
    project = Project.of([read_facts(code), read_facts(config)])
    (finding,) = pageable_batches(config.in_project(project))
    assert finding.fix is not None
    assert apply_fix(config.text, finding.fix, config.path) == "pin_memory: true\n"
    assert pageable_batches(config) == []
