"""PIT709 perceptual-input-not-normalised."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.source import Source

VGG = re.compile(r"vgg", re.IGNORECASE)
# Words of a class that brings its input to the statistics of ImageNet.
SHIFTS = re.compile(
    r"mean|std|normali[sz]|shift|scaling|preprocess|imagenet|0\.4[58]", re.IGNORECASE
)
PERCEPTUAL = re.compile(r"loss|perceptual|lpips|distance", re.IGNORECASE)


@rule("PIT709")
def perceptual_input_not_normalised(source: Source) -> Iterator[Finding]:
    """Pictures go into VGG as they are, without the mean and deviation it was trained with.

    The features are then those of darker and flatter pictures than VGG has seen, and the loss
    weighs the wrong things. Subtract the mean and divide by the deviation of ImageNet first.

    Bad:
        class PerceptualLoss(torch.nn.Module):
            def __init__(self, vgg):
                super().__init__()
                self.vgg = vgg

            def forward(self, x, y):
                return (self.vgg(x) - self.vgg(y)).abs().mean()

    Good:
        class PerceptualLoss(torch.nn.Module):
            def __init__(self, vgg, mean, std):
                super().__init__()
                self.vgg, self.mean, self.std = vgg, mean, std

            def forward(self, x, y):
                x, y = (x - self.mean) / self.std, (y - self.mean) / self.std
                return (self.vgg(x) - self.vgg(y)).abs().mean()
    """
    if "lpips.LPIPS" in source.text:
        yield from _raw_lpips(source)
    text = source.text
    if not ("vgg" in text or "VGG" in text) or "0.485" in text or "0.456" in text:
        return
    if source.project.mentions("torchvision.transforms.Normalize"):
        return
    for owner in source.nodes(ast.ClassDef):
        if not PERCEPTUAL.search(owner.name) or not source.is_a(owner, "torch.nn.Module"):
            continue
        forward = next((f for f in owner.body if getattr(f, "name", "") == "forward"), None)
        use = _first_use(source, forward) if forward is not None else None
        if use is not None and not any(SHIFTS.search(word) for word in _words(source, owner)):
            yield source.finding(use, confidence="suspected")


def _raw_lpips(source: Source) -> Iterator[Finding]:
    """Calls of LPIPS, which wants -1 to 1, with the very pictures that PSNR or SSIM get."""
    made = [source.statement(call) for call in source.calls("lpips.LPIPS")]
    targets = [each for one in made if isinstance(one, ast.Assign) for each in one.targets]
    names = {source.text_of(each) for each in targets}
    for call in source.nodes(ast.Call):
        if source.text_of(call.func) in names and len(call.args) == 2 and not call.keywords:
            measured = set(_measured(source, call))
            if any(source.text_of(each) in measured for each in call.args):
                message = "LPIPS wants -1 to 1 and gets 0 to 1, as PSNR does: `normalize=True`."
                yield source.finding(call, message, severity="error", confidence="suspected")


def _measured(source: Source, call: ast.Call) -> Iterator[str]:
    """Names of pictures from 0 to 1: PSNR and SSIM take them in the same function."""
    for other in source.nodes(ast.Call):
        called = source.text_of(other.func).rpartition(".")[2].lower()
        if called not in ("psnr", "ssim") or "255" in source.text_of(other):
            continue
        if source.enclosing_function(other) is source.enclosing_function(call):
            yield from (source.text_of(each).removesuffix("[None]") for each in other.args)


def _words(source: Source, owner: ast.ClassDef) -> Iterator[str]:
    """Names a class uses, without the reductions ``x.mean()`` and ``torch.std(x)``."""
    for node in ast.walk(owner):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.arg or ""
        elif isinstance(node, ast.Attribute):
            called = isinstance(above := source.parent(node), ast.Call) and above.func is node
            if not called or node.attr not in ("mean", "std", "norm"):
                yield node.attr


def _first_use(source: Source, forward: ast.AST) -> ast.AST | None:
    """The first call in ``forward`` of a network named after VGG, or of its parts in a loop."""
    names = set()
    for node in ast.walk(forward):
        match node:
            case ast.For(ast.Name(name), over) | ast.comprehension(ast.Name(name), over):
                if VGG.search(source.text_of(over)):
                    names.add(name)
    for node in ast.walk(forward):
        if isinstance(node, ast.Call):
            called = source.text_of(node.func)
            if called in names or (called.startswith("self.") and VGG.search(called)):
                return source.statement(node)
    return None
