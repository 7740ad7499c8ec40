import pytest

from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.source import Source


def hot(text, path="train.py"):
    source = Source("import torch\n" + text, path)
    return source.hot(source.calls("probe")[0])


# A class with two steps, and a loop that calls one of them before it probes.
STEP = """
class T:
    def update(self, x):
        x.backward()
    def push_weights(self, x):
        x.backward()
"""
CALLS = "        for i in range(9):\n            {}(i)\n            probe()\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("for x in train_loader:\n    probe()", "step"),
        ("for i, x in enumerate(tqdm(self.loader)):\n    probe()", "step"),
        ("for a, b in zip(loader, other):\n    probe()", "step"),
        ("for i in range(len(dataloader)):\n    probe()", "step"),
        ("for x in logger.log_every(data_loader, 10):\n    probe()", "step"),
        ("batches_in = torch.utils.data.DataLoader(d)\nfor x in batches_in:\n    probe()", "step"),
        ("for x in val_loader:\n    probe()", "validation"),
        ("with torch.no_grad():\n    for x in loader:\n        probe()", "validation"),
        ("for x in loader:\n    with torch.no_grad():\n        probe()", "validation"),
        ("for i in range(n):\n    probe()\n    loss.backward()", "step"),
        ("while go:\n    x = next(data_iter)\n    probe()", "step"),
        ("for t in scheduler.timesteps:\n    probe()", "step"),
        ("for frame in video:\n    probe()", "frame"),
        ("for i in range(num_frames):\n    probe()", "frame"),
        ("for t in tiles[1:]:\n    probe()", "frame"),
        ("y = [probe() for x in loader]", "step"),
        ("class N(torch.nn.Module):\n    def forward(self, x):\n        probe()", "step"),
        ("class N(Base):\n    def validation_step(self, x):\n        probe()", "validation"),
        ("class D(Dataset):\n    def __getitem__(self, i):\n        probe()", "sample"),
        ("def train_step(x):\n    probe()", "step"),
        (f"{STEP}    def epoch(self):\n{CALLS.format('self.update')}", "step"),
        (f"{STEP}def epoch(t):\n{CALLS.format('t.push_weights')}", "step"),
        (f"def update(x):\n    x.backward()\ndef epoch():\n{CALLS.format('update')}", "step"),
    ],
)
def test_hot_by_itself(text, kind):
    found = hot(text)
    assert found is not None
    assert found.kind == kind
    assert not found.guarded


@pytest.mark.parametrize(
    "text",
    [
        "probe()",
        "for epoch in range(9):\n    for x in loader:\n        pass\n    probe()",
        "for x in loader:\n    pass\nelse:\n    probe()",
        "for x in probe(loader):\n    pass",
        "for loader in loaders:\n    probe()",
        "for x in model_loader:\n    probe()",
        "for name in names:\n    probe()",
        "class N:\n    def forward(self):\n        probe()",
        "class Table:\n    def __getitem__(self, i):\n        probe()",
        "for x in loader:\n    def later():\n        probe()",
        "for i in range(num_batches):\n    probe()",
        "for i in range(self.n_batches):\n    probe()",
        "for i in range(num_condition_frames):\n    probe()",
        "y = [probe() for t in timesteps]",
        "def update(x):\n    x.backward()\nfor x in rows:\n    table.update(x)\n    probe()",
        "def f():\n    for x in rows:\n        x.backward()\nfor i in rows:\n    f()\n    probe()",
    ],
)
def test_not_hot(text):
    assert hot(text) is None


@pytest.mark.parametrize(
    "guard",
    [
        "if step % 100 == 0:",
        "if not step % 100:",
        "if rank == 0 and step % 100 == 0:",
        "if step == 0:",
        "if self.debug:",
        "if verbose:",
        "if not hasattr(self, 'mask'):",
        "if step in (1, 10):",
        "if self.global_step in [1, 10]:",
        "if step == len(loader) - 1:",
        "if step not in (1, 10):\n        continue\n    if x:",
        "if x:\n        if step % 100:\n            continue\n    if x:",
        "if torch.isnan(step).any():",
        "if not torch.isfinite(step).all():",
        "due = step % 100 == 0\n    if due:",
        "if step % 100:\n        continue\n    if x:",
        "try:\n        run()\n    except ValueError:",
    ],
)
def test_rare_branches_are_guarded(guard):
    found = hot(f"for step in loader:\n    {guard}\n        probe()")
    assert found is not None
    assert found.guarded


