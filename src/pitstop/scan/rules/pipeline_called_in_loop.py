"""PIT611 pipeline-called-in-loop."""

import ast
import re
from collections.abc import Iterator

from pitstop.core.finding import Finding
from pitstop.core.rule import rule
from pitstop.scan.branches import depends_on
from pitstop.scan.source import Source

PIPELINE = re.compile(r"^(?!build|create|make|load|get|set|init|prepare|run|log)\w*pipe(?:line)?$")
TIMED = re.compile(r"time\.time\(|perf_counter\(|cuda\.Event\(")


@rule("PIT611")
def pipeline_called_in_loop(source: Source) -> Iterator[Finding]:
    """A pipeline is called in a loop with the same prompt each time.

    Each call encodes the prompt again and denoises one picture. `num_images_per_prompt` with a
    list of generators encodes it once and gives the same pictures, as does the part
    `pictures_of_seeds`. Where memory holds one picture only, encode first and pass
    `prompt_embeds`. The denoising itself gains little.

    Bad:
        for number in range(4):
            generator = torch.Generator().manual_seed(number)
            images += pipeline(prompt=prompt, generator=generator).images

    Good:
        generators = [torch.Generator().manual_seed(number) for number in range(4)]
        images = pipeline(prompt=prompt, generator=generators, num_images_per_prompt=4).images
    """
    if "pipe" not in source.text:
        return
    for call in source.nodes(ast.Call):
        if not PIPELINE.search(source.name_of(call.func).rpartition(".")[2]):
            continue
        prompt = source.argument(call, "prompt", 0)
        loop = _loop_around(source, call)
        if prompt is None or loop is None or TIMED.search(source.text_of(loop)):
            continue  # a benchmark repeats itself on purpose
        if source.argument(call, "prompt_embeds") or not _is_fixed(call, loop):
            continue
        message = f"`{ast.unparse(prompt)}` is encoded again for each picture of the loop."
        yield source.finding(call, message, confidence="suspected", per="validation")


def _loop_around(source: Source, call: ast.Call) -> ast.AST | None:
    """The comprehension or loop that repeats the call, and does not run over its result."""
    inside = source.enclosing(call, ast.ListComp, ast.GeneratorExp)
    if isinstance(inside, ast.ListComp | ast.GeneratorExp) and source.is_inside(call, inside.elt):
        return inside
    return source.enclosing_loop(call)


def _is_fixed(call: ast.Call, loop: ast.AST) -> bool:
    """Whether the loop changes nothing but the generator, and not the pipeline itself."""
    pipeline = ast.unparse(call.func)
    named = [ast.unparse(node) for node in ast.walk(loop) if type(node) is type(call.func)]
    if named.count(pipeline) > 1:
        return False  # such as a LoRA that is loaded each time
    others = [each.value for each in call.keywords if each.arg not in ("generator", None)]
    return not depends_on(loop, [*call.args, *others])
