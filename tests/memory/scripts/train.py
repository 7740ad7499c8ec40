import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
batch = int(sys.argv[1]) if len(sys.argv) > 1 else 8
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(16 * 256, 10),
)
loader = DataLoader(TensorDataset(torch.randn(64, 3, 16, 16), torch.randint(0, 10, (64,))), batch)
optimizer = torch.optim.AdamW(model.parameters())
model.eval()
with torch.no_grad():
    print("before", model(torch.randn(1, 3, 16, 16)).sum().item())
model.train()
first = model[0].weight.detach().clone()
for step, (x, y) in enumerate(loader):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"step {step} loss={loss.item():.3f}")
print("the end", (model[0].weight - first).abs().sum().item())
