import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.core.finding import Edit, Fix
from pitstop.scan.edits import (
    add_argument,
    apply_edits,
    apply_fix,
    insert_after,
    insert_before,
    insert_import,
    remove_argument,
    remove_statement,
    replace,
    set_argument,
    wrap,
)
from pitstop.scan.source import Source


def edited(text, make):
    source = Source(text)
    edits = make(source)
    fix = Fix("x", tuple(edits) if isinstance(edits, tuple) else (edits,))
    return apply_fix(text, fix)


def first_call(source):
    return source.nodes(ast.Call)[0]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(k=1)"),
        ("f(  # none yet\n)", "f(k=1  # none yet\n)"),
        ("f(a)", "f(a, k=1)"),
        ("f(a,)", "f(a, k=1)"),
        ("f((a),)", "f((a), k=1)"),
        ("f((a))", "f((a), k=1)"),
        ("f(a, b=2)", "f(a, b=2, k=1)"),
        ("f(*a, **b)", "f(*a, **b, k=1)"),
        ("f(\n    a,  # why\n    b,  # not\n)", "f(\n    a,  # why\n    b, k=1  # not\n)"),
        ("f(\n    a  # why\n    ,\n)", "f(\n    a, k=1  # why\n    \n)"),
        ("f(a)(b)", "f(a)(b, k=1)"),
        ("(f)(a)", "(f)(a, k=1)"),
        ("(f)()", "(f)(k=1)"),
        ("f(')', \"#\")", "f(')', \"#\", k=1)"),
        ("é = f('ü', '🏎️')", "é = f('ü', '🏎️', k=1)"),
        ("f(a[0], (b, c))", "f(a[0], (b, c), k=1)"),
        ("f(b=2, *a)", "f(b=2, *a, k=1)"),
    ],
)
def test_add_argument(before, after):
    assert edited(before, lambda source: add_argument(source, first_call(source), "k=1")) == after


def test_a_bare_generator_takes_no_further_argument():
    source = Source("f(x for x in y)")
    with pytest.raises(ValueError, match="generator"):
        add_argument(source, first_call(source), "k=1")


def test_set_argument_changes_the_value_that_is_there():
    assert edited("f(a, k=0)", lambda s: set_argument(s, first_call(s), "k", "4")) == "f(a, k=4)"
    assert edited("f(a)", lambda s: set_argument(s, first_call(s), "k", "4")) == "f(a, k=4)"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(k=1)", "f()"),
        ("f(k=1,)", "f()"),
        ("f(a, k=1)", "f(a)"),
        ("f(a, k=1,)", "f(a,)"),
        ("f(k=1, b=2)", "f(b=2)"),
        ("f(a, k=1, b=2)", "f(a, b=2)"),
        ("f((a), k=(1), b=2)", "f((a), b=2)"),
        ("f(\n    a,  # why\n    k=1,\n)", "f(\n    a,  # why\n)"),
        ("f(\r\n    a,  # why\r\n    k=1\r\n)", "f(\r\n    a,  # why\r\n)"),
        ("f(\n    a,  # why\n    k=1)", "f(\n    a,  # why\n    )"),
    ],
)
def test_remove_argument(before, after):
    def remove(source):
        call = first_call(source)
        return remove_argument(
            source, call, call.keywords[[k.arg for k in call.keywords].index("k")]
        )

    assert edited(before, remove) == after


def test_remove_argument_takes_a_positional_one_with_its_parentheses():
    def remove(source):
        call = first_call(source)
        return remove_argument(source, call, call.args[0])

    assert edited("f((a), b)", remove) == "f(b)"
    assert edited("f((a))", remove) == "f()"


def test_replace_and_wrap():
    assert edited("x = f(a)", lambda s: replace(s, first_call(s), "g")) == "x = g"
    assert edited("x = f(a)", lambda s: wrap(s, first_call(s), "float(", ")")) == "x = float(f(a))"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\n", "a\n"),
        ("a\nb  # why\nc\n", "a\nc\n"),
        ("if x:\n    b\n", "if x:\n    pass\n"),
        ("if x:\n    a\n    b\n", "if x:\n    a\n"),
        ("if x: b\n", "if x: pass\n"),
        ("a; b\n", "a; pass\n"),
        ("a\nb", "a\n"),
    ],
)
def test_remove_statement(before, after):
    def remove(source):
        name = next(n for n in source.nodes(ast.Name) if n.id == "b")
        return remove_statement(source, source.statement(name))

    assert edited(before, remove) == after


