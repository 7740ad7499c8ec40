import pytest

from pitstop.scan.rules.compile_inside_try import compile_inside_try
from pitstop.scan.source import Source

FALLBACK = "except Exception:\n    print('compile failed')\n"


def found(body, handler=FALLBACK, before=""):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return compile_inside_try(Source(f"import torch\n{before}try:\n{lines}{handler}"))


@pytest.mark.parametrize(
    ("body", "handler"),
    [
        ("model = torch.compile(model)\nmodel(x)", FALLBACK),  # the first call is inside
        ("pipe.unet = torch.compile(pipe.unet)\npipe(prompt)", FALLBACK),
        ("self.net = torch.compile(self.net)\nself.warm_up()", FALLBACK),
        ("model = torch.compile(model)", "except AttributeError:\n    pass\n"),  # old torch
        ("model = torch.compile(model)", "finally:\n    done()\n"),
        ("a()\nb()\nmodel = torch.compile(model)\nc()", "except OSError:\n    pass\n"),
        ("import re\npattern = re.compile('x')", FALLBACK),
    ],
)
def test_leaves_alone(body, handler):
    assert found(body, handler) == []


@pytest.mark.parametrize(
    "body",
    [
        "model = torch.compile(model)\nlog.info('compiled')",
        "if ready:\n    self.net = torch.compile(self.net, mode='max-autotune')",
        "a()\nb()\nmodel = torch.compile(model)\nc()",  # the handler speaks of compiling
        "return_value = [torch.compile(each) for each in blocks]",
    ],
)
def test_finds(body):
    (finding,) = found(body)
    assert finding.severity == "error"


def test_quiet_when_dynamo_falls_back_by_itself():
    before = "import torch._dynamo\ntorch._dynamo.config.suppress_errors = True\n"
    assert found("model = torch.compile(model)", before=before) == []


def test_quiet_in_the_handler_itself():
    handler = "except Exception:\n    model = torch.compile(model, backend='eager')\n"
    assert found("model = load()", handler) == []
