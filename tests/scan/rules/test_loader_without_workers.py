import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.loader_without_workers import loader_without_workers
from pitstop.scan.source import Source

HEAD = """\
from torch.utils.data import DataLoader, Dataset, TensorDataset
class Clips(Dataset):
    def __getitem__(self, index):
        return read(self.paths[index])
class PromptDataset(Dataset):
    def __getitem__(self, index):
        return {"prompt": self.prompt, "index": index}
class Points(Dataset):
    def __getitem__(self, index):
        return self.points[index]
"""


@pytest.mark.parametrize(
    "text",
    [
        "DataLoader(Clips(), num_workers=2)",
        "DataLoader(Clips(), num_workers=args.workers)",
        "DataLoader(Clips(), **options)",
        "DataLoader(dataset)",  # unknown: it may be in memory
        "DataLoader(TensorDataset(x))",
        "DataLoader(CachedClips())",
        "DataLoader(PromptDataset())",  # nothing to read or decode
        "DataLoader(Points())",
        "def loader(clips: Dataset):\n    return DataLoader(clips)",  # any of them
        "def main():\n    DataLoader(Clips())",  # a file of datasets tries one
    ],
)
def test_leaves_alone(text):
    assert loader_without_workers(Source(f"{HEAD}{text}\n")) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("DataLoader(Clips())", "DataLoader(Clips(), num_workers=4)"),
        ("DataLoader(Clips(), num_workers=0)", "DataLoader(Clips(), num_workers=4)"),
        ("c = Clips()\nDataLoader(c)", "c = Clips()\nDataLoader(c, num_workers=4)"),
    ],
)
def test_fix(before, after):
    text = f"{HEAD}{before}\n"
    (finding,) = loader_without_workers(Source(text))
    assert finding.fix is not None
    assert not finding.fix.safe
    assert apply_fix(text, finding.fix) == f"{HEAD}{after}\n"


@pytest.mark.parametrize(
    ("path", "config", "found"),
    [
        ("train.yaml", "data:\n  num_workers: 0 # they hang\n", 1),
        ("train.yaml", "data:\n  num_workers: 4\n", 0),
        ("train.yaml", "data:\n  other_workers: 0\n", 0),
        ("train_debug.yaml", "data:\n  num_workers: 0\n", 0),  # on purpose
    ],
)
def test_config_files(path, config, found):
    code = Source("loader = build(num_workers=cfg.num_workers)\n", "train.py")
    settings = Source(config, path)
    project = Project.of([read_facts(code), read_facts(settings)])
    assert len(loader_without_workers(settings.in_project(project))) == found
    assert loader_without_workers(settings) == []  # nobody reads it


def test_workers_that_options_leave_out_are_added_where_they_are_written():
    """Beside them, a second ``num_workers=`` would be an error."""
    source = Source(HEAD + "o = dict(num_workers=0)\nloader = DataLoader(Clips(), **o)\n")
    (finding,) = loader_without_workers(source)
    fixed = apply_fix(source.text, finding.fix)
    assert fixed == source.text.replace("num_workers=0", "num_workers=4")


def test_leaves_alone_what_is_made_on_a_gpu():
    text = HEAD.replace("read(self.paths[index])", "read(self.paths[index]).cuda()")
    assert loader_without_workers(Source(f"{HEAD}DataLoader(Clips())\n")) != []
    assert loader_without_workers(Source(f"{text}DataLoader(Clips())\n")) == []
