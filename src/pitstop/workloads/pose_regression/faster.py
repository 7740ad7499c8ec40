"""Modules and renderer after the pit stop: the same weights, names and results, sooner."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .backbone import EfficientNet
from .model import EncoderLayer
from .quality import CONTRAST_FLOOR, NEIGHBOURS, TAPS, USUAL, _shape_table
from .splat import (
    BLOCKED,
    BLUR,
    CHUNK,
    FAINTEST,
    NEAR,
    TILE,
    Camera,
    Gaussians,
    _covariance_on_image,
    _Ellipses,
    _opacity,
    gsplat,
    render_with_gsplat,
)
from .views import ViewSynthesizer

LAST_USED = 4  # of the six resolutions: nobody reads what is smaller
VIEWS = 16  # rendered at once; their tiles fill a GPU


class ShortBackbone(EfficientNet):
    """Ends with the last feature that anybody reads."""

    def endpoints(self, images: Tensor) -> dict[str, Tensor]:
        """The last features of each used resolution, by name; images are (B, 3, H, W)."""
        found: dict[str, Tensor] = {}
        features = self.stem(images)
        for block in self.blocks:
            if block.stride == 2:
                found[f"reduction_{len(found) + 1}"] = features
            if len(found) == LAST_USED:
                break
            features = block(features)
        return found


class FusedLayer(EncoderLayer):
    """Does not ask for the weights of its attention, which lets a fused kernel compute it."""

    def forward(self, tokens: Tensor, codes: Tensor) -> Tensor:
        """Tokens are (N, B, hidden); their codes go into queries and keys only."""
        normal = self.norm1(tokens)
        query = normal + codes
        attended, _ = self.attention(query, query, value=normal, need_weights=False)
        tokens = tokens + self.dropout(attended)
        result: Tensor = tokens + self.feedforward(self.norm2(tokens))
        return result


FASTER: dict[type, type] = {EfficientNet: ShortBackbone, EncoderLayer: FusedLayer}


def faster(model: nn.Module) -> None:
    """Give each module its class from above; weights stay as they are."""
    for module in model.modules():
        module.__class__ = FASTER.get(type(module), type(module))


class BatchedSynthesizer(ViewSynthesizer):
    """Renders and scores many views at once, without leaving the device."""

    @torch.no_grad()
    def render_set(self, loader: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
        """Poses (N, 3, 4), photographs and renderings (N, 3, H, W) of all training data."""
        photographs, poses = zip(
            *((image[0], pose.view(3, 4)) for image, pose in loader), strict=True
        )
        stacked = torch.stack(poses)
        same = torch.ones(VIEWS, device=self.mean.device)
        plain = [self.views(some, same)[:, :3] for some in stacked.split(VIEWS)]
        features = torch.cat([natural_statistics(each) for each in plain])
        self.usual = features.mean(0), features.std(0, correction=0) + 1e-3
        self.low = stacked[:, :, 3].amin(0) - self.options.margin
        self.high = stacked[:, :, 3].amax(0) + self.options.margin
        renderings = (torch.cat(plain) - self.mean) / self.std
        return stacked, torch.stack(photographs), renderings

    @torch.no_grad()
    def render_perturbed(self, poses: Tensor) -> tuple[Tensor, Tensor]:
        """A new pose (3, 4) near each known one, and the view from there (3, H, W)."""
        device, size = self.mean.device, (3, self.camera.height, self.camera.width)
        best_poses, views = poses.clone(), torch.empty(len(poses), *size, device=device)
        best = torch.full((len(poses),), float("inf"), dtype=torch.double)
        light = torch.from_numpy(self.draw.uniform(0.7, 1.4, len(poses))).float().to(device)
        waiting = torch.arange(len(poses))
        for _ in range(self.options.max_attempts):
            for some in waiting.split(VIEWS):
                candidates = torch.stack([self._perturb(pose) for pose in poses[some]])
                pictures = self.views(candidates, light[some])
                scores = self.scores(pictures[:, :3]).cpu()
                better = scores < best[some]
                best[some[better]], best_poses[some[better]] = scores[better], candidates[better]
                views[some[better]] = pictures[better.to(device), 3:]
            self.attempts += len(waiting)
            waiting = waiting[best[waiting] >= self.options.threshold]
            if not len(waiting):
                break
        return best_poses, views.sub_(self.mean).div_(self.std)

    def views(self, poses: Tensor, light: Tensor) -> Tensor:
        """Pictures (V, 6, H, W) in red, green and blue, as they are and in another light."""
        return render_views(self.gaussians, self.camera, poses, light[: len(poses)])

    def scores(self, pictures: Tensor) -> Tensor:
        """About 10 for a usual picture, higher for a blurred, empty or broken one."""
        mean, spread = self.usual
        distance = (natural_statistics(pictures) - mean) / spread
        return USUAL * distance.square().mean(1).sqrt()


@dataclass(frozen=True, slots=True)
class _Lists:
    """The ellipses of each tile of each view, nearest first, and how many each has."""

    owners: Tensor
    counts: Tensor


def render_views(gaussians: Gaussians, camera: Camera, poses: Tensor, light: Tensor) -> Tensor:
    """What ``splat`` renders from each of the poses, with ``colours`` and ``colours ** light``."""
    down, across = -(-camera.height // TILE), -(-camera.width // TILE)
    poses = poses.to(gaussians.means)
    if poses.is_cuda and (library := gsplat()):
        colours = both_lights(gaussians, light)
        return render_with_gsplat(library, gaussians, camera, poses, colours)
    ellipses, view = _project(gaussians, camera, poses, light)
    lists = _bin(ellipses, view * (down * across), (down, across), len(poses))
    tiles = _blend(ellipses, lists, (down, across))  # (V * down * across, TILE * TILE, 6)
    pictures = tiles.view(len(poses), down, across, TILE, TILE, 6).permute(0, 5, 1, 3, 2, 4)
    pictures = pictures.reshape(len(poses), 6, down * TILE, across * TILE)
    return pictures[..., : camera.height, : camera.width]


def both_lights(gaussians: Gaussians, light: Tensor) -> Tensor:
    """Colours (V, N, 6) as they are, and in the light of each view."""
    plain = gaussians.colours.expand(len(light), -1, -1)
    return torch.cat((plain, plain ** light[:, None, None]), 2)


def _project(
    gaussians: Gaussians, camera: Camera, poses: Tensor, light: Tensor
) -> tuple[_Ellipses, Tensor]:
    """All ellipses of all views, nearest first, and the view of each."""
    turns = poses[:, :3, :3].transpose(1, 2)  # world to camera
    points = (gaussians.means - poses[:, None, :3, 3]) @ turns.transpose(1, 2)  # (V, N, 3)
    view, chosen = (points[:, :, 2] > NEAR).nonzero(as_tuple=True)
    points, scene = points[view, chosen], gaussians.pick(chosen)
    covariance = _covariance_on_image(scene, camera, points, turns[view])
    xx, xy, yy = covariance[:, 0, 0] + BLUR, covariance[:, 0, 1], covariance[:, 1, 1] + BLUR
    middle = points.new_tensor([camera.width / 2, camera.height / 2])
    centres = points[:, :2] / points[:, 2:] * camera.focal + middle
    visible = 2 * torch.log(scene.opacities / FAINTEST).clamp(min=0)
    reach = torch.stack((visible * xx, visible * yy), 1).sqrt()
    inside = (centres + reach > 0) & (centres - reach < 2 * middle)
    kept = (inside.all(1) & (visible > 0)).nonzero()[:, 0]
    kept = kept[points[kept, 2].argsort(stable=True)]
    conics = torch.stack((yy, -xy, xx), 1) / (xx * yy - xy * xy)[:, None]
    colours = torch.cat((scene.colours, scene.colours ** light[view, None]), 1)
    every = (centres, conics, reach, scene.opacities, colours)
    return _Ellipses(*(each[kept] for each in every)), view[kept]


def _bin(ellipses: _Ellipses, first: Tensor, grid: tuple[int, int], views: int) -> _Lists:
    """Which ellipses touch which tile; ``first`` is the first tile of an ellipse's view."""
    down, across = grid
    last = ellipses.reach.new_tensor([across - 1, down - 1])
    first_tile = ((ellipses.centres - ellipses.reach) / TILE).floor().clamp(min=0)
    last_tile = torch.minimum(((ellipses.centres + ellipses.reach) / TILE).floor(), last)
    span = (last_tile - first_tile + 1).clamp(min=0).long()  # (M, 2)
    copies = span.prod(1)
    owners = torch.repeat_interleave(copies)
    within = torch.arange(len(owners), device=owners.device) - (copies.cumsum(0) - copies)[owners]
    columns = first_tile[owners, 0].long() + within % span[owners, 0]
    rows = first_tile[owners, 1].long() + within // span[owners, 0]
    tiles, order = (first[owners] + rows * across + columns).sort(stable=True)
    return _Lists(owners[order], torch.bincount(tiles, minlength=views * down * across))


