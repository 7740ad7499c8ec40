"""Hugging Face Trainer, with accumulation and evaluation."""

import tempfile

import torch
from torch import nn
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainingArguments, set_seed


class Pairs(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        draw = torch.Generator().manual_seed(index)
        return {"x": torch.randn(8, generator=draw), "labels": torch.randn(1, generator=draw)}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x, labels):
        predicted = self.layer(x)
        return {"loss": ((predicted - labels) ** 2).mean(), "logits": predicted}


set_seed(0)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
        eval_strategy="epoch",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        logging_steps=1,
    )
    trainer = Trainer(Model(), arguments, train_dataset=Pairs(), eval_dataset=Pairs())
    trainer.pop_callback(PrinterCallback)
    trainer.train()
for log in trainer.state.log_history:
    print(log.get("loss"), log.get("eval_loss"))
