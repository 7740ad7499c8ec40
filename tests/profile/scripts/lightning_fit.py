"""A LightningModule with validation after each epoch."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def training_step(self, batch, index):
        loss = self.net(batch[0]).square().mean()
        print(loss.item().hex())
        return loss

    def validation_step(self, batch, index):
        self.net(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-2)


lightning.seed_everything(0)
train = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4, shuffle=True)
check = DataLoader(TensorDataset(torch.randn(16, 4)), batch_size=4)
trainer = lightning.Trainer(
    accelerator="cpu",
    max_epochs=2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    gradient_clip_val=1.0,
)
trainer.fit(Model(), train, check)