def _blend(ellipses: _Ellipses, lists: _Lists, grid: tuple[int, int]) -> Tensor:
    """Blend the lists of all tiles of all views front to back, on black."""
    (down, across), owners, counts = grid, lists.owners, lists.counts
    starts = counts.cumsum(0) - counts
    colours = ellipses.colours.new_zeros(len(counts), TILE * TILE, ellipses.colours.shape[1])
    light = colours.new_ones(len(counts), TILE * TILE)  # what still comes through
    step = torch.arange(CHUNK, device=counts.device)
    for done in range(0, int(counts.max()), CHUNK):
        busy = ((counts > done) & (light.amax(1) > BLOCKED)).nonzero()[:, 0]
        places = done + step  # (CHUNK,)
        present = places < counts[busy, None]  # (A, CHUNK)
        chosen = owners[(starts[busy, None] + places).clamp(max=len(owners) - 1)]
        alpha = _opacity(ellipses, chosen, present, busy % (down * across), across)
        through = alpha.neg_().add_(1).cumprod_(1).mul_(light[busy, None])
        before = torch.cat((light[busy, None], through[:, :-1]), 1)
        weights = before.sub_(through)
        colours[busy] += weights.transpose(1, 2) @ ellipses.colours[chosen]
        light[busy] = through[:, -1]
    return colours


