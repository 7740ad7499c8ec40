"""PIT407 channels-last-on-5d."""

import ast
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.edits import replace
from pitstop.scan.source import Source

VIDEO_LAYERS = {"torch.nn.Conv3d", "torch.nn.ConvTranspose3d"}
VIDEO_DIMENSIONS = 5  # (B, C, T, H, W)


@rule("PIT407")
def channels_last_on_5d(source: Source) -> Iterator[Finding]:
    """The two-dimensional channels_last format is asked for video.

    Tensors and weights with five dimensions have a format of their own, `channels_last_3d`; the
    other one raises an error for them. Converting only the 2-D layers of a video model gains
    little: each clip that is folded into frames is copied to the other layout and back.

    Bad:
        layer = torch.nn.Conv3d(8, 8, 3)
        layer.to(memory_format=torch.channels_last)

    Good:
        layer = torch.nn.Conv3d(8, 8, 3)
        layer.to(memory_format=torch.channels_last_3d)
    """
    if "channels_last" not in source.text:
        return
    for call in source.method_calls("to", "contiguous"):
        wanted = source.argument(call, "memory_format")
        if wanted is None or source.name_of(wanted) != "torch.channels_last":
            continue
        assert isinstance(call.func, ast.Attribute)
        owner = call.func.value
        if _is_video(source, owner):
            fix = Fix(
                "Ask for the 3-D format", (replace(source, wanted, "torch.channels_last_3d"),)
            )
            message = f"`{source.text_of(owner)}` has five dimensions: channels_last fails on it."
            yield source.finding(call, message, fix, severity="error")
        elif _converts_single_layers(source, call, owner):
            message = (
                "Only the 2-D layers of a video model get the layout: its 3-D layers have "
                "channels_last_3d, and folding clips into frames copies them to and fro."
            )
            changes = ("channels-last",)
            yield source.finding(call, message, confidence="suspected", changes=changes)


def _is_video(source: Source, owner: ast.expr) -> bool:
    """Whether it is certain that a layer or tensor has five dimensions."""
    made = source.assigned(owner) or ([owner] if isinstance(owner, ast.Call) else [])
    names = [source.name_of(each.func) if isinstance(each, ast.Call) else "" for each in made]
    if names and all(each in VIDEO_LAYERS or _holds_them(source, each) for each in names):
        return True
    function = source.enclosing_function(owner)
    written = source.text_of(owner)
    for assign in source.nodes(ast.Assign):
        match assign:
            case ast.Assign(targets=[ast.Tuple(elts=items)], value=ast.Attribute(value, "shape")):
                same = source.enclosing_function(assign) is function
                if same and len(items) == VIDEO_DIMENSIONS and source.text_of(value) == written:
                    return _same_value(source, value, owner)
    return False


def _same_value(source: Source, one: ast.expr, other: ast.expr) -> bool:
    """Whether nothing is assigned to a name between two uses of it."""
    return source.assigned(one) == source.assigned(other)


def _holds_them(source: Source, name: str) -> bool:
    """Whether a class of this file builds 3-D convolutions."""
    layers = [source.enclosing_class(call) for call in source.calls(*VIDEO_LAYERS)]
    return bool(name) and any(each is not None and each.name == name for each in layers)


def _converts_single_layers(source: Source, call: ast.Call, owner: ast.expr) -> bool:
    """Whether a loop over modules picks the 2-D layers, in a project that knows video shapes."""
    loop = source.enclosing_loop(call)
    if not isinstance(loop, ast.For) or not isinstance(owner, ast.Name):
        return False
    over = getattr(loop.iter.func, "attr", "") if isinstance(loop.iter, ast.Call) else ""
    if over not in ("modules", "named_modules") or not source.project.mentions(*VIDEO_LAYERS):
        return False
    return "Conv2d" in source.text_of(loop) and "3d" not in source.text_of(loop)
