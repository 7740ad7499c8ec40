"""A training in several ways; one sample of the third batch is bad, unless it is `plain`."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WAY = sys.argv[1]


class Samples(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        x = torch.randn(8, generator=torch.Generator().manual_seed(index))
        if index == 9 and WAY != "plain":
            x[0] = float("nan")
        return {"x": x, "labels": x.nan_to_num().sum()} if WAY == "trainer" else x


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Linear(8, 1))


def loop(net, optimizer, loader, backward=torch.Tensor.backward, every=1):
    for number, x in enumerate(loader, 1):
        loss = net(x).square().mean()
        backward(loss)
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()
        print(number, "loss", loss.item())


def gan(net, optimizer, loader):
    judge = nn.Linear(8, 1)
    second = torch.optim.Adam(judge.parameters())
    for x in loader:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        second.zero_grad()
        judge(x.nan_to_num()).square().mean().backward()
        second.step()


def scaled(net, optimizer, loader):
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for x in loader:
        optimizer.zero_grad()
        scaler.scale(net(x).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()


def trainer(net):
    from transformers import Trainer, TrainingArguments

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = net

        def forward(self, x, labels):
            return {"loss": (self.net(x).squeeze(1) - labels).square().mean()}

    arguments = TrainingArguments(
        "out",
        per_device_train_batch_size=4,
        max_steps=9,
        report_to=[],
        use_cpu=True,
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )

    class Ordered(Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(Samples())

    Ordered(Model(), arguments, train_dataset=Samples()).train()


def lightning(net, loader):
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = net

        def training_step(self, x):
            return self.net(x).square().mean()

        def configure_optimizers(self):
            return torch.optim.AdamW(self.net.parameters(), 1e-3)

    lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(Model(), loader)


def main():
    net = network()
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    workers = 2 if WAY == "workers" else 0
    loader = DataLoader(Samples(), batch_size=4, num_workers=workers)
    try:
        if WAY == "accelerate":
            from accelerate import Accelerator

            accelerator = Accelerator(cpu=True)
            net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
            loop(net, optimizer, loader, accelerator.backward)
        elif WAY == "trainer":
            trainer(net)
        elif WAY == "lightning":
            lightning(net, loader)
        elif WAY == "gan":
            gan(net, optimizer, loader)
        elif WAY == "scaler":
            scaled(net, optimizer, loader)
        elif WAY == "ranks":
            torch.distributed.init_process_group("gloo")
            net = nn.parallel.DistributedDataParallel(net)
            optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
            loop(net, optimizer, loader)
        elif WAY != "no-training":
            loop(net, optimizer, loader, every=2 if WAY == "accumulate" else 1)
    finally:
        if WAY == "ranks":
            print(f"sum:{sum(each.double().sum().item() for each in net.parameters())}")
        finite = all(each.isfinite().all() for each in net.parameters())
        print(f"saved, finite: {bool(finite)}", flush=True)


if __name__ == "__main__":
    main()