@pytest.mark.parametrize(
    "guard",
    [
        "if x:",
        "if step % 100 != 0:",
        "if step % 100:",
        "if mask is None:",
        "if n == 0:",
        "if use_amp:",
        "if step not in (1, 10):",
        "if step == other:",
        "ready = ready or x\n    if ready:",
        "one = two or x\n    two = not one\n    if one:",
        "if x:\n        continue\n    if x:",
    ],
)
def test_common_branches_are_not_guarded(guard):
    found = hot(f"for step in loader:\n    {guard}\n        probe()")
    assert found is not None
    assert not found.guarded


def test_the_other_branch_of_a_guard_is_common_and_a_slot_filled_once_is_rare():
    other = hot("for s in loader:\n    if s % 9 == 0:\n        pass\n    else:\n        probe()")
    slot = hot("for s in loader:\n    if self.m is None:\n        self.m = probe()")
    assert other is not None
    assert not other.guarded
    assert slot is not None
    assert slot.guarded


@pytest.mark.parametrize("end", ["break", "return", "raise E", "sys.exit(0)"])
def test_a_branch_that_leaves_the_loop_runs_once(end):
    branch = f"        if s > n:\n            probe()\n            {end}\n"
    found = hot(f"def f():\n    for s in loader:\n{branch}")
    assert found is not None
    assert found.guarded


def test_a_global_filled_on_the_first_step_is_rare_and_a_name_of_the_call_is_not():
    step = "def train_step():\n    {}if first == 0:\n        first = probe()"
    kept, own = hot(step.format("global first\n    ")), hot(step.format(""))
    assert kept is not None
    assert kept.guarded
    assert own is not None
    assert not own.guarded


def test_a_branch_that_leaves_an_inner_loop_or_one_call_runs_often():
    inner = hot(
        "for b in loader:\n    for x in b:\n        if x:\n            probe()\n            break"
    )
    early = hot(
        "class N(nn.Module):\n    def forward(self, x):\n        if x:\n            return probe()"
    )
    assert inner is not None
    assert not inner.guarded
    assert early is not None
    assert not early.guarded


def test_validation_now_and_then_is_counted_per_validation():
    found = hot(
        "for s in loader:\n    if s % 9 == 0:\n        for v in val_loader:\n            probe()"
    )
    assert found is not None
    assert (found.kind, found.guarded) == ("validation", False)


def test_a_function_that_returns_early_most_of_the_time_is_rare():
    found = hot("def train_step(step):\n    if step % 100 != 0:\n        return\n    probe()")
    assert found is not None
    assert found.guarded


@pytest.mark.parametrize(
    "block",
    [
        "    if mode:\n        if step % 9:\n            return\n    probe()",
        "    with lock:\n        if step % 9 != 0 or busy:\n            return\n        probe()",
        "    if mode:\n        if not self.should_log:\n            return\n        probe()",
        "    try:\n        if step not in [1]: return\n        probe()\n    finally: f()",
    ],
)
def test_code_behind_an_exit_that_is_mostly_taken_is_rare(block):
    found = hot(f"def train_step(step):\n{block}")
    assert found is not None
    assert found.guarded


def test_loops_of_tests_heat_nothing_and_their_doubles_are_not_called():
    sources = project(
        lib="class A:\n    def crunch_it(self):\n        probe()\n",
        tests__test_a="for x in loader:\n    thing.crunch_it()\n",
    )
    assert hot_in(sources, "lib.py") is None


def test_a_guard_around_the_loop_says_nothing_about_its_body():
    found = hot("if epoch % 5 == 0:\n    for x in loader:\n        probe()")
    assert found is not None
    assert not found.guarded


