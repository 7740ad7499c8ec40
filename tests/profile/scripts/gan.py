"""Two optimizers in turn: the critic steps twice for each step of the generator."""

import torch
from torch import nn

torch.manual_seed(0)
generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
optimize_generator = torch.optim.Adam(generator.parameters(), 1e-3)
optimize_critic = torch.optim.Adam(critic.parameters(), 1e-3)
for _ in range(12):
    losses = []
    for _ in range(2):
        optimize_critic.zero_grad()
        loss = (
            critic(generator(torch.randn(6, 4)).detach()).mean() - critic(torch.randn(6, 8)).mean()
        )
        loss.backward()
        losses.append(loss)
        optimize_critic.step()
    optimize_generator.zero_grad()
    loss = -critic(generator(torch.randn(6, 4))).mean()
    loss.backward()
    optimize_generator.step()
    print(*[each.item().hex() for each in (*losses, loss)])
