"""Scripts around the examples of rules that a CPU is enough for. They are run, and recorded.

The example stands where ``EXAMPLE`` is. Names that it uses are defined before it.
"""

TRAINING = """
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
def learn(loss):
    optimizer.zero_grad(); loss.backward(); optimizer.step()
"""
SLOW_CLIPS = """
class Clips(torch.utils.data.Dataset):
    def __len__(self):
        return 320
    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.randn(8)
clips = Clips()
"""
OVER_LOADER = """
for epoch in range(EPOCHS):
    for x in loader:
        time.sleep(PAUSE)
        learn(model(x).mean())
"""
STEPS = """
for step in range(24):
    x = torch.randn(4, 8)
    BODY
    learn(loss)
"""


def over_loader(epochs, pause):
    return OVER_LOADER.replace("EPOCHS", str(epochs)).replace("PAUSE", str(pause))


def stepping(body, before=""):
    """A training that does this in each step; it leaves a ``loss``."""
    return TRAINING + before + STEPS.replace("BODY", body.strip().replace("\n", "\n    "))


def in_loop(before, update="optimizer.step(); optimizer.zero_grad()"):
    """A loop over ``train_loader`` whose body is the example, with an update behind it."""
    return f"""
{TRAINING}
{before}
class Loader:
    def __iter__(self):
        for _ in range(24):
            yield torch.randn(4, 8)
            model(torch.randn(4, 8)).mean().backward(); {update}
train_loader = Loader()
EXAMPLE
"""