def test_the_reason_names_the_place():
    found = hot("for x in train_loader:\n    probe()")
    assert found is not None
    assert found.reason == "loop over train_loader at train.py:2"
    forward = hot("class Encoder(nn.Module):\n    def forward(self):\n        probe()")
    assert forward is not None
    assert forward.reason == "forward of Encoder"


def project(**files):
    texts = {f"{name}.py".replace("__", "/"): text for name, text in files.items()}
    whole = Project.of([read_facts(Source(text, path)) for path, text in texts.items()])
    return {path: Source(text, path, whole) for path, text in texts.items()}


def hot_in(sources, path):
    source = sources[path]
    return source.hot(source.calls("probe")[0])


def test_heat_spreads_through_imports_and_methods_across_files():
    sources = project(
        train="from lib.steps import go\nfor x in loader:\n    go(x)\n",
        lib__steps="from .deep import Thing\ndef go(x):\n    t = Thing()\n    t.crunch_it(x)\n",
        lib__deep="class Thing:\n    def crunch_it(self, x):\n        self.inner(x)\n"
        "    def inner(self, x):\n        probe()\n",
    )
    found = hot_in(sources, "lib/deep.py")
    assert found is not None
    assert (found.kind, found.depth) == ("step", 3)
    assert found.reason == "called from Thing.crunch_it at lib/deep.py:3"


def test_inherited_methods_are_found_in_the_base_class_of_another_file():
    sources = project(
        base="class Base:\n    def work(self):\n        probe()\n",
        net="from base import Base\nclass N(Base):\n    def forward(self):\n        self.work()\n",
    )
    assert hot_in(sources, "base.py") is not None


def test_common_method_names_do_not_spread_heat():
    sources = project(
        train="for x in loader:\n    writer.update(x)\n",
        lib="class Writer:\n    def update(self, x):\n        probe()\n",
    )
    assert hot_in(sources, "lib.py") is None


def test_a_method_that_many_classes_define_does_not_spread_heat():
    classes = "".join(f"class C{i}:\n    def crunch_it(self):\n        probe()\n" for i in range(5))
    sources = project(train="for x in loader:\n    thing.crunch_it()\n", lib=classes)
    assert hot_in(sources, "lib.py") is None


def test_a_guarded_call_makes_a_function_rare_unless_another_call_is_not():
    rare = project(a="def f():\n    probe()\nfor s in loader:\n    if s % 9 == 0:\n        f()\n")
    both = project(
        a="def f():\n    probe()\nfor s in loader:\n    f()\n    if s % 9 == 0:\n        f()\n"
    )
    first, second = hot_in(rare, "a.py"), hot_in(both, "a.py")
    assert first is not None
    assert first.guarded
    assert second is not None
    assert not second.guarded


def test_heat_ends_after_a_few_calls_and_survives_recursion():
    chain = "".join(f"def f{i}():\n    f{i + 1}()\n" for i in range(20))
    sources = project(
        a=f"for x in loader:\n    f0()\n{chain}def f20():\n    probe()\n",
        b="def g():\n    g()\n    probe()\nfor x in loader:\n    g()\n",
    )
    assert hot_in(sources, "a.py") is None
    assert hot_in(sources, "b.py") is not None


@pytest.mark.parametrize("first", ["val_loader", "train_loader"])
def test_training_wins_where_validation_calls_the_same_function(first):
    second = "train_loader" if first == "val_loader" else "val_loader"
    loops = "".join(f"for x in {name}:\n    f()\n" for name in (first, second))
    deep = project(
        a=f"def g():\n    probe()\ndef f():\n    g()\n{loops}for v in dev_loader:\n    g()\n"
    )
    found = hot_in(deep, "a.py")
    assert found is not None
    assert found.kind == "step"


def test_once_per_epoch_is_not_hot_in_a_called_function():
    sources = project(
        a="def report():\n    probe()\n"
        "for epoch in range(9):\n    for x in loader:\n        pass\n    report()\n"
    )
    assert hot_in(sources, "a.py") is None
