import ast
import sys

import pytest

from pitstop.core.finding import Edit, Fix
from pitstop.scan.source import Source


def names(text, path=""):
    source = Source(text, path)
    return [source.name_of(call.func) for call in source.nodes(ast.Call)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import torch\ntorch.zeros(1)", "torch.zeros"),
        ("import torch.nn.functional as F\nF.relu(x)", "torch.nn.functional.relu"),
        ("import torch.nn\ntorch.nn.ReLU()", "torch.nn.ReLU"),
        ("from torch import nn as layers\nlayers.ReLU()", "torch.nn.ReLU"),
        ("from torch import *\nzeros(1)", "zeros"),
        ("self.net.forward(x)", "self.net.forward"),
        ("make()(x)", ""),
        ("nets[0](x)", ""),
    ],
)
def test_names_are_resolved_through_imports(text, name):
    assert names(text)[0] == name


@pytest.mark.parametrize(
    ("path", "line", "name"),
    [
        ("models/vae.py", "from .blocks import conv", "models.blocks.conv"),
        ("models/vae.py", "from . import conv", "models.conv"),
        ("models/vae.py", "from ..data import conv", "data.conv"),
        ("models/__init__.py", "from .vae import conv", "models.vae.conv"),
        ("/abs/models/vae.py", "from .blocks import conv", "abs.models.blocks.conv"),
    ],
)
def test_relative_imports_are_resolved_against_the_path(path, line, name):
    assert names(f"{line}\nconv(1)\n", path) == [name]


def test_a_parameter_hides_an_import_of_the_same_name_in_its_function_only():
    text = "from torch import zeros\ndef f(zeros):\n    zeros(1)\nzeros(2)\n"
    assert names(text) == ["zeros", "torch.zeros"]


@pytest.mark.parametrize("line", ["é = 'ü'; call(a)", "call(a)", "\tx = '🏎️'; call(a)"])
def test_extents_count_characters_also_after_other_alphabets(line):
    text = f"if 1:\n  pass\nif 2:\n {line}\n"
    source = Source(text)
    (call,) = source.nodes(ast.Call)
    assert source.text_of(call) == "call(a)"
    assert source.span(call).column == text.splitlines()[3].index("call") + 1


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_of_python_counts(end):
    source = Source(f"a = 1{end}b = 'x\x0cy'{end}call(b)", "x.py")
    (call,) = source.nodes(ast.Call)
    assert source.text_of(call) == "call(b)"
    assert source.span(call).line == 3


def test_nodes_come_in_source_order_and_of_the_asked_types_only():
    source = Source("for a in b:\n    while c:\n        pass\nfor d in e:\n    pass\n")
    assert [node.lineno for node in source.nodes(ast.For)] == [1, 4]
    assert [node.lineno for node in source.nodes(ast.For, ast.While)] == [1, 4, 2]


def test_calls_are_found_by_full_name_and_methods_by_their_last_word():
    source = Source("from torch import zeros as z\nz(1).to(d)\nx.to(d)\n")
    assert len(source.calls("torch.zeros")) == 1
    assert len(source.calls("zeros")) == 0
    assert len(source.method_calls("to")) == 2


def test_enclosing_loop_means_repeated_by():
    source = Source("for a in once():\n    again()\nelse:\n    after()\ndef f():\n    other()\n")
    loops = {source.text_of(call): source.enclosing_loop(call) for call in source.nodes(ast.Call)}
    assert [name for name, loop in loops.items() if loop] == ["again()"]


def test_enclosing_function_leaves_decorators_and_defaults_outside():
    source = Source("@outer(1)\ndef f(a=default()):\n    inner()\n")
    found = {
        source.text_of(call): source.enclosing_function(call) for call in source.nodes(ast.Call)
    }
    assert found["outer(1)"] is None
    assert found["default()"] is None
    assert found["inner()"] is source.functions[0]


def test_qualified_names_hold_classes_and_outer_functions():
    source = Source("class A:\n    def f(self):\n        def g():\n            pass\n")
    assert [source.qualified_name(each) for each in source.functions] == ["A.f", "A.f.g"]


