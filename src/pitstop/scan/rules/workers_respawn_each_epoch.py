"""PIT104 workers-respawn-each-epoch."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import add_argument, replace
from pitstop.scan.loaders import is_iterated
from pitstop.scan.source import Source


@rule("PIT104", worth="small")
def workers_respawn_each_epoch(source: Source) -> Iterator[Finding]:
    """Loader workers are started anew for every epoch.

    Each start copies the dataset, imports the script again where processes are spawned, and
    begins with nothing read ahead. It matters when epochs are short or validation is frequent.
    Workers that are kept do not see later changes of the dataset, and their random numbers go
    on instead of starting over: the fix is not a safe one.

    Bad:
        loader = torch.utils.data.DataLoader(clips, num_workers=4)
        for epoch in range(100):
            for batch in loader:
                model(batch).mean().backward()

    Good:
        loader = torch.utils.data.DataLoader(clips, num_workers=4, persistent_workers=True)
        for epoch in range(100):
            for batch in loader:
                model(batch).mean().backward()
    """
    for call in source.calls("torch.utils.data.DataLoader"):
        workers = source.argument(call, "num_workers", 5)
        kept = source.argument(call, "persistent_workers")
        if workers is None or source.literal(workers) == 0 or kept is not None:
            continue
        if source.open_ended(call) or _dataset_changes(source) or _is_off(source, workers):
            continue
        if is_iterated(source, call, again=True):
            fix = _fix(source, call, workers)
            yield source.finding(call, fix=fix, per="epoch", changes=("loader",))
    for setting in source.settings:
        wanted = setting.key == "persistent_workers" and setting.value is False
        if wanted and source.project.reads_key("persistent_workers"):
            fix = Fix("Keep the workers", (replace(source, setting, "true"),))
            yield source.finding(setting, fix=fix, per="epoch", changes=("loader",))


def _fix(source: Source, call: ast.Call, workers: ast.expr) -> Fix | None:
    value = "True"
    if not isinstance(source.literal(workers), int):
        if not isinstance(workers, ast.Name | ast.Attribute):
            return None
        value = f"{source.text_of(workers)} > 0"  # without workers, True is an error
    edit = add_argument(source, call, f"persistent_workers={value}")
    return Fix("Keep the workers", (edit,))


def _dataset_changes(source: Source) -> bool:
    """Whether the file changes a dataset between epochs, which kept workers would not see."""
    calls = source.method_calls("set_epoch", "shuffle", "resample")
    owners = [call.func.value for call in calls if isinstance(call.func, ast.Attribute)]
    return any("dataset" in source.text_of(owner).lower() for owner in owners)


def _is_off(source: Source, workers: ast.expr) -> bool:
    """Whether it is an option of the command line that is 0 unless somebody says otherwise."""
    option = workers.attr if isinstance(workers, ast.Attribute) else ""
    for call in source.method_calls("add_argument"):
        names = [source.literal(each) for each in call.args]
        if option and f"--{option}" in names:
            return bool(source.literal(source.argument(call, "default")) == 0)
    return False
