"""Shared pipelines: one set of weights in memory, and a pipeline for each LoRA on top of it.

Why plain diffusers needs more: a base and a LoRA pipeline loaded one after the other hold all
weights twice, 24 GB each for FLUX. One pipeline that loads and unloads adapters holds them once.
But whoever calls it while another switches gets the other's adapter. A LoRA that was fused and
taken off leaves rounding in the base.

``shared_pipelines`` copies the pipeline and each of its modules, and none of its parameters and
buffers. A LoRA puts its layers into its own tree of modules, and the base runs as if it were alone:
its pictures are equal to the last bit. Schedulers and tokenizers are copied too, so each pipeline
may have a thread of its own. Without a LoRA the copy is a pipeline for validation: in evaluation
mode while the base trains, on the weights as they are at that moment.

The floor: the adapter's own weights, and a few MB of Python objects. Not supported: weights that
accelerate moves between devices, modules whose ``forward`` was exchanged, fused LoRAs: they are
refused. Move the base to its device first. Like peft, loading a LoRA turns ``requires_grad`` of all
other parameters off; so a base in training is refused where one is asked for. The twin is
``from_pretrained`` once more.

``pictures_of_seeds`` draws several pictures of one prompt in one call: the prompt is encoded once,
and each picture has the noise that it has alone. It is the same picture up to rounding.
"""

import copy
from collections.abc import Iterable, Iterator
from types import MethodType
from typing import Any, NoReturn, TypeVar

import torch
from torch import nn

from pitstop.core.errors import PitstopError

Pipeline = TypeVar("Pipeline")  # of diffusers, which the part does not import


def shared_pipelines(base: Pipeline, *loras: Any) -> tuple[Pipeline, ...]:
    """A pipeline for each LoRA, on the weights of ``base``, which stays as it is.

    dusk, noir = shared_pipelines(base, "loras/dusk", "loras/noir")
    (validation,) = shared_pipelines(trained, None)

    Each is what ``load_lora_weights`` takes, or None for a pipeline without a LoRA.
    """
    modules = _modules(base)
    for name, module in modules.items():
        _refuse_what_copies_would_share(name, module)
        if loras and any(each is not None for each in loras):
            _refuse_training(name, module)
    _forbid_fusing(base)
    return tuple(_shared(base, list(modules.values()), each) for each in loras)


def pictures_of_seeds(
    pipeline: Any, prompt: str | None, seeds: Iterable[int], *, at_once: int = 4, **named: Any
) -> list[Any]:
    """One picture for each seed, as ``pipeline(prompt, generator=...)`` draws it, several at once.

    images = pictures_of_seeds(pipeline, "a red circle", range(8), height=512, width=512)

    Instead of a prompt its embeddings may be named, for one picture.
    """
    if prompt is not None and not isinstance(prompt, str):
        raise PitstopError("pictures of several prompts: ask for those of one prompt at a time")
    if at_once < 1:
        raise PitstopError(f"at_once={at_once}: at least one picture at a time")
    images: list[Any] = []
    generators = [torch.Generator().manual_seed(each) for each in seeds]
    for start in range(0, len(generators), at_once):
        some = generators[start : start + at_once]
        repeated = _repeated(prompt, named, len(some))
        images.extend(pipeline(generator=some, **named | repeated).images)
    return images


def _repeated(prompt: str | None, named: dict[str, Any], count: int) -> dict[str, Any]:
    """A prompt is repeated by its pipeline; embeddings of one picture are by us."""
    if prompt is not None:
        return {"prompt": prompt, "num_images_per_prompt": count}
    return {
        name: value.expand(count, *value.shape[1:])
        for name, value in named.items()
        if name.endswith("embeds") and isinstance(value, torch.Tensor)
    }


def _modules(pipeline: Any) -> dict[str, nn.Module]:
    components = getattr(pipeline, "components", None)
    if not isinstance(components, dict) or not callable(pipeline):
        raise PitstopError(f"a {type(pipeline).__name__} is no pipeline of diffusers")
    return {name: each for name, each in components.items() if isinstance(each, nn.Module)}


def _shared(base: Pipeline, modules: list[nn.Module], lora: Any) -> Pipeline:
    held = {id(each): each for module in modules for each in _weights(module)}
    pipeline: Any = copy.deepcopy(base, held)
    for module in _modules(pipeline).values():
        module.eval()
    if lora is not None:
        if not hasattr(pipeline, "load_lora_weights"):
            raise PitstopError(f"a {type(base).__name__} takes no LoRA")
        learns = [(each, each.requires_grad) for module in modules for each in module.parameters()]
        pipeline.load_lora_weights(lora)
        for parameter, before in learns:
            parameter.requires_grad_(before)
    shared: Pipeline = pipeline
    return shared


def _weights(module: nn.Module) -> Iterator[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()


def _refuse_what_copies_would_share(name: str, module: nn.Module) -> None:
    for each in module.modules():
        if hasattr(each, "_hf_hook"):
            raise PitstopError(
                f"accelerate moves {name} between devices: share it before it is offloaded"
            )
        if not isinstance(each.__dict__.get("forward", None), MethodType | None):
            raise PitstopError(
                f"the forward of a {type(each).__name__} in {name} was exchanged, and a copy would "
                "call the one of the base: share the pipeline before"
            )


def _refuse_training(name: str, module: nn.Module) -> None:
    if module.training:
        raise PitstopError(f"{name} is in training mode, and a LoRA would freeze it: eval() first")
    if getattr(module, "peft_config", None):
        raise PitstopError(f"{name} has an adapter already: take it off, or share it before")


def _forbid_fusing(pipeline: Any) -> None:
    """On the pipeline itself, so that its copies have it too."""
    if hasattr(pipeline, "fuse_lora"):
        pipeline.fuse_lora = _refuse_fusing


def _refuse_fusing(*_: object, **__: object) -> NoReturn:
    raise PitstopError("fusing a LoRA would write into weights that other pipelines share")
