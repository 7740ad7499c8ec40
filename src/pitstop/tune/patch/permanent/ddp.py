"""Change `ddp` in the source."""

from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import add_argument
from pitstop.tune.changes.ddp import READS
from pitstop.tune.patch.sites import Left, Sites, in_file
from pitstop.tune.plan import Options

WRAPPER = "torch.nn.parallel.DistributedDataParallel"
VIEW, STATIC, SEARCH = "gradient_as_bucket_view", "static_graph", "find_unused_parameters"
BY_HAND = (
    "put all but the last backward pass of a step under `no_sync`, as `pitstop explain PIT804` "
    "shows, and where nobody writes into the model's buffers, `model.broadcast_buffers = False`"
)


def ddp(sites: Sites, options: Options) -> Iterator[Edit | Left]:
    """Arguments of each DistributedDataParallel; what needs more than that is said."""
    reads = any(READS.search(source.text) for source in sites.sources)
    for source in sites.sources:
        for call in source.calls(WRAPPER):
            if source.open_ended(call):
                continue
            edits: list[Edit | None] = []
            named = {each.arg: each.value for each in call.keywords}
            if VIEW not in named and not reads:
                edits.append(add_argument(source, call, f"{VIEW}=True"))
            if options.get(STATIC) and STATIC not in named and SEARCH in named:
                keyword = next(each for each in call.keywords if each.arg == SEARCH)
                start, end = source.extent(keyword)
                edits.append(Edit(start, end, f"{STATIC}=True"))
            yield from in_file(source, edits)
    yield Left(BY_HAND)
