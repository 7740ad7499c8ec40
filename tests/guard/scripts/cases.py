"""Small trainings, each with one thing that goes wrong in step 6. A comment marks the line."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

BAD = 6


class Samples(Dataset):
    """Twelve batches of four."""

    def __init__(self, spoil=None):
        self.spoil = spoil

    def __len__(self):
        return 48

    def __getitem__(self, index):
        x = torch.randn(16, generator=torch.Generator().manual_seed(index))
        if index == 4 * BAD - 2 and self.spoil:
            self.spoil(x)
        return x


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))


def train(loss_of, spoil=None, net=None, rate=1e-3, around=None):
    net = net or network()
    optimizer = torch.optim.Adam(net.parameters(), rate)
    for step, x in enumerate(DataLoader(Samples(spoil), batch_size=4), 1):
        if around:
            around(step, net, optimizer)
        loss = loss_of(net, x, step == BAD or is_again(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net


def is_again(x):
    """Whether this is the batch of the bad step, given once more."""
    return x[2].equal(Samples()[4 * BAD - 2])


def poisoned(value):
    def spoil(x):
        x[3] = value

    def loss_of(net, x, bad):
        return net(x).square().mean()  # poisoned

    return train(loss_of, spoil)


def nan_in_a_sample():
    return poisoned(float("nan"))


def infinity_in_a_sample():
    return poisoned(float("inf"))


def log_of_zero():
    def loss_of(net, x, bad):
        p = net(x).sigmoid() * (not bad)
        return -p.log().mean()  # log_of_zero

    return train(loss_of)


def log_of_a_negative():
    def loss_of(net, x, bad):
        y = net(x).square() + 1 - 9 * bad
        return torch.log(y).mean()  # log_of_a_negative

    return train(loss_of)


def slope_of_a_root():
    def loss_of(net, x, bad):
        y = net(x)
        apart = (y - y.detach() - float(not bad)).square().sum(1)
        return torch.sqrt(apart).mean()  # slope_of_a_root

    return train(loss_of)


def zero_over_zero():
    def loss_of(net, x, bad):
        mask = torch.full((4, 1), float(not bad))
        return (net(x) * mask).sum() / mask.sum()  # zero_over_zero

    return train(loss_of)


def one_over_zero():
    def loss_of(net, x, bad):
        y = net(x)
        return (1 / (y.square() * (not bad))).mean()  # one_over_zero

    return train(loss_of)


def overflow_of_half():
    def loss_of(net, x, bad):
        y = net(x).half()
        return (y * (60_000 if bad else 1) * 4).float().mean()  # overflow_of_half

    return train(loss_of)


def overflow_of_exp():
    def loss_of(net, x, bad):
        return torch.exp(net(x) * (500 if bad else 1)).mean()  # overflow_of_exp

    return train(loss_of)


def softmax_of_a_masked_row():
    def loss_of(net, x, bad):
        y = net(x)
        scores = y.masked_fill(torch.full((4, 4), bad), float("-inf"))
        return scores.softmax(1).square().mean()  # softmax_of_a_masked_row

    return train(loss_of)


def no_target_at_all():
    def loss_of(net, x, bad):
        labels = torch.full((4,), -100 if bad else 1)
        return F.cross_entropy(net(x), labels)  # no_target_at_all

    return train(loss_of)


def deviation_of_one():
    def loss_of(net, x, bad):
        y = net(x).reshape(-1)
        return y[: 1 if bad else 9].std()  # deviation_of_one

    return train(loss_of)


def mean_of_nothing():
    def loss_of(net, x, bad):
        y = net(x)
        return y[: 0 if bad else 4].mean()  # mean_of_nothing

    return train(loss_of)


def angle_beyond_one():
    def loss_of(net, x, bad):
        y = net(x).tanh() * 0.9 + 2 * bad
        return torch.acos(y).mean()  # angle_beyond_one

    return train(loss_of)


def power_of_a_negative():
    def loss_of(net, x, bad):
        y = net(x).square() + 1 - 9 * bad
        return (y**0.5).mean()  # power_of_a_negative

    return train(loss_of)


def hidden_by_where():
    def loss_of(net, x, bad):
        y = net(x).square() * (not bad)
        logs = torch.log(y)  # hidden_by_where
        return torch.where(y > 0, logs, torch.zeros_like(y)).mean()

    return train(loss_of)


class Odd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bad):
        ctx.bad = bad
        return x * 2  # odd_backward

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (float("nan") if ctx.bad else 2), None


def odd_backward():
    def loss_of(net, x, bad):
        return Odd.apply(net(x), bad).mean()

    return train(loss_of)


def bad_target():
    def loss_of(net, x, bad):
        target = torch.zeros(4, 4)
        if bad:
            target[1, 1] = float("nan")
        return F.mse_loss(net(x), target)  # bad_target

    return train(loss_of)


def exploding_rate():
    def around(step, net, optimizer):
        optimizer.param_groups[0]["lr"] = 1e30 if step == BAD - 1 else 1e-3

    def loss_of(net, x, bad):
        return net(x).square().mean()

    net = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 4))
    return train(loss_of, net=net, around=around)


def weights_overwritten():
    def around(step, net, optimizer):
        if step == BAD:
            with torch.no_grad():
                net[2].weight[0, 0] = float("nan")

    def loss_of(net, x, bad):
        return net(x).square().mean()

    return train(loss_of, around=around)


def main():
    """Run the named cases one after the other, each under a guard; print what was said."""
    import contextlib
    import io
    import json
    import sys
    import tempfile

    from pitstop.guard.begin import Guard
    from pitstop.guard.plan import GuardPlan

    told = {}
    for name in sys.argv[1:]:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), tempfile.TemporaryDirectory() as folder:
            guard = Guard(GuardPlan("skip", folder))
            net = globals()[name]()
            guard.close()
        finite = all(bool(each.isfinite().all()) for each in net.parameters())
        told[name] = {"said": said.getvalue(), "finite": finite}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
