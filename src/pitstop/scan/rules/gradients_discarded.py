"""PIT603 gradients-discarded, where a discriminator learns."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding, Fix
from pitstop.core.rule import rule
from pitstop.scan.branches import names_in
from pitstop.scan.edits import insert
from pitstop.scan.gradients import loss_of
from pitstop.scan.hot import place_of
from pitstop.scan.scopes import reaching
from pitstop.scan.source import Source

DISCRIMINATOR = re.compile(r"^(?:D|net_?[Dd]\w*|D_\w+|(?:\w+_)?(?:discriminator|disc|critic)\w*)$")
GENERATOR = re.compile(r"^(?:G|net_?[Gg]\w*|G_\w+|(?:\w+_)?generator\w*|gen)$")
D_OPTIMIZER = re.compile(
    r"(?:^|[._])(?:d|dis|disc|discriminator|critic|net_?d)_?opt"
    r"|opt(?:im|imizer|imizers)?_?(?:d|dis|disc|discriminator|critic)(?:_|\d|$)",
    re.IGNORECASE,
)
BREAKS = {"detach", "data", "item", "numpy"}
DEPTH = 4  # loss = (real + fake) / 2, fake = criterion(score, 0), score = D(image)


@rule("PIT603")
def gradients_discarded(source: Source) -> Iterator[Finding]:
    """A discriminator's loss is differentiated through the generator, for nothing.

    Its step changes the discriminator alone. What backward computes for the generator on the
    way is thrown away with the next `zero_grad`, and costs about as much as a step of the
    generator. `detach` ends the way at the picture; a picture made under `torch.no_grad` has
    none. The same is lost in a frozen loss network whose weights still ask for gradients, and
    in a discriminator's weights while the generator learns.

    Bad:
        for real in train_loader:
            fake = generator(noise(real))
            d_loss = discriminator(fake).mean() - discriminator(real).mean()
            d_loss.backward()
            optimizer_D.step()

    Good:
        for real in train_loader:
            fake = generator(noise(real))
            d_loss = discriminator(fake.detach()).mean() - discriminator(real).mean()
            d_loss.backward()
            optimizer_D.step()
    """
    seen: set[ast.Call] = set()
    for backward in source.method_calls("backward"):
        if not _only_the_discriminator_steps(source, backward):
            continue
        for judged in _judged(source, loss_of(source, backward), DEPTH):
            fake = judged.args[0]
            if judged in seen or _is_needed(source, judged, backward):
                continue
            if _is_generated(source, fake, DEPTH):
                seen.add(judged)
                what = ast.unparse(fake)
                message = f"`{what}` takes the generator into a backward that is not its own."
                edit = insert(source.extent(fake)[1], ".detach()")
                fix = Fix("Detach it", (edit,)) if isinstance(fake, ast.Name) else None
                yield source.finding(fake, message, fix, confidence="suspected")


def _only_the_discriminator_steps(source: Source, backward: ast.Call) -> bool:
    """Whether the optimizers that step right after it, before gradients go on, are its own."""
    block = source.parent(source.statement(backward))
    function = source.enclosing_function(backward)
    events = source.method_calls("step", "backward", "zero_grad")
    after = [
        each
        for each in sorted(events, key=lambda each: (each.lineno, each.col_offset))
        if each.lineno > backward.lineno and source.enclosing_function(each) is function
    ]
    stepped = []
    for each in after:
        assert isinstance(each.func, ast.Attribute)
        if each.func.attr != "step":
            break
        owner = each.args[0] if each.args else each.func.value
        stepped.append(source.text_of(owner))
        if source.parent(source.statement(each)) is not block:
            return False
    return bool(stepped) and all(map(D_OPTIMIZER.search, stepped))


def _is_needed(source: Source, judged: ast.Call, backward: ast.Call) -> bool:
    """Whether the generator learns from the same score, or a penalty is made of its slope."""
    function = source.enclosing_function(judged)
    for other in source.method_calls("backward"):
        same = source.enclosing_function(other) is function and other is not backward
        if same and judged in _judged(source, loss_of(source, other), DEPTH):
            return True
    fakes = names_in(judged.args[0])
    slopes = source.calls("torch.autograd.grad")
    return any(names_in(each) & fakes for each in slopes)


def _judged(source: Source, value: ast.expr, depth: int) -> Iterator[ast.Call]:
    """Calls of a discriminator that a loss is computed from."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and node.args and _is_called(node, DISCRIMINATOR):
            yield node
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and depth:
            for each in reaching(source, node):
                if each.value is not None and each.how in ("assign", "unpack", "augment"):
                    yield from _judged(source, each.value, depth - 1)


def _is_called(call: ast.Call, name: re.Pattern[str]) -> bool:
    match call.func:
        case ast.Name(id=last) | ast.Attribute(attr=last):
            return bool(name.match(last))
    return False


def _is_generated(source: Source, value: ast.expr, depth: int) -> bool:
    """Whether a value comes out of a generator with its graph."""
    match value:
        case ast.Name() if depth:
            made = source.assigned(value) or []
            return bool(made) and all(_is_generated(source, each, depth - 1) for each in made)
        case ast.Call() if _is_called(value, GENERATOR):
            return not place_of(source, value).evaluation
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if method not in BREAKS:
            return _is_generated(source, owner, depth)
    return False
