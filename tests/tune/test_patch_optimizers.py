"""What changes of optimizers write into the source."""

from dataclasses import replace

import pytest

from pitstop.tune.patch.patch import make_patch
from tune.sourced import NET, TRAIN, evidence_of, wanted, write

LIBRARY = "    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)"


def patch_of(folder, **groups):
    evidence = evidence_of(folder)
    optimizers = tuple(replace(each, **groups) for each in evidence.optimizers)
    evidence = replace(evidence, optimizers=optimizers)
    return make_patch(wanted("merge-groups"), evidence, ["train.py"], folder)


def lines(patch):
    return [each[1:] for each in patch.text.splitlines() if each[:1] == "+" and each[:3] != "+++"]


def test_groups_are_merged_behind_the_building_of_their_optimizer(tmp_path):
    patch = patch_of(write(tmp_path, train=TRAIN, net=NET), groups=80, unlike_groups=3)
    assert patch.placed == ("merge-groups",)
    assert lines(patch) == [
        "from pitstop.parts import merge_groups",
        "    merge_groups(optimizer)",
    ]


def test_groups_that_all_differ_stay(tmp_path):
    folder = write(tmp_path, train=TRAIN, net=NET)
    assert patch_of(folder, groups=3, unlike_groups=3).text == ""


@pytest.mark.parametrize(
    "built", ["    return torch.optim.AdamW(p)", "    optimizer = wrap(torch.optim.AdamW(p))"]
)
def test_an_optimizer_without_a_name_is_told(built, tmp_path):
    patch = patch_of(write(tmp_path, train=TRAIN.replace(LIBRARY, built), net=NET), unlike_groups=0)
    assert patch.text == ""
    assert "write `merge_groups(optimizer)` behind it" in str(patch)
