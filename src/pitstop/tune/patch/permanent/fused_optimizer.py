"""Change `fused-optimizer` in the source."""

from collections.abc import Iterator

from pitstop.core.evidence import Optimizer
from pitstop.core.finding import Edit
from pitstop.scan.edits import add_argument
from pitstop.tune.changes.fused_optimizer import CHOICES, FUSED
from pitstop.tune.patch.sites import Left, Sites, calls_at, in_file
from pitstop.tune.plan import Options

FUSED_ON_CPU_ONLY = {"Adagrad"}  # on a GPU only lately
FOREACH_ON_CPU = {"Adadelta", "Adafactor", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"}


def fused_optimizer(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """An argument of every optimizer of torch's that leaves the choice open."""
    made = {each.made: each for each in sites.evidence.optimizers}
    for optimizer in made.values():
        way = _way(optimizer, sites.device)
        if not way or optimizer.fused or optimizer.foreach is not None:
            continue
        yield from _argument(sites, optimizer, way)


def _way(optimizer: Optimizer, device: str) -> str:
    on_cpu = device == "cpu"
    if optimizer.name in FUSED and (on_cpu or optimizer.name not in FUSED_ON_CPU_ONLY):
        return "fused"
    return "foreach" if on_cpu and optimizer.name in FOREACH_ON_CPU else ""


def _argument(sites: Sites, optimizer: Optimizer, way: str) -> Iterator[Edit | Left]:
    spot = sites.find(optimizer.made)
    for call in calls_at(*spot) if spot else ():
        assert spot is not None
        source = spot[0]
        name = source.name_of(call.func)
        if not name.startswith("torch.optim.") or name.rpartition(".")[2] != optimizer.name:
            continue
        if any(each.arg is None for each in call.keywords):
            break  # it may be in there already
        if not any(each.arg in CHOICES for each in call.keywords):
            yield from in_file(source, [add_argument(source, call, f"{way}=True")])
        return
    where = sites.show(optimizer.made)
    yield Left(f"{optimizer.name} of {where} is built in a roundabout way: give it {way}=True")
