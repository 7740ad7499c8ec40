import pytest

import pitstop.scan.rules
from pitstop.core.errors import PitstopError
from pitstop.core.rule import load_rules
from pitstop.scan.selection import Selection, matches

RULES = load_rules(pitstop.scan.rules)


@pytest.mark.parametrize("selector", ["PIT202", "pit2", "PIT", "ALL", "tensor-built-on-cpu"])
def test_selectors_that_match(selector):
    assert matches(selector, "PIT202", "tensor-built-on-cpu")


@pytest.mark.parametrize("selector", ["PIT203", "PIT3", "202", "tensor-built", ""])
def test_selectors_that_do_not(selector):
    assert not matches(selector, "PIT202", "tensor-built-on-cpu")


def codes(selection):
    return {rule.code for rule in selection.rules(RULES)}


def test_ignore_wins_over_select():
    assert codes(Selection(("PIT2",))) >= {"PIT202", "PIT207"}
    assert "PIT402" not in codes(Selection(("PIT2",)))
    assert "PIT202" not in codes(Selection(("PIT2",), ("tensor-built-on-cpu",)))


@pytest.mark.parametrize(
    "selection",
    [Selection(("PIT9999",)), Selection(ignore=("nope",)), Selection(per_file={"a": ("nope",)})],
)
def test_a_selector_of_nothing_is_an_error(selection):
    with pytest.raises(PitstopError, match="no rule is called"):
        selection.rules(RULES)


def test_rules_may_be_silenced_by_file():
    selection = Selection(per_file={"tests/*": ("PIT2",), "conf.py": ("ALL",)})
    assert selection.silences("tests/a.py", "PIT202", "x")
    assert selection.silences("docs/conf.py", "PIT402", "x")
    assert not selection.silences("src/a.py", "PIT202", "x")
    assert not selection.silences("tests/a.py", "PIT402", "x")
