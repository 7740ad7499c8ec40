"""Train a camera pose regressor on photographs, their renderings and random new views."""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn, optim
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader
from torch.utils.tensorboard import SummaryWriter

from . import data, model
from .losses import FeatureLoss, PoseLoss
from .splat import Gaussians
from .views import Synthesis, ViewSynthesizer

FULL = {"steps": 300, "batch_size": 8, "learning_rate": 1e-4, "val_num_workers": 8}
SMALL = {"steps": 300, "batch_size": 4, "learning_rate": 5e-4, "val_num_workers": 2}


class Trainer:
    """The network, its opponent, their optimizers, and all training data in memory."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.device = args, args.device
        self.amp = args.amp and self.device == "cuda"
        self.step = 0
        self.best = float("inf")
        self.writer = SummaryWriter(args.out)
        self._load_data()
        self._build_networks()
        self.mse = nn.MSELoss()
        self.feature_loss = FeatureLoss()
        self.pose_loss = PoseLoss().to(self.device)  # pit: loss-parameters

    def _load_data(self) -> None:
        """Read the photographs, and render each of them from the Gaussians."""
        args = self.args
        layout = data.SMALL if args.small else data.FULL
        folder = data.prepare(layout, args.data, self.device)
        train_set = data.SevenScenes(folder, train=True, skip=args.train_skip)
        val_set = data.SevenScenes(folder, train=False)
        train_loader = DataLoader(train_set, batch_size=1, shuffle=True, num_workers=1)
        self.val_loader = DataLoader(  # pit: val-loader
            val_set, batch_size=args.batch_size, num_workers=args.val_num_workers
        )
        gaussians = Gaussians.load(folder / "gaussians.npz")
        options = Synthesis(
            args.rvs_trans, args.rvs_rotation, args.d_max, args.quality_threshold, args.max_attempts
        )
        self.renderer = ViewSynthesizer(
            gaussians, data.load_camera(folder), options, self.device, args.seed
        )
        self.poses, self.photographs, self.rendered = self.renderer.render_set(train_loader)

    def _build_networks(self) -> None:
        args = self.args
        size = model.SMALL if args.small else model.FULL
        height, width = (-(-side // 8) for side in self.photographs.shape[2:])
        self.plain_model = self.model = model.PoseNetwork(size).to(self.device)
        self.discriminator = model.Discriminator(size.features, height, width).to(self.device)
        if args.compile_model and self.device == "cuda":
            self.model = torch.compile(self.model)  # type: ignore[assignment]  # pit: compiled-network
            self.discriminator = torch.compile(self.discriminator)  # type: ignore[assignment]
            torch._functorch.config.donated_buffer = False  # or retain_graph=True below fails
        self.optimizer = optim.Adam(self.model.parameters(), lr=args.learning_rate)  # pit: adam
        self.optimizer_disc = optim.Adam(
            self.discriminator.parameters(), lr=1e-4, betas=(0.5, 0.999)
        )
        self.schedulers = [
            optim.lr_scheduler.ReduceLROnPlateau(each, factor=0.95, patience=50)
            for each in (self.optimizer, self.optimizer_disc)
        ]
        self.scaler = GradScaler(self.device, enabled=self.amp)
        self.scaler_disc = GradScaler(self.device, enabled=self.amp)
        self.valid = torch.ones(2 * args.batch_size, 1, device=self.device)
        self.fake = torch.zeros(2 * args.batch_size, 1, device=self.device)

    def train(self) -> None:
        """Train until the steps are done; new views every few epochs, validation every epoch."""
        results = self.validate()
        epoch = 0
        while self.step < self.args.steps:
            if epoch % self.args.rvs_refresh_rate == 0:
                self.synthesize(epoch)
            train_loss = self.train_epoch()
            results = self.validate()
            for scheduler in self.schedulers:
                scheduler.step(results["loss"])
            self.writer.add_scalar("epoch/train_loss", train_loss, epoch)
            self.save(epoch, results)
            epoch += 1
        self.writer.close()
        self.report(results)

    def synthesize(self, epoch: int) -> None:
        """Replace the new views of the last few epochs."""
        begin, before = time.perf_counter(), self.renderer.attempts
        self.new_poses, self.new_views = self.renderer.render_perturbed(self.poses)
        took, attempts = time.perf_counter() - begin, self.renderer.attempts - before
        print(
            f"[rvs] epoch={epoch} views={len(self.new_views)} attempts={attempts} time={took:.3f}s"
        )

    def train_epoch(self) -> float:
        """One pass over the training data in random order; the mean loss."""
        self.model.train()
        losses = []
        order = np.random.permutation(len(self.photographs))
        size = self.args.batch_size
        for start in range(0, len(order) - size + 1, size):
            begin = time.perf_counter()
            loss = self.train_step(order[start : start + size])
            losses.append(loss.item())  # pit: loss-item
            self.step += 1
            self.writer.add_scalar("train/loss", losses[-1], self.step)
            took = time.perf_counter() - begin
            print(f"[step {self.step}/{self.args.steps}] loss={losses[-1]:.4f} time={took:.3f}s")
            if self.step == self.args.steps:
                break
        return float(np.mean(losses))

    def train_step(self, indexes: np.ndarray) -> Tensor:
        """Update the discriminator, then the pose network."""
        size, device, weights = len(indexes), self.device, self.args.loss_weights
        photographs = self.photographs[indexes].to(device)  # pit: photographs-to-device
        rendered = self.rendered[indexes].to(device)
        poses = self.poses[indexes].reshape(size, 12).to(device, torch.float)
        new_views = self.new_views[indexes].to(device)
        new_poses = self.new_poses[indexes].reshape(size, 12).to(device, torch.float)

        with autocast(device, enabled=self.amp, dtype=torch.float16):
            both = torch.cat((photographs, rendered))
            (features_real, features_rendered), predicted = self.model(both, return_feature=True)
            real, fake = features_real.flatten(0, 1), features_rendered.flatten(0, 1)
            verdict_real = self.discriminator(real)  # pit: features-not-detached
            verdict_fake = self.discriminator(fake.detach())
            loss_disc = self.mse(verdict_real, self.valid) + self.mse(verdict_fake, self.fake)

        self.optimizer_disc.zero_grad(set_to_none=True)
        self.scaler_disc.scale(loss_disc).backward(retain_graph=True)
        self.scaler_disc.step(self.optimizer_disc)
        self.scaler_disc.update()

        with autocast(device, enabled=self.amp, dtype=torch.float16):
            loss_pose = self.pose_loss(predicted, torch.cat((poses, poses)))
            loss_feature = self.feature_loss(features_rendered, features_real)
            _, new_predicted = self.model(new_views)
            loss_new = self.pose_loss(new_predicted, new_poses)
            loss_fool = self.mse(self.discriminator(fake), self.valid)
            loss = (
                weights[0] * loss_pose
                + weights[1] * loss_feature
                + weights[2] * loss_new
                + weights[3] * loss_fool
            )

        self.optimizer.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        result: Tensor = loss.detach()
        return result

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Median position error in metres and orientation error in degrees, test split."""
        self.model.eval()
        losses, away, turned = [], [], []
        for photographs, poses in self.val_loader:
            images, true = photographs.to(self.device), poses.to(self.device).float()
            with autocast(self.device, enabled=self.amp, dtype=torch.float16):
                _, predicted = self.model(images)
                losses.append(self.mse(predicted, true).item())
            errors = pose_errors(predicted.float(), true)
            away.append(errors[0].cpu().numpy())
            turned.append(errors[1].cpu().numpy())
        results = {
            "trans_err": float(np.median(np.hstack(away))),
            "rot_err": float(np.median(np.hstack(turned))),
            "loss": float(np.mean(losses)),
        }
        for name, value in results.items():
            self.writer.add_scalar(f"val/{name}", value, self.step)
        print(f"[val] step={self.step} " + " ".join(f"{k}={v:.4f}" for k, v in results.items()))
        return results

    def save(self, epoch: int, results: dict[str, float]) -> None:
        """Write all that is needed to go on, and the best network so far."""
        state = {
            "epoch": epoch,
            "model": self.plain_model.state_dict(),
            "discriminator": self.discriminator.state_dict(),
            "pose_loss": self.pose_loss.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "optimizer_disc": self.optimizer_disc.state_dict(),
            "schedulers": [each.state_dict() for each in self.schedulers],
        }
        torch.save(state, self.args.out / "full_checkpoint.pth")
        if results["trans_err"] < self.best:
            self.best = results["trans_err"]
            torch.save(self.plain_model.state_dict(), self.args.out / "checkpoint-best.pt")

    def report(self, results: dict[str, float]) -> None:
        """The last line: what was reached, and the memory it took."""
        line = f"[done] steps={self.step} batch={self.args.batch_size}"
        line += f" trans_err={results['trans_err']:.4f} rot_err={results['rot_err']:.4f}"
        if self.device == "cuda":
            line += f" peak_mem={torch.cuda.max_memory_allocated() / 2**20:.0f}MiB"
        print(line)


