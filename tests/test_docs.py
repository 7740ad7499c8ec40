"""What the README and the pages say about the project is true of it."""

import re
from pathlib import Path

import click

from pitstop.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def found(pattern, text, at_least):
    """All matches; a pattern that finds less than there is would let its test pass for nothing."""
    matches = re.findall(pattern, text, re.MULTILINE)
    assert len(matches) >= at_least, f"{pattern}: {len(matches)} found, {at_least} expected"
    return matches


def test_every_link_leads_somewhere():
    text = {page: page.read_text(encoding="utf-8") for page in PAGES}
    links = [
        (page, target) for page in PAGES for target in re.findall(r"\]\(([^)#:]+)\)", text[page])
    ]
    assert len(links) >= text[ROOT / "README.md"].count("](") >= 5
    for page, target in links:
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_command_is_in_the_readme_and_every_command_there_exists():
    commands = set(main.command.list_commands(click.Context(main.command)))
    unnamed = {"completion", "demo"}
    named = set(found(r"`pitstop (\w+)", README, at_least=len(commands - unnamed)))
    assert named - commands == set()
    assert commands - named <= unnamed


def test_every_folder_of_the_tree_exists_and_every_folder_is_in_it():
    source = ROOT / "src" / "pitstop"
    folders = {each.parent.name for each in source.glob("*/__init__.py")}
    assert set(found(r"^  (\w+)/ ", README, at_least=5)) == folders


def test_no_path_of_one_machine_is_in_the_project():
    assert len(PAGES) >= 8
    for page in PAGES:
        assert "/work/" not in page.read_text(encoding="utf-8"), page


def test_every_promise_of_the_safety_page_has_its_tests():
    page = (ROOT / "docs" / "safety.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if not re.match(r"\| (Promise \||---)", row)]
    assert len(promises) >= 20
    for row in promises:
        _, _promise, tests, _ = row.split("|")
        named = found(r"`([\w/]+\.py)(?:::(\w+))?`", tests, at_least=1)
        for file, name in named:
            paths = list((ROOT / "tests").rglob(file.removeprefix("tests/")))
            assert paths, f"{file} is not there: {row}"
            if name:
                assert any(f"def {name}(" in each.read_text() for each in paths), f"{name}: {row}"
