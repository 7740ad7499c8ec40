import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from click.testing import CliRunner

from pitstop.cli import explain, rules
from pitstop.core import plugins
from pitstop.scan import cache, worker
from pitstop.scan.plugins import GROUP
from pitstop.scan.run import Options, scan

PLUGIN = """
from pitstop.core.rule import rule

@rule("PIT999")
def sleeps(source):
    \"\"\"Sleeping is slow.\"\"\"
    for call in source.calls("time.sleep"):
        yield source.finding(call)

answer = 42
"""


def forget():
    plugins.load_plugins.cache_clear()
    worker.static_rules.cache_clear()


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make entry points ``name = acme:name`` known, as an installed package would."""

    def known(*names):
        entries = [EntryPoint(name, f"acme:{name}", GROUP) for name in names]
        monkeypatch.setattr(plugins, "entry_points", lambda group: entries)
        forget()

    (tmp_path / "acme.py").write_text(PLUGIN)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("import time\ntime.sleep(1)\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path / "code")
    yield known
    sys.modules.pop("acme", None)
    forget()


def test_a_plugin_rule_runs_and_is_selected_like_any_other(install):
    install("sleeps")
    report = scan([Path()], Options(use_cache=False))
    assert [(each.code, each.rule) for each in report.findings] == [("PIT999", "sleeps")]
    assert report.docs == {"PIT999": "Sleeping is slow."}
    assert scan([Path()], Options(ignore=("sleeps",), use_cache=False)).findings == ()


def test_a_plugin_rule_is_listed_and_explained(install):
    install("sleeps")
    listed = CliRunner().invoke(rules.command, [])
    assert "PIT999  plugin   sleeps" in listed.output
    assert "Sleeping is slow." in CliRunner().invoke(explain.command, ["PIT999"]).output


def test_a_broken_plugin_is_one_line_and_the_others_run(install):
    install("gone", "answer", "sleeps")
    report = scan([Path()], Options(use_cache=False))
    assert [each.code for each in report.findings] == ["PIT999"]
    assert report.skipped == (
        "plugin gone: cannot be loaded (AttributeError: module 'acme' has no attribute 'gone')",
        "plugin answer: cannot be loaded (TypeError: it is no function decorated with @rule)",
    )


def test_the_cache_notices_another_plugin(install):
    install()
    before = cache.engine_digest()
    install("sleeps")
    assert cache.engine_digest() != before
