import pytest

from pitstop.core.finding import Finding, Span
from pitstop.scan.suppress import read_suppressions, without_suppressed


def silenced(text, line=1, code="PIT202", rule="tensor-built-on-cpu", end_line=None):
    finding = Finding("x", Span("a.py", line, 1, end_line or line, 2), code=code, rule=rule)
    return without_suppressed([finding], read_suppressions(text)) == []


@pytest.mark.parametrize(
    "comment",
    [
        "# pitstop: ignore",
        "# pitstop: ignore[PIT202]",
        "# pitstop: ignore[PIT101, PIT202]",
        "# pitstop: ignore[PIT2]",
        "# pitstop: ignore[tensor-built-on-cpu]",
        "#pitstop:ignore[pit202]",
        "# why not  # pitstop: ignore[PIT202]",
        "# pitstop: ignore-file",
        "# pitstop: ignore-file[PIT202]",
        "# noqa",
        "# noqa: PIT202",
        "# noqa: E501, PIT202",
    ],
)
def test_comments_that_silence(comment):
    assert silenced(f"x = 1  {comment}\n")


@pytest.mark.parametrize(
    "comment",
    [
        "# pitstop: ignore[PIT101]",
        "# pitstop: ignore-file[PIT101]",
        "# noqa: E501",
        "# pitstop ignore",
        "# ignore[PIT202]",
    ],
)
def test_comments_that_do_not(comment):
    assert not silenced(f"x = 1  {comment}\n")


def test_a_string_is_no_comment():
    assert not silenced("x = '# pitstop: ignore'\n")
    assert not silenced("'''\n# pitstop: ignore-file\n'''\n", line=4)


def test_a_comment_speaks_of_its_line_of_the_next_when_alone_or_of_the_whole_file():
    text = "a\n# pitstop: ignore\nb\nc\n"
    assert not silenced(text, 1)
    assert silenced(text, 3)
    assert not silenced(text, 4)
    assert silenced("a\nb\n# pitstop: ignore-file[PIT202]\n", 1)


def test_a_long_statement_may_be_silenced_on_its_first_or_last_line():
    text = "f(\n    a,\n)  # pitstop: ignore\n"
    assert silenced(text, 1, end_line=3)
    assert not silenced("f(\n    a,  # pitstop: ignore\n)\n", 1, end_line=3)


def test_offsets_point_at_the_comment_also_after_other_alphabets_and_line_ends():
    text = "é = 1\r\nx = 'ü'  # pitstop: ignore[PIT202]\r\n"
    (comment,) = read_suppressions(text)
    assert text[comment.start : comment.end] == "# pitstop: ignore[PIT202]"
