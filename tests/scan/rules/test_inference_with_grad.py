import pytest

from pitstop.scan.edits import apply_fix
from pitstop.scan.facts import read_facts
from pitstop.scan.project import Project
from pitstop.scan.rules.inference_with_grad import inference_with_grad
from pitstop.scan.source import Source


def found_in(text):
    return inference_with_grad(Source(f"import torch\n{text}\n"))


@pytest.mark.parametrize(
    "text",
    [
        "def f(model, x):\n    model.eval()\n    with torch.no_grad():\n        return model(x)",
        "@torch.inference_mode()\ndef f(model, x):\n    model.eval()\n    return model(x)",
        "@smart_inference_mode()\ndef f(model, x):\n    model.eval()\n    return model(x)",
        "def f(model, x):\n    model(x)\n    model.eval()",  # runs before
        "def f(model, x):\n    model.eval()\n    model(x).mean().backward()",
        "def f(model, x):\n    model.eval()\n    return other(x)",
        "def f(model, x):\n    model.eval()\n    model.requires_grad_(False)\n    return model(x)",
        "torch.set_grad_enabled(False)\nmodel.eval()\nmodel(x)",
        "def f(m, x):\n    m.eval()\n    return m(x)\n\nwith torch.no_grad():\n    f(m, x)",
        "def f(m, x):\n    m.eval()\n    return m(x)\n\n@torch.no_grad()\ndef g():\n    f(m, x)",
        "model.eval()\nmodel.inference(x)",  # may turn gradients off itself: not known
        "model.eval()\nmodel.generate(x)",
        "frame.eval('a + b')\nframe(x)",
        "model.eval()\nfor x in train_loader:\n    model(x).backward()",
        "def go(y):\n    y.backward()\n\ndef evaluate(m, x):\n    m.eval()\n    go(m(x))",
        "def evaluate(m, x):\n    m.eval()\n    y = m(x)\n    return torch.autograd.grad(y, x)",
        "class Loss(torch.nn.Module):\n    def forward(self, x):\n"
        "        self.net.eval()\n        return self.net(x)",  # the loss is differentiated
    ],
)
def test_leaves_alone(text):
    assert found_in(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "model = Network().cuda().eval()\nmodel(x)",
        "model.eval()\nfor x in frames:\n    out = model(x)",
        "def test(self, x):\n    self.net.eval()\n    y = self.net(x)\n    self.net.train()",
    ],
)
def test_finds(text):
    assert [found.code for found in found_in(text)] == ["PIT503"]


@pytest.mark.parametrize("name", ["validate", "run_test", "f"])
def test_no_name_proves_that_nobody_differentiates_what_comes_out(name):
    text = f"import torch\n\ndef {name}(model, x):\n    model.eval()\n    return model(x)\n"
    (finding,) = inference_with_grad(Source(text))
    assert not finding.fix.safe
    fixed = apply_fix(text, finding.fix)
    assert fixed == text.replace("def ", "@torch.no_grad()\ndef ")
    assert inference_with_grad(Source(fixed)) == []


def test_a_script_is_switched():
    text = "import torch\nmodel.eval()\nmodel(x)\n"
    (finding,) = inference_with_grad(Source(text))
    assert not finding.fix.safe
    fixed = apply_fix(text, finding.fix)
    assert fixed == "import torch\nmodel.eval()\ntorch.set_grad_enabled(False)\nmodel(x)\n"
    assert inference_with_grad(Source(fixed)) == []


def test_no_fix_where_the_line_holds_more():
    (finding,) = found_in("model.eval(); model.to(device)\nmodel(x)")
    assert finding.fix is None


def test_no_fix_below_other_decorators():
    (finding,) = found_in("@click.command()\ndef f(m, x):\n    m.eval()\n    return m(x)")
    assert finding.fix is None


NETWORK = (
    "import torch\n\nclass Model:\n    {decorator}\n    def inference(self, x):\n        pass\n"
)
SCRIPT = "import torch\nfrom models.net import Model\nmodel = Model()\nmodel.eval()\nmodel.{call}\n"


def in_project(call, decorator):
    script = Source(SCRIPT.format(call=call), "bench.py")
    network = Source(NETWORK.format(decorator=decorator), "models/net.py")
    project = Project.of([read_facts(script), read_facts(network)])
    return inference_with_grad(script.in_project(project))


def test_follows_the_method_into_the_file_of_its_class():
    assert len(in_project("inference(x)", "# plain")) == 1
    assert in_project("inference(x)", "@torch.no_grad()") == []


def test_quiet_when_another_file_calls_the_function():
    script = Source("import torch\ndef f(m, x):\n    m.eval()\n    return m(x)\n", "a.py")
    caller = Source("import torch\nfrom a import f\nwith torch.no_grad():\n    f(m, x)\n", "b.py")
    project = Project.of([read_facts(script), read_facts(caller)])
    assert inference_with_grad(script.in_project(project)) == []


def test_quiet_when_a_helper_of_another_file_runs_backward():
    script = Source(
        "import torch\nfrom b import go\ndef evaluate(m, x):\n    m.eval()\n    go(m(x))\n", "a.py"
    )
    helper = Source("def go(y):\n    step(y)\n\ndef step(y):\n    y.backward()\n", "b.py")
    project = Project.of([read_facts(script), read_facts(helper)])
    assert inference_with_grad(script.in_project(project)) == []
    assert len(inference_with_grad(script.in_project(Project.of([read_facts(script)])))) == 1
