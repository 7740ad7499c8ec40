import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pitstop.scan.settings import read_settings


def found(text, path):
    return {".".join(each.keys): each.value for each in read_settings(text, path)}


YAML = """# loader
data:
  train: &anchor
    num_workers: 0   # none
    "pin_memory": false
    name: 'a # b'
  list:
    - batch: 4
      size: 8
  inline: {a: 1}
  tagged: !!float 1
  wide: "one
    two"
  ? [odd, key]
  : lost
script: |
  num_workers: 7
after: 1e-4
none: ~
url: http://x:80/y
"""


def test_yaml():
    assert found(YAML, "a.yaml") == {
        "data.train.num_workers": 0,
        "data.train.pin_memory": False,
        "data.train.name": "a # b",
        "data.list.batch": 4,
        "data.list.size": 8,
        "data.inline.a": 1,
        "after": 1e-4,
        "none": None,
        "url": "http://x:80/y",
    }


def test_yaml_up_to_the_mistake():
    assert found("a: 1\nb:\n  c: 2\nd: ]\ne: 3\n", "a.yaml") == {"a": 1, "b.c": 2}


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: x" + " " * 60_000 + "y", "a.yaml"),
        ("a: " + "[" * 60_000, "a.yaml"),
        ("a: " + "{b: " * 15_000, "a.yaml"),
        ('"' + '\\"' * 30_000, "a.json"),
        ("/*" * 30_000, "a.json"),
        ("a = " + " " * 60_000 + "!", "a.toml"),
        ("[" * 60_000, "a.toml"),
    ],
)
def test_what_could_be_read_in_many_ways_is_read_at_once(text, path):
    assert found(text, path) in ({}, {"a": text[3:]})


def test_a_number_that_no_counter_reaches_is_no_whole_number():
    assert found("a: " + "9" * 5000, "a.yaml") == {"a": math.inf}


def test_toml():
    text = 'top = 1\n[data.train]\nnum_workers = 0  # none\nname = "x"\nlist = [1, 2]\n'
    assert found(text, "a.toml") == {
        "top": 1,
        "data.train.num_workers": 0,
        "data.train.name": "x",
    }


def test_json_with_comments():
    text = '{"a": {"num_workers": 0, // why\n "b": [1, {"c": true}]}, /* x: 1 */ "d": "e:f"}'
    assert found(text, "a.json") == {"a.num_workers": 0, "a.b.c": True, "d": "e:f"}


@pytest.mark.parametrize(
    ("text", "path"),
    [(YAML, "a.yml"), ("a = 1\r\nb = 'x'\r\n", "a.toml"), ('{"é": {"b":\n 1}}', "a.json")],
)
def test_offsets_and_lines_point_at_the_value(text, path):
    for setting in read_settings(text, path):
        written = text[setting.start : setting.end]
        assert written.strip("\"'") == written.strip("\"'").strip()
        assert text.count("\n", 0, setting.start) + 1 == setting.line


@given(st.text())
def test_no_text_is_too_strange(text):
    for path in ("a.yaml", "a.toml", "a.json", "a.py"):
        read_settings(text, path)


@given(
    st.dictionaries(st.from_regex(r"\A[a-z_]{1,8}\Z"), st.integers(-(2**59), 2**59) | st.booleans())
)
def test_flat_json_is_read_as_json_reads_it(value):
    assert found(json.dumps(value, indent=1), "a.json") == value
