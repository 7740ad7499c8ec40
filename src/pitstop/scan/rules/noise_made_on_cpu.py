"""PIT214 noise-made-on-cpu."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.rare import is_rare
from pitstop.scan.source import Source
from pitstop.scan.uploads import uploads

DRAWN = {
    *("torch.randn", "torch.rand", "torch.randint", "torch.randperm", "torch.normal"),
    *("torch.bernoulli", "torch.multinomial"),
}
NUMPY = re.compile(r"^numpy\.random\.(?!seed|default_rng|RandomState)\w+$")
RANDOM = re.compile(r"rand|normal|bernoulli|multinomial")
WRAPS = {"torch.from_numpy", "torch.tensor", "torch.as_tensor", "torch.autograd.Variable"}
ON_GPU = re.compile(r"torch\.cuda\.\w+Tensor")


@rule("PIT214", worth="small")
def noise_made_on_cpu(source: Source) -> Iterator[Finding]:
    """Random numbers are drawn on the CPU in every step, then copied to the GPU.

    Drawing a latent, a mask or labels takes the CPU longer than the GPU, NumPy draws them in
    float64, and the copy waits. `torch.randn(..., device=device)` draws them where they are used:
    other numbers from the same seed, of the same distribution. Keep it where runs on different
    devices must draw the same.

    Bad:
        for batch in train_loader:
            noise = torch.randn(8, 64).to(device)
            model(batch, noise).mean().backward()

    Good:
        for batch in train_loader:
            noise = torch.randn(8, 64, device=device)
            model(batch, noise).mean().backward()
    """
    seen: set[ast.stmt] = set()
    for call in source.nodes(ast.Call) if RANDOM.search(source.text) else ():
        drawn = _drawn(source, call)
        hot = source.hot(call) if drawn else None
        if hot is None or hot.guarded or hot.kind not in ("step", "frame"):
            continue
        statement = source.statement(call)
        if statement not in seen and not is_rare(source, call, hot):
            seen.add(statement)
            message = f"`{drawn}` draws on the CPU what the GPU needs ({hot.reason})."
            yield source.finding(call, message, confidence="suspected")


def _drawn(source: Source, call: ast.Call) -> str:
    """The function that draws, where its numbers go to a GPU at once; empty where they do not."""
    if uploads(source, call) and isinstance(call.func, ast.Attribute):
        return _made_by(source, call.func.value)
    if isinstance(call.func, ast.Name) and call.func.id.endswith("Tensor") and call.args:
        on_gpu = source.assigned(call.func) or []
        if ON_GPU.search("".join(map(source.text_of, on_gpu))):
            return _made_by(source, call.args[0])
    return ""


def _made_by(source: Source, value: ast.expr) -> str:
    """The drawing function behind casts, shapes and ``from_numpy``."""
    while isinstance(value, ast.Call):
        name = source.name_of(value.func)
        if name in DRAWN:
            options = [each.arg for each in value.keywords]  # `randn(*shape)` passes sizes alone
            cpu = source.argument(value, "device") is None and None not in options
            return name if cpu and source.argument(value, "generator") is None else ""
        if NUMPY.match(name):
            return name
        if name in WRAPS and value.args:
            value = value.args[0]
        elif isinstance(value.func, ast.Attribute):
            value = value.func.value
        else:
            return ""
    return ""
