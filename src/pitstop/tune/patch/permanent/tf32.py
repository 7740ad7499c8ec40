"""Change `tf32` in the source."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Edit
from pitstop.scan.edits import replace
from pitstop.tune.patch.sites import Left, Sites, configure, in_file, quoted, set_up
from pitstop.tune.plan import Options

OLD, NEW = "torch.backends.cuda.matmul.allow_tf32", "torch.backends.cuda.matmul.fp32_precision"
CUDNN = "torch.backends.cudnn.allow_tf32"
CUDNN_NEW = "torch.backends.cudnn.conv.fp32_precision"
SETTER = "torch.set_float32_matmul_precision"


def tf32(sites: Sites, _: Options) -> Iterator[Edit | Left]:
    """Below the imports, or by the interface that the source uses: they must not be mixed."""
    settings = sites.evidence.settings
    cudnn_off = settings is not None and not settings.tf32_cudnn
    if _assigns(sites, NEW):
        yield from configure(sites, NEW, '"tf32"')
        if cudnn_off:
            yield from configure(sites, CUDNN_NEW, '"tf32"')
        return
    if _assigns(sites, OLD):
        yield from configure(sites, OLD, "True")
    else:
        yield from _called(sites)
    if cudnn_off:
        yield from configure(sites, CUDNN, "True")


def _called(sites: Sites) -> Iterator[Edit | Left]:
    found = False
    for source in sites.sources:
        for call in source.calls(SETTER):
            if len(call.args) == 1 and source.enclosing(call, ast.If, ast.Try) is None:
                found = True
                if source.literal(call.args[0]) == "highest":
                    yield from in_file(
                        source, [replace(source, call.args[0], quoted(source, "high"))]
                    )
    if not found:
        script = sites.files.get(sites.script)
        high = quoted(script.source, "high") if script else '"high"'
        yield from set_up(sites, f"{{torch}}.set_float32_matmul_precision({high})")


def _assigns(sites: Sites, target: str) -> bool:
    return any(
        source.name_of(each.targets[0]) == target
        for source in sites.sources
        for each in source.nodes(ast.Assign)
    )
