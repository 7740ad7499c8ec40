import pytest

from pitstop.scan.run import Options, scan

LOSSES = """
import torch
class {first}(torch.nn.Module):
    def forward(self, x):
        return x.detach() if x.mean() > 0 else x
class Spare(torch.nn.Module):
    def __init__(self):
        super(Spare, self).__init__()
    def forward(self, x):
        return x.detach() if x.mean() > 0 else x
{after}
"""
TAKES = "from models.losses import Focal\n"


def severities(folder, train, after="", config="", first="Focal"):
    (folder / "models").mkdir()
    (folder / "models/losses.py").write_text(LOSSES.format(first=first, after=after))
    (folder / "train.py").write_text(train)
    (folder / "train.yaml").write_text(config)
    found = scan([folder], Options(use_cache=False, jobs=1, select=("PIT201",))).findings
    return [each.severity for each in found]


def test_a_finding_in_a_class_that_nobody_names_is_a_note(tmp_path):
    assert severities(tmp_path, TAKES) == ["warning", "note"]


@pytest.mark.parametrize(
    ("train", "after", "config"),
    [
        ("from models.losses import Focal, Spare\n", "", ""),
        ("from models.losses import *\n", "", ""),
        ("from models import losses\n", "", ""),
        ("import models.losses\n", "", ""),
        ("import models.losses as all_of_them\n", "", ""),
        (TAKES, "by_name = {'spare': Spare}", ""),
        (TAKES + "built = module.Spare()\n", "", ""),
        (TAKES, "", "loss:\n  target: models.losses.Spare\n"),
        ("", "", ""),  # nobody takes anything from it: a file that is scanned alone, or a script
    ],
)
def test_what_may_be_used_is_told_as_ever(tmp_path, train, after, config):
    assert severities(tmp_path, train, after, config) == ["warning", "warning"]


def test_what_is_registered_is_used(tmp_path):
    first = "Focal(torch.nn.Module):\n    pass\n@register\nclass Other"
    assert severities(tmp_path, TAKES, first=first) == ["warning", "note"]
