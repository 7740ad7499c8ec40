"""A vision transformer learns to tell shapes apart, as scripts in the wild do it.

    python -m pitstop.demo.train [--steps 400]

Nothing here is wrong, and much is slow: pictures are decoded in the loop, since the loader has no
workers; every block is checkpointed, though memory is plenty; each attention returns weights that
nobody reads; and the optimizer updates one tensor after the other.
"""

import argparse
import io
import sys

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

SIDE, PATCH = 128, 8
WIDTH, DEPTH, HEADS = 128, 4, 8
CLASSES = 4


class Shapes(Dataset[tuple[Tensor, int]]):
    """Compressed pictures of four shapes, decoded and resized when they are asked for."""

    def __init__(self, number: int = 64) -> None:
        self.files = [self._file(place) for place in range(number)]

    def __len__(self) -> int:
        """So many in an epoch."""
        return 64 * len(self.files)

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        """One picture and its class."""
        with Image.open(io.BytesIO(self.files[place % len(self.files)])) as file:
            picture = file.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
        values = np.asarray(picture, dtype=np.float32) / 255
        return torch.from_numpy(values).permute(2, 0, 1), place % CLASSES

    @staticmethod
    def _file(place: int) -> bytes:
        draws = np.random.default_rng(place)
        canvas = Image.fromarray(draws.integers(0, 90, (384, 384, 3), dtype=np.uint8))
        x, y, size = (int(each) for each in draws.integers(40, 200, 3))
        corners = {
            0: [(x, y), (x + size, y), (x + size, y + size), (x, y + size)],
            1: [(x, y), (x + size, y), (x, y + size)],
            2: [(x, y), (x + size, y + size), (x + size, y), (x, y + size)],
            3: [(x, y + size // 2), (x + size // 2, y), (x + size, y + size // 2)],
        }[place % CLASSES]
        ImageDraw.Draw(canvas).polygon(corners, fill=(220, 180, 40))
        stream = io.BytesIO()
        canvas.save(stream, "JPEG", quality=90)
        return stream.getvalue()


class Block(nn.Module):
    """Attention and two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.after = nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """One block of the transformer."""
        normal = self.before(x)
        attended, _ = self.attention(normal, normal, normal)
        x = x + attended
        result: Tensor = x + self.layers(self.after(x))
        return result


class Transformer(nn.Module):
    """Patches, blocks, a mean, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, WIDTH, PATCH, PATCH)
        self.places = nn.Parameter(torch.zeros(1, (SIDE // PATCH) ** 2, WIDTH))
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, pictures: Tensor) -> Tensor:
        """Logits of the classes."""
        x = self.patches(pictures).flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        logits: Tensor = self.head(x.mean(1))
        return logits


def main() -> None:
    """Train for some steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch", type=int, default=2)
    arguments = parser.parse_args()
    torch.manual_seed(0)
    model = Transformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
    loader = DataLoader(Shapes(), batch_size=arguments.batch, shuffle=True)
    done = 0
    while done < arguments.steps:
        for pictures, classes in loader:
            loss = nn.functional.cross_entropy(model(pictures), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            done += 1
            if done % 50 == 0:
                sys.stdout.write(f"step {done}: loss {loss.item():.3f}\n")
            if done >= arguments.steps:
                break


if __name__ == "__main__":
    main()