def natural_statistics(pictures: Tensor) -> Tensor:
    """The 36 numbers that describe each picture (V, 3, H, W), as ``quality`` has them."""
    grey = (pictures * pictures.new_tensor([0.2125, 0.7154, 0.0721])[:, None, None]).sum(1)
    height, width = grey.shape[1] // 2 * 2, grey.shape[2] // 2 * 2
    half = nn.functional.avg_pool2d(grey[:, None, :height, :width], 2)[:, 0]
    return torch.cat([_statistics(image) for image in (grey, half)], 1)


def _statistics(grey: Tensor) -> Tensor:
    mean = _smooth(grey)
    variance = (_smooth(grey * grey) - mean * mean).clamp(min=0)
    normal = (grey - mean) / (variance.sqrt() + CONTRAST_FLOOR)
    shape, left, right = _fit(normal)
    numbers = [shape, (left**2 + right**2) / 2]
    for down, across in NEIGHBOURS:
        shape, left, right = _fit(normal * normal.roll((down, across), (1, 2)))
        tail = torch.exp(torch.lgamma(2 / shape) - torch.lgamma(1 / shape))
        width = torch.exp((torch.lgamma(1 / shape) - torch.lgamma(3 / shape)) / 2)
        numbers += [shape, (right - left) * tail * width, left**2, right**2]
    return torch.stack(numbers, 1)


def _smooth(images: Tensor) -> Tensor:
    """Gaussian mean of the 7x7 neighbourhood, borders repeated."""
    taps = torch.from_numpy(TAPS / TAPS.sum()).to(images)
    padded = nn.functional.pad(images[:, None], (3, 3, 3, 3), mode="replicate")
    across = nn.functional.conv2d(padded, taps.view(1, 1, 1, 7))
    return nn.functional.conv2d(across, taps.view(1, 1, 7, 1))[:, 0]


def _fit(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Shape, left and right width of the asymmetric generalised Gaussian that fits each."""
    values = values.flatten(1).double()
    squares, is_below = values.square(), values < 0
    below, above = is_below.sum(1), (~is_below).sum(1)
    left = ((squares * is_below).sum(1) / below.clamp(min=1)).sqrt()
    right = ((squares * ~is_below).sum(1) / above.clamp(min=1)).sqrt()
    ratio = left / right.clamp(min=1e-6)
    peakedness = values.abs().mean(1).square() / squares.mean(1).clamp(min=1e-6)
    wanted = peakedness * (ratio**3 + 1) * (ratio + 1) / (ratio**2 + 1) ** 2
    shapes, ratios = (torch.from_numpy(each).to(values) for each in _shape_table())
    nearest = torch.searchsorted(ratios, wanted).clamp(max=len(shapes) - 1)
    return shapes[nearest], left, right
