import pytest

from pitstop.scan.rules.pipeline_called_in_loop import pipeline_called_in_loop
from pitstop.scan.source import Source


@pytest.mark.parametrize(
    "text",
    [
        "image = pipe(prompt).images[0]",
        "for prompt in prompts:\n    image = pipe(prompt).images[0]",
        "for s in scales:\n    image = pipe(prompt, guidance_scale=s).images[0]",
        "for s in styles:\n    text = prompt + s\n    image = pipe(text).images[0]",
        "for r in rooms:\n    image = pipe(prompt, image=r).images[0]",
        # The pipeline is another one each time.
        "for lora in loras:\n    pipe.load_lora_weights(lora)\n    image = pipe(prompt).images[0]",
        "for p in paths:\n    patch(pipe, p)\n    image = pipe(prompt).images[0]",
        "for _ in range(9):\n    start = time.time()\n    image = pipe(prompt)",  # a benchmark
        "for epoch in epochs:\n    pipeline = build_pipeline(args)",
        "for x in xs:\n    y = resnet(prompt)",
        "for x in xs:\n    y = pipe()",
        "for x in xs:\n    y = pipe(prompt, prompt_embeds=encoded)",  # encoded once
        "names = [save(image) for image in pipe(prompt).images]",
    ],
)
def test_leaves_alone(text):
    assert pipeline_called_in_loop(Source(f"import torch\n{text}\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "for _ in range(4):\n    image = pipeline(prompt, num_inference_steps=20).images[0]",
        "images = [pipeline(prompt, generator=g).images[0] for _ in range(4)]",
        "for seed in seeds:\n    g = make(seed)\n"
        "    image = self.base_pipeline(prompt=prompt, generator=g).images[0]",
        "for prompt in prompts:\n    images = [pipe(prompt).images[0] for _ in range(4)]",
        "while len(images) < 4:\n    images += pipe(args.prompt).images",
    ],
)
def test_finds(text):
    (finding,) = pipeline_called_in_loop(Source(f"import torch\n{text}\n"))
    assert (finding.code, finding.confidence) == ("PIT611", "suspected")
    assert "is encoded again for each picture" in finding.message
