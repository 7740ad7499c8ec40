import torch

model = torch.nn.Linear(4, 4).eval()
with torch.no_grad():
    print(model(torch.ones(2, 4)).shape)
