"""PIT102 loader-without-workers."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import replace, set_argument
from pitstop.scan.loaders import samples_are_on_a_gpu, tries_the_dataset
from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source

WORKERS = re.compile(r"^(?:data_?loader_)?(?:num|n)_workers?(?:_per_gpu)?$", re.IGNORECASE)
IN_MEMORY = re.compile(r"Tensor|Cached|Memory|Synthetic|Fake|Dummy|Toy|Prompt|Token")
READS = re.compile(r"open|read|load|decode|imread|transform|get_frame", re.IGNORECASE)
TITLE = "Start workers"


@rule("PIT102")
def loader_without_workers(source: Source) -> Iterator[Finding]:
    """The loader has no workers: samples are read and decoded while the GPU waits.

    With workers the next batches are prepared beside the step. Data that is in memory already
    needs none, and workers take cores: where the model needs them all, little is saved. Workers
    draw other random numbers: the fix is not a safe one.

    Bad:
        class Clips(torch.utils.data.Dataset):
            pass

        loader = torch.utils.data.DataLoader(Clips(), batch_size=8)

    Good:
        class Clips(torch.utils.data.Dataset):
            pass

        loader = torch.utils.data.DataLoader(Clips(), batch_size=8, num_workers=4)
    """
    for call in source.calls("torch.utils.data.DataLoader"):
        workers = source.argument(call, "num_workers", 5)
        if source.open_ended(call) or (workers is not None and source.literal(workers) != 0):
            continue
        if samples_are_on_a_gpu(source, call) or tries_the_dataset(source, call):
            continue
        if _reads_samples(source, call):
            fix = Fix(TITLE, (set_argument(source, call, "num_workers", "4"),))
            yield source.finding(call, fix=fix, confidence="suspected", changes=("loader",))
    for setting in source.settings:
        if "debug" in source.path or setting.value is False or setting.value != 0:
            continue
        if WORKERS.search(setting.key) and source.project.reads_key(setting.key):
            fix = Fix(TITLE, (replace(source, setting, "4"),))
            yield source.finding(setting, fix=fix, confidence="suspected", changes=("loader",))


def _reads_samples(source: Source, call: ast.Call) -> bool:
    """Whether the dataset is certainly one of the project's, by name not one held in memory."""
    dataset = source.argument(call, "dataset", 0)
    if dataset is None or source.kind_of(dataset) != "dataset":
        return False
    if isinstance(dataset, ast.Name) and _is_any_dataset(source, dataset):
        return False
    makers = [dataset, *(source.assigned(dataset) or [])]
    names = {source.text_of(each).partition("(")[0] for each in makers}
    if any(IN_MEMORY.search(name) for name in names):
        return False
    own = [source.text_of(each) for each in source.nodes(ast.ClassDef) if each.name in names]
    return all(READS.search(text) for text in own if "__getitem__" in text)


def _is_any_dataset(source: Source, name: ast.Name) -> bool:
    """Whether it is a parameter that takes whatever dataset it is given."""
    annotations = [each.annotation for each in reaching(source, name) if each.annotation]
    return any(source.name_of(each).endswith(".Dataset") for each in annotations)
