import os
import sys
from pathlib import Path

import pytest

import pitstop
from pitstop.core.finding import Finding
from pitstop.core.rule import Rule
from pitstop.scan import cache, parse, passes, run, worker
from pitstop.scan.facts import read_facts
from pitstop.scan.run import Options, scan, scan_and_fix

BAD = "import torch\nx = torch.zeros(8).to(device)\n"
GOOD = "import torch\nx = torch.zeros(8, device=device)\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PITSTOP_CACHE", str(tmp_path / ".pitstop"))
    return tmp_path


def found(*paths, **options):
    report = scan([Path(p) for p in paths or ["."]], Options(**options))
    return [(f.span.path, f.span.line, f.code) for f in report.findings]


def test_findings_are_sorted_by_place_and_documented(folder):
    Path("b.py").write_text(BAD)
    Path("a.py").write_text(BAD + BAD)
    report = scan([Path()])
    places = [(f.span.path, f.span.line) for f in report.findings if f.span]
    assert places == [("a.py", 2), ("a.py", 4), ("b.py", 2)]
    assert report.docs.keys() == {"PIT202"}
    assert report.verdict == "3 findings in 2 of 2 files."
    assert report.next == "pitstop scan --fix mends 3 of them"


def test_nothing_found_and_nothing_to_scan_are_told_apart(folder):
    assert scan([Path()]).verdict == "No Python files found."
    Path("a.py").write_text(GOOD)
    assert scan([Path()]).verdict == "Nothing found in 1 file."


BAD_FILES = {
    "syntax.py": (b"def f(:\n", "syntax error at line 1"),
    "old.py": (b"print 'hello'\n", "Python 2 syntax at line 1"),
    "older.py": (b"try:\n    a()\nexcept E, e:\n    pass\n", "Python 2 syntax at line 3"),
    "nul.py": (b"x = 1\0\n", "NUL bytes"),
    "latin.py": (b"x = '\xe9'\n", "cannot be decoded"),
    "cookie.py": (b"# coding: nonsense\n", "cannot be decoded"),
    "deep.py": (b"(" * 5000 + b")" * 5000, "too many nested|nested too deeply|syntax error"),
    "deeper.py": (b"x = " + b"-" * 50_000 + b"1\n", "nested too deeply|syntax error|too complex"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_input_is_one_line_and_the_rest_is_scanned(folder, name):
    data, reason = BAD_FILES[name]
    Path(name).write_bytes(data)
    Path("z.py").write_text(BAD)
    report = scan([Path()])
    assert [f.span.path for f in report.findings if f.span] == ["z.py"]
    (line,) = report.skipped
    assert line.startswith(f"{name}: ")
    assert "\n" not in line
    assert any(word in line for word in reason.split("|"))
    assert Path(name).read_bytes() == data


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + BAD.encode(),
        BAD.replace("\n", "\r\n").encode(),
        b"# -*- coding: latin-1 -*-\n# \xe9\n" + BAD.encode(),
        "# 🏎️ é\n".encode() + BAD.encode(),
        BAD.encode().rstrip(b"\n"),
        BAD.encode() + b"'\\d'\n",  # a warning of the parser is not the user's business here
    ],
)
def test_odd_but_valid_files_are_scanned_and_fixed_as_they_were_written(folder, data, recwarn):
    Path("a.py").write_bytes(data)
    scanned = scan_and_fix([Path()], Options())
    scanned.write()
    expected = data.replace(b"(8).to(device)", b"(8, device=device)")
    assert Path("a.py").read_bytes() == expected
    assert found() == []
    assert not recwarn.list


def test_a_file_deleted_meanwhile_is_one_line(folder, monkeypatch):
    Path("a.py").write_text(BAD)
    Path("gone.py").write_text(BAD)
    find = run.find_files

    def find_then_delete(*arguments):
        result = find(*arguments)
        Path("gone.py").unlink()
        return result

    monkeypatch.setattr(run, "find_files", find_then_delete)
    report = scan([Path()])
    assert len(report.findings) == 1
    assert report.skipped == ("gone.py: deleted while scanning",)


def test_nothing_of_the_users_is_executed(folder):
    Path("a.py").write_text("open('trace', 'w')\nraise SystemExit\n")
    Path("sitecustomize.py").write_text("open('trace', 'w')\n")
    Path("torch.py").write_text("open('trace', 'w')\n")
    scan([Path()])
    assert not Path("trace").exists()


def test_the_scan_never_imports_torch(folder):
    Path("a.py").write_text(BAD)
    code = "import sys; from pathlib import Path; from pitstop.scan.run import scan; scan([Path()])"
    check = f"{code}; sys.exit('torch' in sys.modules)"
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", check]) == 0


def test_a_rule_that_crashes_is_one_line_naming_rule_and_file(folder, monkeypatch):
    def explode(source):
        raise KeyError("oh\nno")
        yield Finding()

    broken = Rule("PIT999", "explodes", "Explodes.", explode)
    monkeypatch.setattr(worker, "static_rules", lambda: (broken, *rules))
    monkeypatch.setattr(run, "static_rules", lambda: (broken, *rules))
    Path("a.py").write_text(BAD)
    for _ in range(2):  # not remembered either
        report = scan([Path()])
        assert [finding.code for finding in report.findings] == ["PIT202"]
        assert report.skipped == ("a.py: rule PIT999 explodes failed (KeyError: 'oh\\nno')",)


