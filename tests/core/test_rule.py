import sys

import pytest

from pitstop.core.finding import Finding
from pitstop.core.rule import example, load_rules, rule


@rule("PIT999")
def too_odd(number: int):
    """The number is odd.

    Bad:
        3

    Good:
        2

        4
    After.
    """
    if number % 2:
        yield Finding()
        yield Finding("Odd, and said in other words.")


def test_findings_are_stamped_and_the_summary_is_the_default_message():
    first, second = too_odd(3)
    assert (first.code, first.rule, first.message) == ("PIT999", "too-odd", "The number is odd.")
    assert second.message == "Odd, and said in other words."
    assert too_odd(2) == []


def test_examples_are_read_from_the_documentation():
    assert example(too_odd.doc, "Bad") == "3\n"
    assert example(too_odd.doc, "Good") == "2\n\n4\n"
    assert example(too_odd.doc, "Ugly") == ""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "some_rules").mkdir()
    (tmp_path / "some_rules" / "__init__.py").write_text("")
    yield tmp_path / "some_rules"
    for name in [name for name in sys.modules if name.startswith("some_rules")]:
        del sys.modules[name]


RULE = '''
from pitstop.core.rule import rule

@rule("PIT{code}")
def {name}(subject):
    """It is so."""
    yield from ()
'''


def test_a_rule_is_found_by_being_a_file_in_the_folder(folder):
    import some_rules

    (folder / "later.py").write_text(RULE.format(code="902", name="later"))
    (folder / "sooner.py").write_text(RULE.format(code="901", name="sooner"))
    assert [each.name for each in load_rules(some_rules)] == ["sooner", "later"]


def test_a_file_without_its_rule_is_named(folder):
    import some_rules

    (folder / "empty_one.py").write_text("")
    with pytest.raises(TypeError, match=r"some_rules\.empty_one: expected a function 'empty_one'"):
        load_rules(some_rules)
