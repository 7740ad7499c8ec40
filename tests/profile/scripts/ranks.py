"""Two ranks that the script starts itself, and a helper that is none."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank, meeting, environment):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(10):
        loss = model(torch.ones(3, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert {**os.environ}.get("RANK") == environment
    if rank == 0:
        sys.stdout.write(f"{loss.item():.6f}\n")
    dist.destroy_process_group()


def help_out():
    torch.zeros(3).sum()


if __name__ == "__main__":
    meeting = os.path.join(tempfile.mkdtemp(), "meeting")
    context = mp.get_context(sys.argv[1])
    given = meeting, os.environ.get("RANK")
    processes = [context.Process(target=train, args=(rank, *given)) for rank in (0, 1)]
    processes.append(context.Process(target=help_out))
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    sys.exit(max(each.exitcode for each in processes))
