"""Serves a base and a LoRA pipeline over HTTP and compares their pictures, as found."""

import argparse
import io
import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import torch
from diffusers import FluxPipeline

from .data import prepare

PROMPTS = (
    "a large red circle above a small white square on blue ground",
    "a small yellow triangle left of a large purple circle on green ground",
)


@dataclass(frozen=True, slots=True)
class InferenceConfig:
    """Settings of every picture; the defaults are the full size."""

    side: int = 1024
    num_inference_steps: int = 28
    guidance_scale: float = 3.5
    max_sequence_length: int = 512
    dtype: torch.dtype = torch.bfloat16


SMALL = InferenceConfig(
    side=128, num_inference_steps=4, max_sequence_length=64, dtype=torch.float32
)


class FluxServer:
    """One pipeline for plain pictures, one that takes LoRAs."""

    def __init__(self, config: InferenceConfig, folder: Path, loras: Path, device: str) -> None:
        self.config = config
        self.loras = loras
        self.current_lora: str | None = None
        self.base_pipeline = FluxPipeline.from_pretrained(
            folder / "model", torch_dtype=config.dtype, use_safetensors=True
        ).to(device)
        self.lora_pipeline = FluxPipeline.from_pretrained(  # pit: lora-pipeline
            folder / "model", torch_dtype=config.dtype, use_safetensors=True
        ).to(device)
        for pipeline in (self.base_pipeline, self.lora_pipeline):
            pipeline.set_progress_bar_config(disable=True)

    def available_loras(self) -> list[str]:
        """Names of the folders that hold LoRA weights."""
        names = []
        for folder in sorted(self.loras.iterdir()):
            if any(folder.glob("*.safetensors")):
                names.append(folder.name)  # noqa: PERF401
        return names

    def load_lora(self, name: str) -> None:
        """Change the LoRA pipeline's adapter, unless it is there already."""
        if name == self.current_lora:
            return
        if self.current_lora is not None:
            self.lora_pipeline.unload_lora_weights()
        self.lora_pipeline.load_lora_weights(self.loras / name)
        self.current_lora = name

    def generate(self, prompt: str, lora: str | None, seed: int) -> bytes:
        """One picture as a PNG file."""
        pipeline = self.base_pipeline
        if lora is not None:
            self.load_lora(lora)
            pipeline, prompt = self.lora_pipeline, f"{prompt}, <{lora}-style>"
        image = pipeline(
            prompt=prompt,
            height=self.config.side,
            width=self.config.side,
            num_inference_steps=self.config.num_inference_steps,
            guidance_scale=self.config.guidance_scale,
            max_sequence_length=self.config.max_sequence_length,
            generator=torch.Generator().manual_seed(seed),
        ).images[0]
        buffer = io.BytesIO()
        image.save(buffer, format="PNG")
        return buffer.getvalue()


def start_http(server: FluxServer) -> HTTPServer:
    """Answer GET /loras and POST /generate on a free local port, in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer(json.dumps(server.available_loras()).encode())

        def do_POST(self) -> None:
            wish = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(server.generate(wish["prompt"], wish["lora"], wish["seed"]))

        def answer(self, body: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            pass

    http = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return http


class Interface:
    """The front end: a tab for single pictures, a tab that compares base and LoRA."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.quick_choices = self.get_lora_options()
        self.comparison_choices = self.get_lora_options()  # pit: lora-options-again

    def get_lora_options(self) -> list[str]:
        """Ask the server which LoRAs it has."""
        with urlopen(f"{self.url}/loras") as answer:  # noqa: S310
            options: list[str] = json.load(answer)
        return options

    def generate(self, prompt: str, lora: str | None, seed: int) -> bytes:
        """Ask the server for one picture."""
        wish = json.dumps({"prompt": prompt, "lora": lora, "seed": seed}).encode()
        with urlopen(Request(f"{self.url}/generate", data=wish)) as answer:  # noqa: S310
            picture: bytes = answer.read()
        return picture

    def compare(self, number: int, out: Path) -> str:
        """A picture without and one with a LoRA for the same prompt and seed."""
        lora = self.comparison_choices[number % len(self.comparison_choices)]
        prompt = PROMPTS[number % len(PROMPTS)]
        (out / f"{number:03d}_base.png").write_bytes(self.generate(prompt, None, seed=number))
        (out / f"{number:03d}_{lora}.png").write_bytes(self.generate(prompt, lora, seed=number))
        return lora


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Serve base and LoRA pictures side by side.")
    parser.add_argument("--small", action="store_true", help="tiny networks, for a CPU")
    parser.add_argument("--requests", type=int, default=4, help="comparisons to ask for")
    parser.add_argument("--data", type=Path, help="folder for generated data")
    parser.add_argument("--loras", type=Path, help="folder of LoRAs; default: the published ones")
    parser.add_argument("--out", type=Path, default=Path("runs/lora_diffusion/served"))
    parser.add_argument("--device", choices=("cpu", "cuda"))
    arguments = parser.parse_args(argv)
    if arguments.requests < 1:
        parser.error("--requests must be at least 1")
    if arguments.loras is not None and not any(arguments.loras.glob("*/*.safetensors")):
        parser.error(f"--loras: no LoRA below {arguments.loras}; train one first")
    if arguments.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: no GPU that torch can use")
    return arguments


def main(argv: list[str] | None = None) -> None:
    """Start the server, open the interface and ask for comparisons."""
    arguments = parse_arguments(argv)
    device = arguments.device or ("cuda" if torch.cuda.is_available() else "cpu")
    folder = prepare(small=arguments.small, root=arguments.data)
    config = SMALL if arguments.small else InferenceConfig()
    server = FluxServer(config, folder, arguments.loras or folder / "loras", device)
    http = start_http(server)
    interface = Interface(f"http://127.0.0.1:{http.server_port}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for number in range(arguments.requests):
        start = time.perf_counter()
        lora = interface.compare(number, arguments.out)
        seconds = time.perf_counter() - start
        print(f"[request {number + 1}/{arguments.requests}] lora={lora} time={seconds:.3f}s")
    http.shutdown()
    line = f"[done] requests={arguments.requests} batch=2"
    if device == "cuda":
        line += f" peak_mem={torch.cuda.max_memory_allocated() / 2**20:.0f}MiB"
    print(line, flush=True)


if __name__ == "__main__":
    main()
