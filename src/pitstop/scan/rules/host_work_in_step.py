"""PIT212 host-work-in-step, in loops over frames and pictures."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding, Severity
from pitstop.core.rule import rule
from pitstop.scan.frames import DECODES
from pitstop.scan.hot import place_of
from pitstop.scan.source import Loop, Source

READS = re.compile(
    r"(?:^|[._])(?:cap|capture|video_?capture|reader|vidcap|video)\.(?:read|retrieve)$"
)
WRITES = re.compile(
    r"(?:^|[._])(?:imwrite|imsave|save_image|write_png|write_jpeg)$"
    r"|(?:^|[._])(?:(?:vid\w*_?)?(?:writer|out)|video|vid_out|out_video)\.write$",
    re.IGNORECASE,
)
WORKS = re.compile(r"^cv2\.(?:resize|warp\w+|remap|GaussianBlur)$")
# ffmpeg in a process of its own works beside the network: moviepy and imageio are no trouble.
FRAMES = re.compile(r"frame|video", re.IGNORECASE)  # others are a few test pictures, mostly
SLOW = re.compile(r"pipe(?:line)?$")  # takes seconds for each picture
BESIDE = re.compile(
    r"\b(?:threading|_thread|Thread|ThreadPool\w*|Queue|multiprocessing|concurrent)\b"
)


@rule("PIT212", worth="small")
def host_work_in_step(source: Source) -> Iterator[Finding]:
    """Pictures are read and written between the calls of the network, which waits meanwhile.

    A hand-written generator that reads files, an augmentation in the loop, a picture drawn in
    every step: nothing else happens meanwhile. What makes batches belongs in a dataset whose
    loader has workers. The rest can be done by a thread, or every hundred steps. OpenCV and PIL
    let go of Python's lock while they decode and encode, so one thread that reads the next
    pictures and one that writes the last hide both.

    Bad:
        for path in paths:
            frame = cv2.imread(path)
            with torch.no_grad():
                result = model(to_tensor(frame))
            cv2.imwrite(name(path), to_picture(result))

    Good:
        frames = pool.map(cv2.imread, paths)
        for path, frame in zip(paths, frames):
            with torch.no_grad():
                result = model(to_tensor(frame))
            pool.submit(cv2.imwrite, name(path), to_picture(result))
    """
    if not source.inference_loops or BESIDE.search(source.text):
        return
    for loop, network in source.inference_loops.items():
        read, written = (
            _first(source, loop, each) for each in ((DECODES, READS, WORKS), (WRITES,))
        )
        if read is not None and written is not None and not SLOW.search(network):
            lines = f"lines {read.lineno} and {written.lineno}"
            made = "resized" if WORKS.search(_called(source, read)) else "read"
            message = f"Pictures are {made} and written ({lines}) while `{network}` waits."
            worth: Severity = "warning" if FRAMES.search(source.text_of(loop)) else "note"
            first = min(read, written, key=_line)
            yield source.finding(first, message, severity=worth, confidence="suspected")


def _first(source: Source, loop: ast.AST, names: tuple[re.Pattern[str], ...]) -> ast.Call | None:
    """The first call in a loop, in every round of it, that one of these names fits."""
    found = [
        call
        for call in source.nodes(ast.Call)
        if any(each.search(_called(source, call)) for each in names) and _is_in(source, call, loop)
    ]
    return min(found, key=_line, default=None)


def _called(source: Source, call: ast.Call) -> str:
    """``cv2.imwrite``, and ``save_image`` of ``Image.fromarray(x).save(path)``."""
    match call.func:
        case ast.Attribute(attr="save", value=ast.Call(func=inner)):
            return "save_image" if source.name_of(inner).endswith("fromarray") else ""
    return source.name_of(call.func)


def _is_in(source: Source, call: ast.Call, loop: ast.AST) -> bool:
    inner: Loop | None = source.enclosing_loop(call)
    while inner is not None and inner is not loop:
        inner = source.enclosing_loop(inner)
    return inner is loop and not place_of(source, call).guarded


def _line(call: ast.Call) -> int:
    return call.lineno
