"""Super-resolution by tiles: for each of them Python asks the device whether it is flat."""

import torch
from torch import Tensor, nn

PICTURES, SIDE, TILE = 60, 96, 8
FLAT = 0.002  # the variance below which a tile is left as it is


class Enhancer(nn.Module):
    """A small network of convolutions, tile by tile."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 3, padding=1)
        )

    def forward(self, picture: Tensor) -> Tensor:
        """The enhanced picture."""
        out = picture.clone()
        for i in range(0, SIDE, TILE):
            for j in range(0, SIDE, TILE):
                tile = picture[:, :, i : i + TILE, j : j + TILE]
                if tile.var().item() > FLAT:
                    out[:, :, i : i + TILE, j : j + TILE] = self.net(tile)
        return out


def main() -> None:
    """Enhance some pictures."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    enhancer = Enhancer().eval()
    total = 0.0
    for _ in range(PICTURES):
        picture = torch.rand(1, 3, SIDE, SIDE)
        with torch.no_grad():
            total += enhancer(picture).mean().item()
    print("mean", total / PICTURES)


if __name__ == "__main__":
    main()