def test_a_file_that_cannot_be_understood_is_one_line_and_the_rest_is_scanned(folder, monkeypatch):
    def explode(source):
        if source.path == "b.py":
            raise KeyError("oh\nno")
        return read_facts(source)

    monkeypatch.setattr(worker, "read_facts", explode)
    Path("a.py").write_text(BAD)
    Path("b.py").write_text(BAD)
    report = scan([Path()], Options(use_cache=False))
    assert [finding.span.path for finding in report.findings] == ["a.py"]
    assert report.skipped == ("b.py: could not be understood (KeyError: 'oh\\nno')",)


def test_a_flag_made_of_itself_is_read_to_an_end(folder):
    Path("a.py").write_text(f"for x in loader:\n    on = on or x\n    if on:\n        f(x)\n{BAD}")
    report = scan([Path()], Options(use_cache=False))
    assert [finding.code for finding in report.findings] == ["PIT202"]
    assert report.skipped == ()


rules = worker.static_rules()


def test_options_select_ignore_and_silence(folder):
    Path("tests").mkdir()
    Path("tests/a.py").write_text(BAD)
    Path("b.py").write_text(BAD + "torch.compile(f)\n")
    assert len(found()) == 3
    assert found(select=("PIT4",)) == [("b.py", 3, "PIT402")]
    assert found(ignore=("compile-result-dropped",), exclude=("tests",)) == [("b.py", 2, "PIT202")]
    assert found(per_file_ignores={"b.py": ("ALL",)}) == [("tests/a.py", 2, "PIT202")]


def test_the_configuration_counts_and_options_add_to_it(folder):
    Path("pyproject.toml").write_text('[tool.pitstop]\nignore = ["PIT2"]\nexclude = ["c.py"]\n')
    Path("b.py").write_text(BAD + "torch.compile(f)\n")
    Path("c.py").write_text(BAD + "torch.compile(f)\n")
    assert found() == [("b.py", 3, "PIT402")]
    assert found(ignore=("PIT4",)) == []


def test_comments_silence_and_unused_ones_are_reported(folder):
    Path("a.py").write_text(
        BAD.rstrip() + "  # pitstop: ignore[PIT202]\ny = 1  # pitstop: ignore\n"
    )
    assert found() == [("a.py", 3, "PIT900")]


def test_the_cache_answers_for_unchanged_files_only(folder, monkeypatch):
    Path("a.py").write_text(BAD)
    Path("b.py").write_text(GOOD)
    first = found()
    monkeypatch.setattr(worker, "_parse", lambda *_: pytest.fail("parsed again"))
    assert found() == first
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PITSTOP_CACHE", str(folder / ".pitstop"))
    Path("b.py").write_text(BAD)
    assert found() == [("a.py", 2, "PIT202"), ("b.py", 2, "PIT202")]


def test_a_change_in_one_file_is_felt_in_another(folder):
    calls = "from lib import go\nfor x in loader:\n    go(x)\n"
    Path("lib.py").write_text("def go(x):\n    return x\n")
    Path("train.py").write_text("pass\n")
    seen = []

    def look(source):
        if source.path == "lib.py":
            seen.append(source.project.hot_function("lib.py", "go"))
        yield from ()

    probe = Rule("PIT998", "probe", "Probe.", look)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker, "static_rules", lambda: (probe,))
        patch.setattr(run, "static_rules", lambda: (probe,))
        found()
        Path("train.py").write_text(calls)
        found()
        found()
    assert seen[0] is None
    assert seen[1] is not None
    assert len(seen) == 2


def test_another_version_of_the_engine_starts_afresh(folder, monkeypatch):
    Path("a.py").write_text(BAD)
    found()
    monkeypatch.setattr(pitstop, "__version__", "99")
    memory = passes.Memory(cache.load(cache.cache_file([Path()])))
    key = cache.digest(memory.engine, "a.py", BAD)
    assert key not in memory.before.facts


def test_fixes_are_idempotent_and_written_only_when_asked(folder):
    Path("a.py").write_text(BAD)
    scanned = scan_and_fix([Path()], Options())
    assert Path("a.py").read_text() == BAD
    assert scanned.report.findings == ()
    scanned.write()
    assert Path("a.py").read_text() == GOOD
    again = scan_and_fix([Path()], Options())
    assert (again.applied, dict(again.changes)) == ((), {})


def test_fixes_that_overlap_are_applied_one_after_the_other(folder):
    nested = "import torch\nx = torch.full((2,), torch.zeros(1).to(device)).to(device)\n"
    Path("a.py").write_text(nested)
    scanned = scan_and_fix([Path()], Options())
    assert len(scanned.applied) == 2
    assert scanned.changes["a.py"][1] == (
        "import torch\nx = torch.full((2,), torch.zeros(1, device=device), device=device)\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
def test_a_link_that_is_named_outright_is_scanned_but_not_fixed(folder):
    Path("target").write_text(BAD)
    Path("link.py").symlink_to("target")
    scanned = scan_and_fix([Path("link.py")], Options())
    assert len(scanned.report.findings) == 1
    assert scanned.changes == {}


def test_parsed_files_are_let_go_after_the_scan(folder):
    Path("a.py").write_text(BAD)
    found()
    assert parse.parse_and_keep.cache_info().currsize == 0


def test_settings_are_reported_at_their_own_line(folder, monkeypatch):
    def look(source):
        for setting in source.settings:
            if setting.key == "num_workers" and setting.value == 0:
                yield source.finding(setting, "None.")

    probe = Rule("PIT998", "probe", "Probe.", look)
    monkeypatch.setattr(worker, "static_rules", lambda: (probe,))
    monkeypatch.setattr(run, "static_rules", lambda: (probe,))
    Path("conf.yaml").write_text("data:\n  num_workers: 0\n")
    assert found() == [("conf.yaml", 2, "PIT998")]