def test_insert_before_and_after_keep_indentation_and_line_ends():
    def statement(source):
        return source.statement(next(n for n in source.nodes(ast.Name) if n.id == "b"))

    text = "if x:\r\n    b  # why\r\n"
    assert edited(text, lambda s: insert_before(s, statement(s), "c")) == (
        "if x:\r\n    c\r\n    b  # why\r\n"
    )
    assert edited(text, lambda s: insert_after(s, statement(s), "c")) == (
        "if x:\r\n    b  # why\r\n    c\r\n"
    )
    decorated = "class A:\n    @d\n    def b(self):\n        pass\n"
    assert edited(decorated, lambda s: insert_before(s, s.functions[0], "c = 1")) == (
        "class A:\n    c = 1\n    @d\n    def b(self):\n        pass\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x\n", "import torch\nx\n"),
        ("#!/usr/bin/env python\n# -*- coding: utf-8 -*-\nx\n", None),
        ('"""Doc."""\nx\n', '"""Doc."""\nimport torch\nx\n'),
        ("import os\nx\nimport late\n", "import os\nimport torch\nx\nimport late\n"),
        (
            "from __future__ import annotations\nx\n",
            "from __future__ import annotations\nimport torch\nx\n",
        ),
        ("import torch\n", "import torch\n"),
    ],
)
def test_insert_import(before, after):
    def insert(source):
        edit = insert_import(source, "import torch")
        return (edit,) if edit else ()

    expected = after or before.replace("x\n", "import torch\nx\n")
    assert edited(before, insert) == expected


def test_an_edit_that_breaks_the_file_is_refused():
    with pytest.raises(SyntaxError):
        apply_fix("f(a)\n", Fix("x", (Edit(1, 2, ""),)))
    with pytest.raises(ValueError, match="Extra data"):
        apply_fix('{"a": 1}', Fix("x", (Edit(0, 1, ""),)), "a.json")


@pytest.mark.parametrize(
    "edits", [(Edit(0, 3, ""), Edit(2, 4, "")), (Edit(2, 9, ""),), (Edit(2, 1, ""),)]
)
def test_edits_that_overlap_or_leave_the_text_are_refused(edits):
    with pytest.raises(ValueError, match="overlaps"):
        apply_edits("abcd", edits)


NAMES = st.sampled_from(["a", "é", "変数", "b1"])
STRINGS = st.sampled_from(["'x'", "'ü,)'", '"🏎️ # no"', "'''a\nb'''", "(1)", "((a), )", "[1, 2]"])
GAPS = st.sampled_from(["", " ", "\n    ", "  # é, )\n    "])


@st.composite
def calls(draw):
    arguments = draw(st.lists(NAMES | STRINGS, max_size=4))
    arguments += [f"k{i}={value}" for i, value in enumerate(draw(st.lists(NAMES, max_size=2)))]
    parts = [draw(GAPS) + argument + draw(GAPS) for argument in arguments]
    comma = draw(st.sampled_from(["", ",", ", ", ",  # ü\n"])) if parts else draw(GAPS)
    return f"{draw(NAMES)} = {draw(STRINGS)}; f({','.join(parts)}{comma})\n"


def the_call(text):
    source = Source(text)
    return source, next(c for c in source.nodes(ast.Call) if source.name_of(c.func) == "f")


def meaning(text):
    _, call = the_call(text)
    return [ast.dump(a) for a in call.args], {k.arg: ast.dump(k.value) for k in call.keywords}


@given(calls())
def test_an_added_argument_is_added_and_nothing_else_changes(text):
    source, call = the_call(text)
    changed = apply_fix(text, Fix("x", (add_argument(source, call, "added=1"),)))
    arguments, keywords = meaning(changed)
    assert keywords.pop("added") == "Constant(value=1)"
    assert (arguments, keywords) == meaning(text)
    assert changed.count("#") == text.count("#")


@given(calls(), st.data())
def test_a_removed_argument_is_gone_and_nothing_else_changes(text, data):
    source, call = the_call(text)
    items = [*call.args, *call.keywords]
    if not items:
        return
    index = data.draw(st.integers(0, len(items) - 1))
    changed = apply_fix(text, Fix("x", (remove_argument(source, call, items[index]),)))
    arguments, keywords = meaning(text)
    if index < len(arguments):
        del arguments[index]
    else:
        del keywords[call.keywords[index - len(arguments)].arg]
    assert meaning(changed) == (arguments, keywords)


@given(calls())
def test_every_extent_is_what_the_parser_calls_it(text):
    source = Source(text)
    for node in source.nodes(ast.Name, ast.Constant, ast.Call):
        assert source.text_of(node) == ast.get_source_segment(text, node)
