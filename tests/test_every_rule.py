"""What every rule must satisfy. A new rule is covered here without touching this file."""

import ast
import re
from collections import Counter, defaultdict

import pytest

import pitstop.core.machine
import pitstop.data.dataset
import pitstop.logs.history
from pitstop.cli.rules import every_rule
from pitstop.core.rule import example
from pitstop.report.rule_page import SUBJECTS, means
from pitstop.scan.edits import apply_fix
from pitstop.scan.source import Source

RULES = every_rule()
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.name}-{means(rule)}")


def seen_by(kind):
    chosen = [rule for rule in RULES if means(rule) == kind]
    return pytest.mark.parametrize("rule", chosen, ids=lambda rule: rule.name)


def test_one_rule_per_code_and_means_and_one_name_per_code():
    names, pairs = defaultdict(set), defaultdict(int)
    for rule in RULES:
        names[rule.code].add(rule.name)
        pairs[rule.code, means(rule)] += 1
    assert {code: found for code, found in names.items() if len(found) > 1} == {}
    assert {pair: count for pair, count in pairs.items() if count > 1} == {}


def test_a_code_has_one_essay():
    essays = Counter(rule.code for rule in RULES if rule.essay)
    assert essays == dict.fromkeys((rule.code for rule in RULES), 1)


@each_rule
def test_has_a_code_and_a_summary(rule):
    assert re.fullmatch(r"PIT\d{3}", rule.code)
    assert rule.code[3] in SUBJECTS
    assert rule.summary.endswith(".")
    assert len(rule.summary) <= 88


@each_rule
def test_an_essay_ends_in_examples_and_a_run_rule_without_one_refers_to_them(rule):
    if means(rule) == "run" and not rule.essay:
        assert rule.doc == rule.summary
        return
    for heading in ("Bad", "Good"):
        assert ast.parse(example(rule.doc, heading)).body


@seen_by("machine")
def test_finds_the_bad_machine_and_not_the_good_one(rule):
    names = vars(pitstop.core.machine)
    bad, good = (eval(example(rule.doc, heading), dict(names)) for heading in ("Bad", "Good"))
    assert len(rule(bad)) == 1
    assert rule(good) == []


@seen_by("dataset")
def test_finds_the_bad_dataset_and_not_the_good_one(rule):
    names = vars(pitstop.data.dataset)
    bad, good = (eval(example(rule.doc, heading), dict(names)) for heading in ("Bad", "Good"))
    assert len(rule(bad)) == 1
    assert rule(good) == []


@seen_by("log")
def test_finds_the_bad_run_and_not_the_good_one(rule):
    names = vars(pitstop.logs.history)
    bad, good = (eval(example(rule.doc, heading), dict(names)) for heading in ("Bad", "Good"))
    assert len(rule(bad)) == 1
    assert rule(good) == []


@seen_by("source")
def test_finds_the_bad_source_and_fixes_it_into_the_good_one(rule):
    bad, good = ("import torch\n" + example(rule.doc, heading) for heading in ("Bad", "Good"))
    (finding,) = rule(Source(bad))
    assert rule(Source(good)) == []
    if finding.fix:
        assert apply_fix(bad, finding.fix) == good
