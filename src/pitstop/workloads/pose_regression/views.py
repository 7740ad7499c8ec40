"""Random view synthesis: new training views, rendered from the Gaussians around known poses."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .data import MEAN, STD
from .quality import NaturalScore
from .splat import Camera, Gaussians, render


@dataclass(frozen=True, slots=True)
class Synthesis:
    """How far new views go from known ones, and what quality they must have."""

    translation: float  # metres, along each axis
    rotation: float  # degrees, about each axis
    margin: float  # metres that new views may leave the box of the known ones
    threshold: float  # quality score below which a view is taken at once
    max_attempts: int


class ViewSynthesizer:
    """Renders the room from the training poses and from random poses near them."""

    def __init__(
        self, gaussians: Gaussians, camera: Camera, options: Synthesis, device: str, seed: int
    ) -> None:
        self.gaussians = gaussians.to(device)
        self.camera, self.options = camera, options
        self.mean, self.std = MEAN.to(device), STD.to(device)
        self.draw = np.random.default_rng(seed)
        self.attempts = 0

    @torch.no_grad()
    def render_set(self, loader: Iterable[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor, Tensor]:
        """Poses (N, 3, 4), photographs and renderings (N, 3, H, W) of all training data."""
        poses, photographs, renderings, plain = [], [], [], []
        for photograph, pose in loader:
            photographs.append(photograph[0])
            poses.append(pose.reshape(3, 4))
            rendering = render(self.gaussians, self.camera, poses[-1])
            plain.append(rendering.permute(1, 2, 0).cpu().numpy())
            renderings.append(rendering.sub(self.mean).div_(self.std).cpu())
        self.quality = NaturalScore(plain)
        stacked = torch.stack(poses)
        self.low = stacked[:, :, 3].amin(0) - self.options.margin
        self.high = stacked[:, :, 3].amax(0) + self.options.margin
        return stacked, torch.stack(photographs), torch.stack(renderings)

    @torch.no_grad()
    def render_perturbed(self, poses: Tensor) -> tuple[Tensor, Tensor]:
        """A new pose (3, 4) near each known one, and the view from there (3, H, W)."""
        new_poses, views = [], []
        for pose in poses:  # pit: one-view-at-a-time
            best_score, best_pose = float("inf"), pose
            for _ in range(self.options.max_attempts):
                candidate = self._perturb(pose)
                rendering = render(self.gaussians, self.camera, candidate)
                picture = rendering.permute(1, 2, 0).cpu().numpy()  # pit: attempt-to-host
                score = self.quality.score(picture)  # pit: score-on-cpu
                self.attempts += 1
                if score < best_score:
                    best_score, best_pose = score, candidate
                    if score < self.options.threshold:
                        break
            view = render(self._other_light(), self.camera, best_pose)
            new_poses.append(best_pose)
            views.append(view.sub(self.mean).div_(self.std).cpu())  # pit: view-to-host
        return torch.stack(new_poses), torch.stack(views)

    def _perturb(self, pose: Tensor) -> Tensor:
        """Turn and move a pose at random, but not out of the box of known positions."""
        angles = np.deg2rad(self.draw.uniform(-1, 1, 3) * self.options.rotation)
        moved = pose.numpy().copy()
        moved[:, :3] = _turn(angles) @ moved[:, :3]
        moved[:, 3] += self.draw.uniform(-1, 1, 3) * self.options.translation
        candidate = torch.tensor(moved)
        for axis in range(3):
            lowest, highest = self.low[axis], self.high[axis]
            candidate[axis, 3] = min(max(candidate[axis, 3], lowest), highest)
        return candidate

    def _other_light(self) -> Gaussians:
        """The scene, a little brighter or darker."""
        gamma = self.draw.uniform(0.7, 1.4)
        return replace(self.gaussians, colours=self.gaussians.colours**gamma)


def _turn(angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rotation about x, then y, then z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(angles), np.sin(angles)
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    result: NDArray[np.float64] = about_z @ about_y @ about_x
    return result
