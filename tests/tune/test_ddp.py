"""`ddp` as a change: two ranks send less, and compute what they did."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from pitstop.core.evidence import NOWHERE, Evidence, ModuleCall
from pitstop.parts import ddp_rounds
from pitstop.parts.still_buffers import StillBuffers, stay
from pitstop.profile.start import launch
from pitstop.profile.start.options import Options
from pitstop.tune.change import find_change
from pitstop.tune.patch.patch import make_patch
from pitstop.tune.plan import BEGIN, Plan, Wanted, read_outcomes
from tune.sourced import write

slow = pytest.mark.slow  # two ranks each time: `make test-slow`


SCRIPT = """
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import profile

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.spare = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(4, 8)
        self.register_buffer("table", torch.linspace(0.5, 1.5, 8))
    def forward(self, x, spare=False):
        h = self.first(x) + (self.spare(x) if spare else 0)
        return self.second(torch.relu(h) * self.table)

distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(Net(), find_unused_parameters=True)
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
torch.manual_seed(rank)  # each rank has data of its own
with profile() as seen:
    for epoch in range(3):
        for batch in range(7):  # three, three, and a short round of one
            loss = model(torch.randn(5, 4), SPARE).square().mean()
            loss.backward()
            if batch % 3 == 2 or batch == 6:
                norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
                optimizer.zero_grad()
                if rank == 0:
                    print(float(norm), float(loss))
weights = torch.cat([each.flatten() for each in model.parameters()])
other = weights.clone()
distributed.broadcast(other, 0)
assert torch.equal(other, weights), "ranks have parted"
if rank == 0:
    print(float(weights.detach().double().square().sum()))
    names = [each.name for each in seen.events()]
    print("sent", names.count("gloo:all_reduce"), names.count("gloo:broadcast"))
