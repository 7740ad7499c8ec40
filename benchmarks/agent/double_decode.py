"""Clips from files: each is decoded once to know its size, and once more for its frames."""

import zlib
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

CLIPS, FRAMES, SIDE = 240, 8, 64
FOLDER = Path(__file__).parent / "data"


def write() -> None:
    """The files, once."""
    FOLDER.mkdir(exist_ok=True)
    drawn = torch.Generator().manual_seed(0)
    for number in range(CLIPS):
        clip = torch.randint(0, 64, (FRAMES, 3, SIDE, SIDE), generator=drawn, dtype=torch.uint8)
        (FOLDER / f"{number:03}.clip").write_bytes(zlib.compress(bytes(clip.flatten().tolist()), 6))


def decode(path: Path) -> Tensor:
    """All frames of a clip."""
    data = bytearray(zlib.decompress(path.read_bytes()))
    return torch.frombuffer(data, dtype=torch.uint8).view(-1, 3, SIDE, SIDE)


class Clips(Dataset[Tensor]):
    """The first and the last frame of each clip."""

    def __init__(self) -> None:
        self.paths = sorted(FOLDER.glob("*.clip"))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, place: int) -> Tensor:
        last = len(decode(self.paths[place])) - 1
        frames = [decode(self.paths[place])[number] for number in (0, last // 2, last)]
        return torch.stack(frames).float() / 255


def main() -> None:
    """Train on them."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if not FOLDER.exists():
        write()
    model = nn.Conv2d(3, 3, 3, padding=1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for frames in DataLoader(Clips(), batch_size=4, shuffle=True):
        first, middle, last = frames.unbind(1)
        loss = (model((first + last) / 2) - middle).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
