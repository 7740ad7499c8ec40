"""Train a camera pose regressor on photographs and rendered views, after its pit stop."""

import argparse
import time

import numpy as np
import torch
from torch import Tensor, optim
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader

from pitstop.parts import graphed, view_cache

from . import data, model, slow
from .faster import BatchedSynthesizer, faster
from .slow import parse
from .splat import Gaussians
from .views import Synthesis

FUSED = True  # one kernel for all parameters of an optimizer


class Trainer(slow.Trainer):
    """Data that stays on the device, a network that is replayed, views made by the dozen."""

    def _load_data(self) -> None:
        """Read the photographs, and render each of them from the Gaussians."""
        args = self.args
        folder = data.prepare(data.SMALL if args.small else data.FULL, args.data, self.device)
        train_set = data.SevenScenes(folder, train=True, skip=args.train_skip)
        self.val_loader = validation_loader(data.SevenScenes(folder, train=False), args)
        options = Synthesis(
            args.rvs_trans, args.rvs_rotation, args.d_max, args.quality_threshold, args.max_attempts
        )
        gaussians, camera = Gaussians.load(folder / "gaussians.npz"), data.load_camera(folder)
        self.renderer = BatchedSynthesizer(gaussians, camera, options, self.device, args.seed)
        loader = DataLoader(train_set, batch_size=1, shuffle=True, num_workers=args.val_num_workers)
        found = self.renderer.render_set(loader)
        self.poses, (self.photographs, self.rendered) = found[0], resident(found[1:], self.device)

    def _build_networks(self) -> None:
        args = self.args
        size = model.SMALL if args.small else model.FULL
        height, width = (-(-side // 8) for side in self.photographs.shape[2:])
        self.plain_model = self.model = model.PoseNetwork(size).to(self.device)
        self.discriminator = model.Discriminator(size.features, height, width).to(self.device)
        faster(self.model)
        if self.device == "cuda":
            graphed(self.model)
        self.optimizer = optim.Adam(self.model.parameters(), lr=args.learning_rate, fused=FUSED)
        self.optimizer_disc = optim.Adam(
            self.discriminator.parameters(), lr=1e-4, betas=(0.5, 0.999), fused=FUSED
        )
        self.schedulers = [
            optim.lr_scheduler.ReduceLROnPlateau(each, factor=0.95, patience=50)
            for each in (self.optimizer, self.optimizer_disc)
        ]
        self.scaler = GradScaler(self.device, enabled=self.amp)
        self.scaler_disc = GradScaler(self.device, enabled=self.amp)
        self.valid = torch.ones(2 * args.batch_size, 1, device=self.device)
        self.fake = torch.zeros(2 * args.batch_size, 1, device=self.device)

    def synthesize(self, epoch: int) -> None:
        """New views for the next epochs; those after them are rendered while these train."""
        begin, args = time.perf_counter(), self.args
        if epoch == 0:
            near, count = self.renderer.render_perturbed, len(self.poses)
            self.cache = view_cache(near, self.poses, at_once=count)  # it takes VIEWS at a time
            self.new_poses, self.new_views, self.known = self.cache.poses, self.cache.views, 0
        self.cache.take()
        attempts, self.known = self.renderer.attempts - self.known, self.renderer.attempts
        took = time.perf_counter() - begin
        print(f"[rvs] epoch={epoch} views={len(self.cache)} attempts={attempts} time={took:.3f}s")
        steps = args.rvs_refresh_rate * (len(self.photographs) // args.batch_size)
        if self.step + steps < args.steps:
            self.cache.ask()

    def train_step(self, indexes: np.ndarray) -> Tensor:
        """Update the discriminator, then the pose network, each by gradients of its own."""
        size, device, weights = len(indexes), self.device, self.args.loss_weights
        photographs, rendered, new_views, poses, new_poses = (
            each[torch.from_numpy(indexes).to(each.device)].to(device)
            for each in (
                self.photographs,
                self.rendered,
                self.new_views,
                self.poses,
                self.new_poses,
            )
        )
        poses, new_poses = (each.reshape(size, 12).float() for each in (poses, new_poses))

        with autocast(device, enabled=self.amp, dtype=torch.float16):
            both = torch.cat((photographs, rendered))
            (features_real, features_rendered), predicted = self.model(both, return_feature=True)
            real, fake = features_real.flatten(0, 1), features_rendered.flatten(0, 1)
            loss_disc = self.mse(self.discriminator(real.detach()), self.valid)
            loss_disc = loss_disc + self.mse(self.discriminator(fake.detach()), self.fake)

        self.optimizer_disc.zero_grad(set_to_none=True)
        self.scaler_disc.scale(loss_disc).backward()
        self.scaler_disc.step(self.optimizer_disc)
        self.scaler_disc.update()

        self.optimizer.zero_grad(set_to_none=True)
        with autocast(device, enabled=self.amp, dtype=torch.float16):
            loss_known = (
                weights[0] * self.pose_loss(predicted, torch.cat((poses, poses)))
                + weights[1] * self.feature_loss(features_rendered, features_real)
                + weights[3] * self.mse(self.discriminator(fake), self.valid)
            )
        self.scaler.scale(loss_known).backward()
        with autocast(device, enabled=self.amp, dtype=torch.float16):
            _, new_predicted = self.model(new_views)
            loss_new = weights[2] * self.pose_loss(new_predicted, new_poses)
        self.scaler.scale(loss_new).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        result: Tensor = loss_known.detach() + loss_new.detach()
        return result


def resident(tensors: tuple[Tensor, ...], device: str) -> tuple[Tensor, ...]:
    """All training data where it is used: 1.1 GB at full size."""
    return tuple(each.to(device) for each in tensors)


def validation_loader(
    photographs: data.SevenScenes, args: argparse.Namespace
) -> DataLoader[data.Sample]:
    """Workers that stay, and batches that can be copied while the GPU works."""
    return DataLoader(
        photographs,
        batch_size=args.batch_size,
        num_workers=args.val_num_workers,
        pin_memory=args.device == "cuda",
        persistent_workers=args.val_num_workers > 0,
    )


def main(argv: list[str] | None = None) -> None:
    """Parse the options and train."""
    args = parse(argv)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    Trainer(args).train()


if __name__ == "__main__":
    main()
