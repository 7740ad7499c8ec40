"""Frames between two key frames: the frozen encoder sees the same key frames for each of them."""

import torch
from torch import Tensor, nn

STEPS, SIDE, WIDTH, BETWEEN = 60, 32, 16, 6


def encoder() -> nn.Module:
    """A frozen feature extractor."""
    layers: list[nn.Module] = [nn.Conv2d(3, WIDTH, 3, padding=1)]
    for _ in range(4):
        layers += [nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, padding=1)]
    return nn.Sequential(*layers).requires_grad_(False)


class Interpolator(nn.Module):
    """A frame at a time between two others."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = encoder()
        self.decoder = nn.Conv2d(2 * WIDTH + 1, 3, 3, padding=1)

    def forward(self, first: Tensor, last: Tensor, times: Tensor) -> Tensor:
        """All frames in between."""
        frames = []
        for time in times:
            a, b = self.encoder(first), self.encoder(last)
            where = torch.full_like(a[:, :1], time.item())
            frames.append(self.decoder(torch.cat([a * (1 - time), b * time, where], 1)))
        return torch.stack(frames, 1)


def main() -> None:
    """Train the decoder."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Interpolator()
    optimizer = torch.optim.Adam(model.decoder.parameters(), 1e-3)
    times = torch.linspace(0, 1, BETWEEN)
    for _ in range(STEPS):
        first, last = torch.rand(2, 1, 3, SIDE, SIDE)
        wanted = torch.lerp(first, last, times.view(-1, 1, 1, 1)).unsqueeze(0)
        loss = (model(first, last, times) - wanted).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("loss", loss.item())


if __name__ == "__main__":
    main()