def test_arguments_are_found_by_keyword_or_position_but_not_behind_a_star():
    source = Source("f(1, 2)\nf(b=2)\nf(*a, 2)\nf(**o)\n")
    calls = source.nodes(ast.Call)
    assert [source.literal(source.argument(call, "b", 1)) for call in calls] == [2, 2, None, None]
    assert [source.open_ended(call) for call in calls] == [False, False, True, True]


@pytest.mark.parametrize(
    ("options", "known"),
    [
        ("o = dict(b=2)", True),
        ("o = {'b': 2}", True),
        ("o = dict(b=2)\nf(3, **o)", True),
        ("o = {name: 2}", False),
        ("o = dict(other, b=2)", False),
        ("o = {'b': 2, **other}", False),
        ("o = dict(b=2)\no['b'] = 3", False),
        ("o = dict(b=2)\nchange(o)", False),
        ("o = dict(b=2)\nif fast:\n    o = dict(b=3)", False),
        ("o = read()", False),
    ],
)
def test_options_that_are_written_out_are_arguments(options, known):
    source = Source(f"{options}\nf(1, **o)\n")
    call = source.nodes(ast.Call)[-1]
    assert source.open_ended(call) is not known
    assert source.literal(source.argument(call, "b")) == (2 if known else None)


def test_assigned_follows_self_and_gives_up_where_a_value_is_unknown():
    text = """
class Net:
    def __init__(self, width):
        self.a = 4
        self.b = width
    def forward(self):
        use(self.a)
        use(self.c)
def f(x):
    y = 1
    if x:
        y = 2
    use(y)
    use(x)
"""
    source = Source(text)
    values = [source.assigned(call.args[0]) for call in source.calls("use")]
    shown = [value and sorted(source.text_of(each) for each in value) for value in values]
    assert shown == [["4"], None, ["1", "2"], None]


def test_a_later_assignment_does_not_reach_back_unless_a_loop_does():
    source = Source("y = 1\nuse(y)\ny = 2\n")
    assert source.literal(source.calls("use")[0].args[0]) == 1
    looped = Source("def f():\n    y = 1\n    while 1:\n        use(y)\n        y = 2\n")
    assert looped.literal(looped.calls("use")[0].args[0]) is None


def test_findings_carry_place_and_any_further_field():
    source = Source("x = torch.zeros(1)\n", "a.py")
    finding = source.finding(source.nodes(ast.Call)[0], "Slow.", severity="note")
    assert finding.span is not None
    assert (finding.span.path, finding.span.line, finding.span.column) == ("a.py", 1, 5)
    assert finding.severity == "note"


def test_a_config_file_has_settings_and_no_nodes():
    source = Source("num_workers: 0\n", "a.yaml")
    (setting,) = source.settings
    assert source.nodes(ast.Call) == []
    assert source.text_of(setting) == "0"
    assert source.finding(setting).span is not None


def test_a_python_file_has_no_settings():
    assert Source("num_workers: int = 0\n", "a.py").settings == ()


@pytest.mark.parametrize(
    "text",
    [
        'x = f"{a} {call(b)}"\n',
        'x = f"""é\n{a}\n  {call(b)}"""\n',
        'x = ("é" f"{a}"\n     f"{call(b)}")\n',
        'x = f"{a:{call(b)}}"\n',
    ],
)
def test_in_an_f_string_a_finding_is_at_its_place_or_at_the_string_without_a_fix(text):
    source = Source(text)
    (call,) = source.nodes(ast.Call)
    finding = source.finding(call, fix=Fix("x", (Edit(0, 1, "y"),)))
    assert finding.span is not None
    start = source.lines.starts[finding.span.line - 1] + finding.span.column - 1
    if finding.fix:
        assert text[start : start + 7] == "call(b)"
    else:
        assert sys.version_info < (3, 12)
        assert start == text.index(source.text_of(source.nodes(ast.JoinedStr)[0]))
