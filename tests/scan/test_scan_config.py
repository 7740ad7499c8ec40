import pytest

from pitstop.core.errors import PitstopError
from pitstop.scan.config import Config, find_config


def test_the_nearest_file_counts(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.pitstop]\nselect = ["PIT2"]\n')
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_config(inner).select == ("PIT2",)
    (tmp_path / "a" / "pitstop.toml").write_text(
        'ignore = ["PIT3"]\nexclude = ["x"]\n[per-file-ignores]\n"t/*" = ["ALL"]\n'
    )
    assert find_config(inner) == Config((), ("PIT3",), {"t/*": ("ALL",)}, ("x",))


def test_a_pyproject_without_our_table_is_not_ours(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nselect = []\n")
    assert find_config(tmp_path / "train.py") == Config()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('selct = ["PIT2"]', "unknown key 'selct': did you mean 'select'"),
        ("colour = 1", "unknown key 'colour': known are select"),
        ('select = "PIT2"', "select must be a list of strings"),
        ("select = [1]", "select must be a list of strings"),
        ('per-file-ignores = ["a"]', "per-file-ignores must be a table"),
        ("select = [", "mend the file"),
    ],
)
def test_a_mistake_is_one_clear_line(tmp_path, text, message):
    (tmp_path / "pitstop.toml").write_text(text)
    with pytest.raises(PitstopError, match=message) as caught:
        find_config(tmp_path)
    assert "\n" not in str(caught.value)
