import pytest

from pitstop.scan.source import Source


def project(text, path="a.py"):
    return Source("import torch\n" + text, path).project


@pytest.mark.parametrize(
    "text",
    [
        "with torch.autocast('cuda'):\n    pass",
        "from torch.cuda.amp import autocast\nautocast()",
        "scaler = torch.amp.GradScaler()",
        "Accelerator(mixed_precision='bf16')",
    ],
)
def test_mixed_precision_is_noticed(text):
    assert project(text).uses_amp
    assert not project("x = 1").uses_amp


@pytest.mark.parametrize(
    "text",
    [
        "Accelerator(gradient_accumulation_steps=4)",
        "with accelerator.accumulate(model):\n    pass",
        "n = opt['accum_iter']",
        "parser.add_argument('--gradient-accumulation-steps')",
    ],
)
def test_accumulation_is_noticed(text):
    assert project(text).accumulates
    assert not project("x = 1").accumulates


def test_mentions_takes_exact_names_and_prefixes():
    found = project("torch.backends.cudnn.benchmark")
    assert found.mentions("torch.backends.cudnn.benchmark")
    assert found.mentions("torch.backends.")
    assert not found.mentions("torch.backends")
    assert found.where("torch.backends.cudnn.benchmark") == [("a.py", 2)]


@pytest.mark.parametrize(
    "text",
    ["cfg['key']", "cfg.key", "cfg.get('key', 1)", "add.add_argument('--key')", "self.args.key"],
)
def test_keys_that_are_read(text):
    assert project(text).reads_key("key")
    assert not project("x.key").reads_key("key")


def test_switches_have_value_and_offsets():
    text = (
        "torch.backends.cuda.matmul.allow_tf32 = True\ntorch.set_float32_matmul_precision('high')"
    )
    found = project(text)
    assert [(each.value, each.line) for each in found.tf32_switches] == [("True", 2), ("'high'", 3)]
    whole = "import torch\n" + text
    assert [whole[each.start : each.end] for each in found.tf32_switches] == text.split("\n")
    assert found.fp32_precision_switches == ()


def test_settings_of_configs_are_facts_of_the_project():
    (setting,) = Source("data:\n  pin_memory: false\n", "c.yaml").project.settings
    assert (setting.keys, setting.value, setting.line) == (("data", "pin_memory"), False, 2)


def test_derives_survives_a_class_that_names_itself_as_its_base():
    text = "class A(B):\n    pass\nclass B(A):\n    pass\n"
    assert not project(text).derives("a.A", "torch.nn.Module")