distributed.destroy_process_group()
"""


def script(spare="False"):
    return SCRIPT.replace("SPARE", spare)


class Ran:
    """What two ranks left behind."""

    def __init__(self, folder, source, *changes):
        here = folder / f"run{len(list(folder.iterdir()))}"
        here.mkdir()
        (here / "train.py").write_text(source)
        plan = Plan(tuple(changes), earnest=True, folder=str(here)).to_json()
        words = launch.command_line((str(here / "train.py"),), False, 2)
        also = ((BEGIN, plan),) if changes else ()
        options = Options(folder=str(here), also=also, record=False)
        with (here / "out").open("wb") as out, (here / "err").open("wb") as err:
            self.code = launch.run(words, options, (out, err))
        self.complained = (here / "err").read_text()
        lines = (here / "out").read_text().splitlines()
        self.numbers = [
            float(each) for line in lines if not line.startswith("sent") for each in line.split()
        ]
        sent = next((line.split()[1:] for line in lines if line.startswith("sent")), ["-1", "-1"])
        self.reduced, self.broadcast = map(int, sent)
        self.outcomes = read_outcomes(here) if changes else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def plain(folder):
    ran = Ran(folder, script())
    assert ran.code == 0, ran.complained
    assert len(ran.numbers) == 2 * 9 + 1
    return ran


@slow
def test_two_ranks_send_less_and_compute_the_same(folder, plain):
    ran = Ran(folder, script(), Wanted("ddp"))
    assert ran.code == 0, ran.complained
    assert ran.outcomes[0].applied > 0
    assert ran.numbers == pytest.approx(plain.numbers, rel=1e-5)
    assert ran.broadcast < plain.broadcast - 15  # of a buffer before each pass; at first it is sent
    assert ran.reduced < plain.reduced


@slow
def test_a_graph_that_never_changes_is_searched_once(folder, plain):
    ran = Ran(folder, script(), Wanted("ddp", {"static_graph": True}))
    assert ran.code == 0, ran.complained
    assert ran.outcomes[0].applied > 0
    assert ran.numbers == pytest.approx(plain.numbers, rel=1e-5)


@slow
@pytest.mark.parametrize("spare", ["epoch > 0", "epoch == 0"])
def test_a_graph_that_changes_ends_in_an_error_and_not_in_other_numbers(folder, spare):
    ran = Ran(folder, script(spare), Wanted("ddp", {"static_graph": True}))
    assert ran.code != 0
    assert "static_graph" in ran.complained
    assert len(ran.numbers) == 2 * 3  # of the epoch before


class Model:
    """What rounds know of a DistributedDataParallel."""

    require_backward_grad_sync = True

    def __init__(self):
        self.weight = nn.Parameter(torch.zeros(1))

    def parameters(self):
        return [self.weight]


@pytest.fixture
def averaged(monkeypatch):
    """How often gradients were averaged by hand."""
    times = []
    monkeypatch.setattr(ddp_rounds, "average", times.append)
    return times


def passes(rounds, *steps, optimizer):
    """For each step of so many passes, which of them send."""
    found = []
    for count in steps:
        sends = []
        for _ in range(count):
            rounds.forward_begins()
            sends.append(rounds.model.require_backward_grad_sync)
        rounds.step_begins(optimizer)
        found.append("".join("s" if each else "." for each in sends))
    return found


def test_the_last_pass_of_a_round_sends(averaged):
    model = Model()
    rounds = ddp_rounds.Rounds(model)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    assert passes(rounds, 3, 3, 3, 3, optimizer=optimizer) == ["sss", "sss", "..s", "..s"]
    assert averaged == []
    assert passes(rounds, 1, 3, 6, optimizer=optimizer) == [".", "..s", "..s..s"]
    assert averaged == [model]  # of the round of one pass, before its step
    rounds.forward_begins()
    rounds.asked_for()
    rounds.asked_for()
    assert len(averaged) == 2
    rounds.close()
    assert model.require_backward_grad_sync


def test_steps_of_other_lengths_and_of_other_models_spare_nothing(averaged):
    model, other = Model(), torch.optim.SGD([nn.Parameter(torch.zeros(1))], 1.0)
    rounds = ddp_rounds.Rounds(model)
    optimizer = torch.optim.SGD(model.parameters(), 1.0)
    assert passes(rounds, 1, 1, optimizer=other) == ["s", "s"]
    rounds = ddp_rounds.Rounds(model)
    assert passes(rounds, 3, 2, 3, 3, optimizer=optimizer) == ["sss", "ss", "sss", "sss"]
    rounds = ddp_rounds.Rounds(model)
    assert passes(rounds, 1, 1, 1, optimizer=optimizer) == ["s", "s", "s"]
    assert averaged == []


def test_a_script_that_says_itself_what_sends_is_noticed():
    rounds = ddp_rounds.Rounds(Model())
    assert rounds.left_alone
    rounds.model.require_backward_grad_sync = False
    assert not rounds.left_alone
    rounds.close()
    assert not rounds.model.require_backward_grad_sync


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(3, 3))


class Indexed(Table):
    def forward(self, x):
        return x[self.table.view(-1).long()] * self.table[0].to(x.dtype) + self.table.shape[0]


class Assigned(Table):
    def forward(self, x):
        self.table = self.table * 0.9 + x
        return x


class Slice(Table):
    def forward(self, x):
        self.table[0] = x
        return x


class InPlace(Table):
    def forward(self, x):
        self.table.mul_(0.9).add_(x)
        return x


class HandedOn(Table):
    def forward(self, x):
        return torch.add(x, 1, out=self.table)


class Renamed(Table):
    def forward(self, x):
        table = self.table
        table += x
        return table


class ByName(Table):
    def forward(self, x):
        setattr(self, "ta" + "ble", x)
        return x


@pytest.mark.parametrize(
    ("kind", "still"),
    [
        (Indexed, True),
        (Assigned, False),
        (Slice, False),
        (InPlace, False),
        (HandedOn, False),
        (Renamed, False),
        (ByName, False),
        (lambda: nn.BatchNorm1d(3), False),
        (lambda: nn.LayerNorm(3), True),
        (lambda: nn.utils.spectral_norm(nn.Linear(3, 3)), False),
        (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)), False),
    ],
)
def test_buffers_stay_where_the_source_only_reads_them(kind, still):
    assert stay(nn.Sequential(kind(), nn.Linear(3, 3))) == still


def test_what_writes_from_outside_is_seen():
    model = Indexed()
    seen = StillBuffers(model)
    assert seen.are_still()
    model(torch.ones(9, 3))
    assert seen.are_still()
    model.table.mul_(2)
    assert not seen.are_still()
    seen = StillBuffers(model)
    model.table = torch.ones(3, 3)
    assert not seen.are_still()


BUILT = "model = DistributedDataParallel(net, find_unused_parameters=True)"


@pytest.mark.parametrize(
    ("options", "line", "more"),
    [
        ({}, f"{BUILT[:-1]}, gradient_as_bucket_view=True)", ""),
        (
            {"static_graph": True},
            "model = DistributedDataParallel(net, static_graph=True, gradient_as_bucket_view=True)",
            "",
        ),
        ({}, None, "print(net.weight.grad)\n"),
    ],
)
def test_the_patch_has_what_the_source_can_say(tmp_path, options, line, more):
    head = "import torch\nfrom torch.nn.parallel import DistributedDataParallel\n"
    write(tmp_path, train=f"{head}{BUILT}\n{more}")
    patch = make_patch((Wanted("ddp", options),), Evidence(), ["train.py"], tmp_path)
    added = [each[1:] for each in patch.text.splitlines() if each.startswith("+")][1:]
    assert added == ([line] if line else [])
    assert "no_sync" in patch.unplaced[0][1]


def test_it_is_not_tried_where_no_model_is_shared_by_ranks():
    useless = find_change("ddp").when.useless
    alone = ModuleCall("net", "Net", NOWHERE, -1, "")
    assert useless(Evidence(calls=(alone,)))
    shared = replace(alone, kind="DistributedDataParallel")
    assert not useless(Evidence(calls=(shared, alone)))
    assert not useless(Evidence())
