"""A denoiser that computes two heads, and trains one of them."""

import torch
from torch import Tensor, nn

STEPS, BATCH, SIDE, WIDTH = 60, 2, 32, 24


class Denoiser(nn.Module):
    """A trunk, and a head for the noise and one for the variance."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Conv2d(3, WIDTH, 3, padding=1)
        self.noise = nn.Sequential(*self.layers(2), nn.Conv2d(WIDTH, 3, 3, padding=1))
        self.variance = nn.Sequential(*self.layers(8), nn.Conv2d(WIDTH, 3, 3, padding=1))

    @staticmethod
    def layers(number: int) -> list[nn.Module]:
        """Convolutions of one width."""
        return [nn.Conv2d(WIDTH, WIDTH, 3, padding=1) for _ in range(number)]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Both heads."""
        shared = torch.relu(self.trunk(x))
        return self.noise(shared), self.variance(shared)


def main() -> None:
    """Train it."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Denoiser()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(STEPS):
        clean = torch.rand(BATCH, 3, SIDE, SIDE)
        noise = 0.1 * torch.randn_like(clean)
        found, _ = model(clean + noise)
        loss = (found - noise).square().mean() + 0.1 * found.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
