import stat

import pytest

from pitstop.core.errors import PitstopError
from pitstop.profile.start import launch
from pitstop.tune import session
from pitstop.tune.session import Session

ASKED = Session(("python", "train.py"), ("train.py",))


def both_folders(root):
    """A recording's folder and a search's, as the commands make them."""
    return launch.new_run_folder(root, "train.py"), session.begin(root, ASKED)


def test_what_is_made_is_the_owners_alone_and_hidden_from_git(tmp_path):
    for folder in both_folders(tmp_path):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (tmp_path / ".pitstop" / ".gitignore").read_text() == "*\n"


def test_a_gitignore_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "bashrc").write_text("mine")
    (tmp_path / "p" / ".pitstop").mkdir(parents=True)
    (tmp_path / "p" / ".pitstop" / ".gitignore").symlink_to("../../bashrc")
    both_folders(tmp_path / "p")
    assert (tmp_path / "bashrc").read_text() == "mine"


def test_a_gitignore_of_the_users_own_stays(tmp_path):
    (tmp_path / ".pitstop").mkdir()
    (tmp_path / ".pitstop" / ".gitignore").write_text("tune/\n")
    both_folders(tmp_path)
    assert (tmp_path / ".pitstop" / ".gitignore").read_text() == "tune/\n"


def test_a_link_that_leads_nowhere_is_not_filled(tmp_path):
    (tmp_path / "p" / ".pitstop").mkdir(parents=True)
    (tmp_path / "p" / ".pitstop" / ".gitignore").symlink_to("../../new")
    both_folders(tmp_path / "p")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("link", [".pitstop", ".pitstop/runs", ".pitstop/tune"])
def test_a_folder_that_is_a_link_is_not_followed(link, tmp_path, capsys):
    (tmp_path / "elsewhere" / "runs").mkdir(parents=True)
    place = tmp_path / "p" / link
    place.parent.mkdir(parents=True)
    place.symlink_to(tmp_path / "elsewhere")
    if link != ".pitstop/tune":
        recording = launch.new_run_folder(tmp_path / "p", "train.py")
        assert tmp_path not in recording.parents
        assert "a link, which is not followed; recording to" in capsys.readouterr().err
        recording.rmdir()
    if link != ".pitstop/runs":
        with pytest.raises(PitstopError, match="a link, which is not followed"):
            session.begin(tmp_path / "p", ASKED)
    assert sorted((tmp_path / "elsewhere").rglob("*")) == [tmp_path / "elsewhere" / "runs"]
