"""What the README and the pages say about the project is true of it."""

import re
from pathlib import Path

import click

from pitstop.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_link_leads_somewhere():
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_command_is_in_the_readme_and_every_command_there_exists():
    named = set(re.findall(r"`pitstop (\w+)", README))
    commands = set(main.command.list_commands(click.Context(main.command)))
    assert named - commands == set()
    assert commands - named <= {"completion", "demo"}


def test_every_folder_of_the_tree_exists():
    for name in re.findall(r"^  (\w+)/ ", README, re.MULTILINE):
        assert (ROOT / "src" / "pitstop" / name).is_dir()


def test_no_path_of_one_machine_is_in_the_project():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]:
        assert "/work/" not in page.read_text(encoding="utf-8"), page