SCENES = {
    "gpu-starved-by-loader": TRAINING + SLOW_CLIPS + "EXAMPLE" + over_loader(1, 0.012),
    "loader-without-workers": TRAINING + SLOW_CLIPS + "EXAMPLE" + over_loader(1, 0.012),
    "workers-respawn-each-epoch": TRAINING
    + "clips = torch.randn(6, 8)\nEXAMPLE"
    + over_loader(5, 0.0),
    "dataset-empty": """
import pathlib
folder = pathlib.Path(__file__).parent / "frames"
(folder / "Train" / "clip").mkdir(parents=True, exist_ok=True)
torch.utils.data.DataLoader.BASE = None
clips = []
EXAMPLE
model = nn.Linear(1, 1)
for _ in zip(range(3), iter(torch.utils.data.DataLoader(clips, collate_fn=len))):
    model(torch.ones(1))
for _ in loader if not clips else ():
    pass
""",
    "decode-dominates-loader": TRAINING
    + """
from PIL import Image
pictures = pathlib.Path(__file__).parent / "pictures"
pictures.mkdir(exist_ok=True)
Image.effect_noise((700, 700), 90).convert("RGB").save(pictures / "one.png")
def to_tensor(image):
    return torch.tensor(image.getpixel((0, 0))[:1], dtype=torch.float32).expand(8)
class Clips(torch.utils.data.Dataset):
    def __init__(self):
        self.paths = [pictures / "one.png"] * 40
        self.frames = torch.randn(40, 8)
    def __len__(self):
        return 40
    EXAMPLE
loader = torch.utils.data.DataLoader(Clips())
"""
    + over_loader(1, 0.0),
    "cache-holds-nothing": TRAINING
    + """
folder = ""
class CachedClips(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.cache = {}
    def __len__(self):
        return 12
    def __getitem__(self, index):
        time.sleep(0.1)
        self.cache[index] = torch.randn(8)
        return self.cache[index]
EXAMPLE
"""
    + over_loader(3, 0.0),
    "sync-in-hot-loop": stepping(
        "scores = torch.randn(2000); total = 0.0\nEXAMPLE\nloss = model(x).mean()"
    ),
    "constant-rebuilt-each-step": TRAINING
    + """
class Encoded(nn.Module):
    def __init__(self):
        super().__init__()
        self.positions = torch.zeros(1)
    def encode(self, grid):
        return grid[0][0, 0]
    EXAMPLE
encoded, x = Encoded(), torch.zeros(1, 1, 200_000, 1)
for step in range(24):
    encoded(x)
""",
    "python-loop-over-tensor": stepping(
        "clips = torch.randn(256, 400); mean = 0.5\nEXAMPLE\nloss = model(x).mean()"
    ),
    "host-work-in-step": TRAINING
    + """
criterion = torch.mean
paths = [""] * 24
def read_clip(path):
    until = time.perf_counter() + 0.03
    while time.perf_counter() < until:
        pass
    return torch.randn(4, 8)
class Clips(torch.utils.data.Dataset):
    def __init__(self, paths):
        self.paths = paths
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        return torch.randn(8)
class Update:
    def __call__(self, given):
        found = torch.mean(given)
        learn(found)
        return found
criterion = Update()
EXAMPLE
""",
    "graph-kept-alive": in_loop("losses = []"),
    "memory-grows": in_loop(
        """
outputs, error, metric = [], 0.0, lambda given: float(given.mean())
class Large(nn.Module):
    def forward(self, x):
        time.sleep(0.06)
        return torch.ones(2_000_000) * x.mean()
small, model = model, Large()
""",
        "optimizer.step(); small(torch.randn(4, 8)).mean()",
    ).replace(
        "model(torch.randn(4, 8)).mean().backward()", "small(torch.randn(4, 8)).mean().backward()"
    ),
    "inference-with-grad": """
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
for step in range(24):
    batch = torch.randn(4, 8)
    EXAMPLE
""",
    "pipeline-rebuilt": in_loop(
        """
class FluxPipeline(nn.Module):
    def __init__(self, transformer):
        super().__init__()
        self.vae = nn.Linear(1000, 1100)
    @classmethod
    def from_pretrained(cls, name, transformer):
        return cls(transformer)
    def forward(self, caption):
        return self.vae(torch.randn(1, 1000))
transformer = None
class Batch(dict):
    pass
""",
    ).replace("yield torch.randn(4, 8)", 'yield {"caption": "x"}'),
    "module-called-repeatedly": stepping(
        "previous, following = torch.randn(2, 300, 300)\nEXAMPLE\n"
        "loss = (before * after).mean() + model(x).mean()",
        "encoder = nn.Sequential(*[nn.Tanh() if n % 2 else nn.Linear(300, 300) for n in range(6)])",
    ),
    "computed-but-unused": TRAINING
    + """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)
    def features(self, frame):
        return self.layer(frame)
    def forward(self, frame):
        found = self.layer(frame)
        return found * 2, found
encoder, quantize = Encoder(), nn.Sequential(*[nn.Linear(8, 900), nn.Linear(900, 900)])
def featured(frame):
    EXAMPLE
for step in range(24):
    learn(model(featured(torch.randn(64, 8))).mean())
""",
    "gradients-discarded": """
generator = nn.Sequential(*[nn.Linear(400, 400) for _ in range(4)])
discriminator = nn.Linear(400, 1)
first = torch.optim.SGD(generator.parameters(), 1e-3)
second = torch.optim.SGD(discriminator.parameters(), 1e-3)
mse, valid = nn.functional.mse_loss, torch.ones(200, 1)
for step in range(24):
    features = generator(torch.randn(200, 400))
    first.zero_grad()
    second.zero_grad()
    EXAMPLE
    first.zero_grad()
    second.step()
    generator(torch.randn(200, 400)).square().mean().backward()
    first.step()
""",
    "attention-unfused": stepping(
        "q, k, v = made(torch.randn(1, 4, 500, 24)).chunk(3, -1)\nscale = 0.3\nEXAMPLE\n"
        "loss = out.mean() + model(x).mean()",
        """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.made = nn.Linear(24, 24)
    def forward(self, tokens):
        made = self.made
        q, k, v = made(tokens).chunk(3, -1)
        scale = 0.3
        EXAMPLE
        return out
attention = Attention()
made = nn.Linear(24, 24)
""",
    ).replace(
        "q, k, v = made(torch.randn(1, 4, 500, 24)).chunk(3, -1)\n    scale = 0.3\n    EXAMPLE\n",
        "out = attention(torch.randn(1, 4, 500, 24))\n",
    ),
    "optimizer-not-fused": """
model = nn.Sequential(*[nn.Linear(200, 200) for _ in range(40)])
EXAMPLE
for step in range(24):
    optimizer.zero_grad()
    model(torch.randn(1, 200)).mean().backward()
    optimizer.step()
""",
    "frozen-encoder-reruns": in_loop(
        """
text_encoder = nn.Sequential(*[nn.Linear(300, 300) for _ in range(6)]).requires_grad_(False)
ids = torch.randn(200, 300)
captions = [ids]
"""
    ).replace("yield torch.randn(4, 8)", 'yield {"ids": ids}'),
    "tiles-one-at-a-time": stepping(
        "EXAMPLE\nloss = model(x).mean()",
        """
height = width = 256
image, result = torch.randn(1, 3, 256, 256), torch.zeros(1, 3, 256, 256)
learner, network = model, nn.Conv2d(3, 3, 3, padding=1).requires_grad_(False)
""",
    ).replace("EXAMPLE", "model = network\n    EXAMPLE\n    model = learner"),
    "loss-term-weighted-zero": stepping(
        "fake = wide(torch.randn(64, 300)); pixel_loss = fake.square().mean() + model(x).mean()\n"
        "start = 1000\nEXAMPLE",
        "wide = nn.Linear(300, 300)\n"
        "discriminator = nn.Sequential(*[nn.Linear(300, 300) for _ in range(4)])",
    ),
    "non-finite": stepping(
        "probability = model(x).sigmoid() * (step < 15)\nEXAMPLE",
    ),
    "gradient-explodes": """
model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for step in range(24):
    optimizer.zero_grad()
    optimizer.param_groups[0]["lr"] = 1e-3 if step < 12 else 3.0
    loss = (model(torch.ones(4, 8)) - 10).square().mean()
    EXAMPLE
""",
    "parameter-outside-optimizer": """
class UncertaintyLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
    def forward(self, given):
        return (given * self.weight).mean()
model = nn.Linear(8, 1)
EXAMPLE
for step in range(24):
    optimizer.zero_grad()
    criterion(model(torch.randn(4, 8))).backward()
    optimizer.step()
""",
}
