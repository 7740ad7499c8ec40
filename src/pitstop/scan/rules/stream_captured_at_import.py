"""PIT211 stream-captured-at-import."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.dsepconv_by_cupy import is_dsepconv
from pitstop.scan.source import Source

STREAMS = ("torch.cuda.current_stream", "torch.cuda.default_stream", "cupy.cuda.get_current_stream")


@rule("PIT211", worth="small")
def stream_captured_at_import(source: Source) -> Iterator[Finding]:
    """The current CUDA stream is read once at import, and kernels are launched on it for ever.

    Which stream is current changes: with `torch.cuda.stream`, in a CUDA graph, on a second GPU.
    A kernel launched on the old one reads its inputs before they are written. The import also
    starts CUDA, after which forked loader workers cannot use it. Ask at every launch.

    Bad:
        class Stream:
            ptr = torch.cuda.current_stream().cuda_stream

    Good:
        class Stream:
            @property
            def ptr(self):
                return torch.cuda.current_stream().cuda_stream
    """
    for call in source.calls(*STREAMS):
        if source.enclosing_function(call) is not None or source.enclosing(call, ast.Lambda):
            continue
        if source.enclosing(call, ast.If) is not None:
            continue  # `if __name__ == "__main__":` runs once, as a script does
        statement = source.statement(call)
        kept = isinstance(statement, ast.Assign | ast.AnnAssign | ast.FunctionDef)
        if kept and (source.enclosing_class(call) or not _is_script(source)):
            ours = ("dsepconv",) if is_dsepconv(source.text) else ()
            yield source.finding(call, severity="error", per="start", changes=ours)


def _is_script(source: Source) -> bool:
    """Whether the module runs things itself: then its own code is where streams belong."""
    return any(isinstance(each, ast.For | ast.While | ast.With) for each in source.tree.body)