def pose_errors(predicted: Tensor, true: Tensor) -> tuple[Tensor, Tensor]:
    """Distance in metres and angle in degrees between poses (B, 12)."""
    predicted, true = predicted.view(-1, 3, 4), true.view(-1, 3, 4)
    away = torch.linalg.vector_norm(predicted[:, :, 3] - true[:, :, 3], dim=1)
    trace = (predicted[:, :, :3] * true[:, :, :3]).sum((1, 2))
    return away, torch.rad2deg(torch.acos(((trace - 1) / 2).clamp(-1, 1)))


def positive(text: str) -> int:
    """A whole number above zero, for argparse."""
    if (number := int(text)) < 1:
        raise ValueError(text)
    return number


def config_parser() -> argparse.ArgumentParser:
    """The options; those without a default here differ between the two sizes."""
    parser = argparse.ArgumentParser(prog="pose_regression", description=__doc__)
    add = parser.add_argument
    add("--small", action="store_true", help="a size for two CPU cores")
    add("--steps", type=positive, help="training steps")
    add("--data", type=Path, help="root folder of the generated data")
    add("--out", type=Path, default=Path("runs/pose_regression"), help="logs and checkpoints")
    add("--seed", type=int, default=0)
    add("--device", choices=("cpu", "cuda"))
    add("--train_skip", type=positive, default=1, help="load 1/N of the training images")
    add("--compile_model", action="store_true", default=True, help="compile (GPU only)")
    add("--amp", action="store_true", default=True, help="mixed precision (GPU only)")
    add("--batch_size", type=positive)
    add("--learning_rate", type=float)
    add("--val_num_workers", type=int)
    add("--loss_weights", type=float, nargs=4, default=[1, 1, 1, 0.7])
    add("--rvs_refresh_rate", type=positive, default=2, help="epochs between new views")
    add("--rvs_trans", type=float, default=0.2, help="reach of new views, metres")
    add("--rvs_rotation", type=float, default=10, help="reach of new views, degrees")
    add("--d_max", type=float, default=0.2, help="how far new views may leave the known ones")
    add("--quality_threshold", type=float, default=10, help="take a view with a lower score")
    add("--max_attempts", type=positive, default=20, help="views rendered to find a good one")
    return parser


def parse(argv: list[str] | None) -> argparse.Namespace:
    """The options, completed by the defaults of the chosen size."""
    parser = config_parser()
    args = parser.parse_args(argv)
    for name, value in (SMALL if args.small else FULL).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    if args.device is None:
        args.device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no GPU here")
    images = sum((data.SMALL if args.small else data.FULL).train_frames) // args.train_skip
    if args.batch_size > images:
        parser.error(f"--batch_size {args.batch_size}: there are only {images} training images")
    return args


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
