"""Splatting: pictures of 3-D Gaussians, in plain torch, on any device.

Each Gaussian is projected to an ellipse on the image (EWA: the perspective map is replaced by
its derivative at the centre), the image is cut into square tiles, and every tile blends the
ellipses that touch it from front to back. All tiles go through their lists together, a chunk
of Gaussians at a time. Nothing here needs or keeps gradients.

An ellipse ends where its opacity falls under one grey level, and its bounding box is taken
for exactly that contour, so the tiles cannot be seen in the result.
"""

import functools
import importlib
import importlib.util
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

TILE = 8  # pixels; most Gaussians of a room are a few pixels wide, larger tiles waste work
CHUNK = 32  # Gaussians that every tile blends per pass
NEAR = 0.1  # metres; what is closer than this is not drawn
BLUR = 0.3  # square pixels added to every ellipse, so that none falls between two pixels
FAINTEST = 1 / 255  # one grey level; less cannot be seen
MOST_OPAQUE = 0.99
BLOCKED = 1e-4  # a tile that lets less light than this through is finished


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole camera with square pixels, looking along +z, y down, centred."""

    height: int
    width: int
    focal: float  # pixels


@dataclass(frozen=True, slots=True)
class Gaussians:
    """A scene of N coloured, oriented blobs."""

    means: Tensor  # (N, 3) metres
    quaternions: Tensor  # (N, 4) real part first
    scales: Tensor  # (N, 3) standard deviation along each own axis, metres
    opacities: Tensor  # (N,)
    colours: Tensor  # (N, 3) red, green, blue in 0 to 1

    def to(self, device: str | torch.device) -> "Gaussians":
        """The same scene on another device."""
        return Gaussians(*(getattr(self, each.name).to(device) for each in fields(self)))

    def pick(self, chosen: Tensor) -> "Gaussians":
        """A scene of the chosen Gaussians only."""
        return Gaussians(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def save(self, path: Path) -> None:
        """Write the scene as an uncompressed .npz file."""
        np.savez(path, **{each.name: getattr(self, each.name).numpy() for each in fields(self)})

    @staticmethod
    def load(path: Path) -> "Gaussians":
        """Read a scene that ``save`` wrote."""
        with np.load(path) as stored:
            return Gaussians(*(torch.from_numpy(stored[each.name]) for each in fields(Gaussians)))


@dataclass(frozen=True, slots=True)
class _Ellipses:
    """What is left of the visible Gaussians on the image, nearest first."""

    centres: Tensor  # (M, 2) x, y in pixels
    conics: Tensor  # (M, 3) inverse covariance: xx, xy, yy
    reach: Tensor  # (M, 2) half size of the bounding box
    opacities: Tensor  # (M,)
    colours: Tensor  # (M, 3)


def render(gaussians: Gaussians, camera: Camera, pose: Tensor) -> Tensor:
    """The picture (3, H, W) seen from ``pose``, camera to world (3, 4) or (4, 4)."""
    pose = pose.to(gaussians.means)
    if pose.is_cuda and (library := gsplat()):
        colours = gaussians.colours[None]
        return render_with_gsplat(library, gaussians, camera, pose[None], colours)[0]
    return splat(gaussians, camera, pose)


def splat(gaussians: Gaussians, camera: Camera, pose: Tensor) -> Tensor:
    """The same picture by our own means, whatever is installed."""
    ellipses = _project(gaussians, camera, pose)
    down, across = -(-camera.height // TILE), -(-camera.width // TILE)
    owners, counts = _bin(ellipses, down, across)
    tiles = _blend(ellipses, owners, counts, across)  # (down * across, TILE * TILE, 3)
    picture = tiles.view(down, across, TILE, TILE, 3).permute(4, 0, 2, 1, 3)
    picture = picture.reshape(3, down * TILE, across * TILE)
    return picture[:, : camera.height, : camera.width].contiguous()


def _project(gaussians: Gaussians, camera: Camera, pose: Tensor) -> _Ellipses:
    """Project every Gaussian, drop what cannot be seen, sort by depth."""
    turn = pose[:3, :3].T  # world to camera
    points = (gaussians.means - pose[:3, 3]) @ turn.T  # (N, 3)
    ahead = (points[:, 2] > NEAR).nonzero()[:, 0]
    points, scene = points[ahead], gaussians.pick(ahead)
    covariance = _covariance_on_image(scene, camera, points, turn)
    xx, xy, yy = covariance[:, 0, 0] + BLUR, covariance[:, 0, 1], covariance[:, 1, 1] + BLUR
    middle = points.new_tensor([camera.width / 2, camera.height / 2])
    centres = points[:, :2] / points[:, 2:] * camera.focal + middle
    visible = 2 * torch.log(scene.opacities / FAINTEST).clamp(min=0)
    reach = torch.stack((visible * xx, visible * yy), 1).sqrt()
    inside = (centres + reach > 0) & (centres - reach < 2 * middle)
    kept = (inside.all(1) & (visible > 0)).nonzero()[:, 0]
    kept = kept[points[kept, 2].argsort(stable=True)]
    conics = torch.stack((yy, -xy, xx), 1) / (xx * yy - xy * xy)[:, None]
    every = (centres, conics, reach, scene.opacities, scene.colours)
    return _Ellipses(*(each[kept] for each in every))


def _covariance_on_image(
    gaussians: Gaussians, camera: Camera, points: Tensor, turn: Tensor
) -> Tensor:
    """Covariance (N, 2, 2) in square pixels, from the derivative of the perspective map."""
    depth = points[:, 2].clamp(min=NEAR)
    # The derivative grows without bound beside the image; 3-D splatting stops it at 1.3 fields.
    limit = points.new_tensor([camera.width, camera.height]) * (0.5 * 1.3 / camera.focal)
    slope = torch.minimum(torch.maximum(points[:, :2] / depth[:, None], -limit), limit)
    jacobian = points.new_zeros(len(points), 2, 3)
    jacobian[:, 0, 0] = jacobian[:, 1, 1] = camera.focal / depth
    jacobian[:, :, 2] = -slope * (camera.focal / depth)[:, None]
    axes = _rotations(gaussians.quaternions) * gaussians.scales[:, None, :]
    spread = jacobian @ (turn @ axes)  # (N, 2, 3)
    return (spread[:, :, None] * spread[:, None]).sum(-1)


def _rotations(quaternions: Tensor) -> Tensor:
    """Rotation matrices (N, 3, 3) of quaternions of any length."""
    w, x, y, z = torch.nn.functional.normalize(quaternions, dim=1).unbind(1)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return torch.stack([torch.stack(row, 1) for row in rows], 1)


def _bin(ellipses: _Ellipses, down: int, across: int) -> tuple[Tensor, Tensor]:
    """The ellipses of each tile, tile after tile, nearest first; and how many each has."""
    last = ellipses.reach.new_tensor([across - 1, down - 1])
    first_tile = ((ellipses.centres - ellipses.reach) / TILE).floor().clamp(min=0)
    last_tile = torch.minimum(((ellipses.centres + ellipses.reach) / TILE).floor(), last)
    span = (last_tile - first_tile + 1).clamp(min=0).long()  # (M, 2)
    copies = span.prod(1)
    owners = torch.repeat_interleave(copies)
    within = torch.arange(len(owners), device=owners.device) - (copies.cumsum(0) - copies)[owners]
    columns = first_tile[owners, 0].long() + within % span[owners, 0]
    rows = first_tile[owners, 1].long() + within // span[owners, 0]
    tiles, order = (rows * across + columns).sort(stable=True)
    return owners[order], torch.bincount(tiles, minlength=down * across)


def _blend(ellipses: _Ellipses, owners: Tensor, counts: Tensor, across: int) -> Tensor:
    """Blend the lists of all tiles front to back; colours (tiles, pixels, 3) on black."""
    starts = counts.cumsum(0) - counts
    colours = ellipses.colours.new_zeros(len(counts), TILE * TILE, 3)
    light = colours.new_ones(len(counts), TILE * TILE)  # what still comes through
    step = torch.arange(CHUNK, device=counts.device)
    for done in range(0, int(counts.max()), CHUNK):
        busy = ((counts > done) & (light.amax(1) > BLOCKED)).nonzero()[:, 0]
        places = done + step  # (CHUNK,)
        present = places < counts[busy, None]  # (A, CHUNK)
        chosen = owners[(starts[busy, None] + places).clamp(max=len(owners) - 1)]
        alpha = _opacity(ellipses, chosen, present, busy, across)  # (A, CHUNK, P)
        through = alpha.neg_().add_(1).cumprod_(1).mul_(light[busy, None])
        before = torch.cat((light[busy, None], through[:, :-1]), 1)
        weights = before.sub_(through)
        colours[busy] += weights.transpose(1, 2) @ ellipses.colours[chosen]
        light[busy] = through[:, -1]
    return colours


def _opacity(
    ellipses: _Ellipses, chosen: Tensor, present: Tensor, tiles: Tensor, across: int
) -> Tensor:
    """Opacity (A, K, P) of the chosen ellipses (A, K) at the pixel centres of their tiles."""
    corner = torch.stack((tiles % across, tiles // across), 1) * TILE
    pixels = corner[:, :, None] + torch.arange(TILE, device=tiles.device) + 0.5  # (A, 2, TILE)
    dx, dy = (pixels[:, None] - ellipses.centres[chosen][..., None]).unbind(2)  # (A, K, TILE)
    xx, xy, yy = ellipses.conics[chosen][..., None].unbind(2)  # (A, K, 1)
    straight = (-0.5 * yy * dy * dy)[..., None] + (-0.5 * xx * dx * dx)[:, :, None]
    power = straight.addcmul_((-xy * dy)[..., None], dx[:, :, None])  # (A, K, TILE, TILE)
    peak = (ellipses.opacities[chosen] * present)[..., None]
    alpha = power.flatten(2).exp_().mul_(peak).clamp_(max=MOST_OPAQUE)
    return torch.threshold_(alpha, FAINTEST, 0.0)


@functools.cache
def gsplat() -> ModuleType | None:
    """The library where it is installed."""
    return importlib.import_module("gsplat") if importlib.util.find_spec("gsplat") else None


def render_with_gsplat(
    library: ModuleType, gaussians: Gaussians, camera: Camera, poses: Tensor, colours: Tensor
) -> Tensor:
    """Pictures (V, D, H, W) from all poses (V, 3, 4) in one call; colours are (V, N, D)."""
    whole = torch.eye(4, device=poses.device).repeat(len(poses), 1, 1)
    whole[:, :3] = poses[:, :3]
    lens = [[camera.focal, 0, camera.width / 2], [0, camera.focal, camera.height / 2], [0, 0, 1]]
    pictures, _, _ = library.rasterization(
        gaussians.means,
        gaussians.quaternions,
        gaussians.scales,
        gaussians.opacities,
        colours,
        viewmats=torch.linalg.inv(whole),
        Ks=torch.tensor([lens], device=poses.device).expand(len(poses), 3, 3).contiguous(),
        width=camera.width,
        height=camera.height,
        near_plane=NEAR,
        eps2d=BLUR,
    )
    return torch.as_tensor(pictures).permute(0, 3, 1, 2).contiguous()
