import pytest

from pitstop.scan.rules.same_remote_call_repeated import same_remote_call_repeated
from pitstop.scan.source import Source

ASK = """\
import functools, requests
{decorator}
def get_options(kind="all"):
    return {answer}
def build():
{body}
"""


def found_in(body, answer="requests.get(URL).json()", decorator=""):
    indented = "\n".join(f"    {line}" for line in body.splitlines())
    text = ASK.format(body=indented, answer=answer, decorator=decorator)
    return same_remote_call_repeated(Source(text))


TWICE = "a = get_options()\nb = get_options()"


@pytest.mark.parametrize(
    "body",
    [
        "a = get_options()",
        "a = get_options('x')\nb = get_options('y')",  # two questions
        "if x:\n    a = get_options()\nelse:\n    a = get_options()",  # asked once
        "if x:\n    a = get_options()\nb = get_options()",  # perhaps once
        "def f():\n    get_options()\nif x:\n    get_options()",  # nobody may call f
        "a = get_options()\nwhile not a:\n    a = get_options()",  # polls
    ],
)
def test_leaves_alone(body):
    assert found_in(body) == []


def test_quiet_when_the_answer_is_kept_or_local():
    assert found_in(TWICE, decorator="@functools.cache") == []
    assert found_in(TWICE, answer="OPTIONS[kind]") == []
    assert found_in(TWICE, answer="requests.post(URL, json=kind)") == []  # may change something
    assert found_in(TWICE, answer="train.remote(kind)") == []  # work, and not a question


@pytest.mark.parametrize("answer", ["requests.get(URL).json()", "model.options.remote()"])
def test_finds_the_second(answer):
    (finding,) = found_in(TWICE, answer)
    assert (finding.code, finding.span.line) == ("PIT612", 7)


def test_sees_functions_inside_the_one_that_builds():
    body = "def inputs():\n    return get_options()\nwith tab:\n    choices = get_options()"
    (finding,) = found_in(body)
    assert finding.span.line == 9


def test_sees_methods():
    text = (
        "import requests\nclass Page:\n    def __init__(self):\n"
        "        self.a = self.fetch_names()\n"
        "        self.b = self.fetch_names()\n"
        "    def fetch_names(self):\n        return requests.get(self.url)\n"
    )
    (finding,) = same_remote_call_repeated(Source(text))
    assert finding.span.line == 5
