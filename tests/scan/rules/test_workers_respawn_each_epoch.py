import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.workers_respawn_each_epoch import workers_respawn_each_epoch
from pitstop.scan.source import Source

HEAD = "import torch\nfrom torch.utils.data import DataLoader\n"
EPOCHS = "for epoch in range(9):\n    for x in loader:\n        x.backward()"


@pytest.mark.parametrize(
    "text",
    [
        f"loader = DataLoader(clips)\n{EPOCHS}",  # no workers at all
        f"loader = DataLoader(clips, num_workers=0)\n{EPOCHS}",
        f"loader = DataLoader(clips, num_workers=2, persistent_workers=keep)\n{EPOCHS}",
        f"loader = DataLoader(clips, num_workers=2, **options)\n{EPOCHS}",
        "loader = DataLoader(clips, num_workers=2)\nfor x in loader:\n    x.backward()",  # once
        "loader = DataLoader(clips, num_workers=1)\nviews = render_set(loader)",
        f"loader = DataLoader(clips, num_workers=2)\ntrain_dataset.set_epoch(1)\n{EPOCHS}",
        "p.add_argument('--workers', default=0)\n"
        f"loader = DataLoader(clips, num_workers=args.workers)\n{EPOCHS}",
        # a loader that is new in every call has nothing to keep
        "class T:\n    def check(self):\n        loader = DataLoader(clips, num_workers=2)\n"
        "        for x in loader:\n            pass\n    def fit(self):\n"
        "        for epoch in range(9):\n            self.check()",
        "for name in names:\n    loader = DataLoader(clips, num_workers=2)\n    evaluate(loader)",
        "for name in names:\n    loader = DataLoader(clips, num_workers=2)\n    for x in loader:\n"
        "        model(x)",
        # prompts are sampled once, whatever prepares the loader
        "loader = DataLoader(clips, num_workers=2)\nloader = accelerator.prepare(loader)\n"
        "for x in loader:\n    pass",
        "def test_loader():\n    return DataLoader(clips, num_workers=2)\nx.backward()",
        "def loader():\n    return DataLoader(clips, num_workers=2)",  # nothing trains here
    ],
)
def test_leaves_alone(text):
    assert workers_respawn_each_epoch(Source(f"{HEAD}{text}\n")) == []


@pytest.mark.parametrize(
    ("loader", "added"),
    [
        ("DataLoader(clips, num_workers=2)", "True"),
        ("DataLoader(clips, 8, False, None, None, 2)", "True"),
        ("DataLoader(clips, num_workers=args.n)", "args.n > 0"),  # True is an error without workers
    ],
)
def test_fix(loader, added):
    text = f"{HEAD}loader = {loader}\n{EPOCHS}\n"
    (finding,) = workers_respawn_each_epoch(Source(text))
    assert finding.fix is not None
    assert not finding.fix.safe
    fixed = apply_fix(text, finding.fix)
    assert f", persistent_workers={added})" in fixed
    assert workers_respawn_each_epoch(Source(fixed)) == []


@pytest.mark.parametrize(
    "text",
    [
        "def train_loader():\n    return DataLoader(clips, num_workers=n)\nx.backward()",
        "loader = DataLoader(clips, num_workers=2)\nrunner.fit(model, loader)",
        "loader = DataLoader(clips, num_workers=2)\ntrain(model=model, batches=loader, epochs=9)",
        "options = dict(num_workers=2)\nloader = DataLoader(clips, **options)\n" + EPOCHS,
        "loader = DataLoader(clips, num_workers=2)\nfor e in range(9):\n    validate(loader)",
        "class T:\n    def __init__(self):\n        self.val = DataLoader(clips, num_workers=2)\n"
        "    def check(self):\n        for x in self.val:\n            pass\n    def fit(self):\n"
        "        for epoch in range(9):\n            self.check()",
    ],
)
def test_finds(text):
    assert len(workers_respawn_each_epoch(Source(f"{HEAD}{text}\n"))) == 1


def test_reads_config_files_only_where_code_reads_the_key():
    source = Source("loader:\n  persistent_workers: false\n", "train.yaml")
    assert workers_respawn_each_epoch(source) == []


@pytest.mark.parametrize(
    ("after", "count"), [("", 0), ("    loss.backward()\n", 1), ("solver.train()\n", 1)]
)
@pytest.mark.parametrize("chosen", [False, True])
def test_a_loader_that_is_given_to_code_that_does_not_train_is_read_once(after, count, chosen):
    reader = f"{HEAD}def make_loader():\n    return DataLoader(frames, num_workers=2)\n"
    texts = {
        "reader.py": reader,
        "train.py": "loss.backward()\n",
        "play.py": f"from reader import make_loader\nfor x in make_loader():\n    show(x)\n{after}",
    }
    if chosen:  # of two of that name, as for datasets
        texts["other.py"] = reader
        texts["play.py"] = texts["play.py"].replace(
            "for x", "if small:\n    from other import make_loader\nfor x", 1
        )
    sources = [Source(text, path) for path, text in texts.items()]
    project = Project.of(map(read_facts, sources))
    assert len(workers_respawn_each_epoch(sources[0].in_project(project))) == count
