"""Pages with numbers say what the files of results say."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture(scope="module")
def results_page():
    sys.path.insert(0, str(BENCHMARKS))
    try:
        import results_page

        yield results_page
    finally:
        sys.path.remove(str(BENCHMARKS))


def test_no_page_is_stale(results_page):
    made = results_page.files()
    assert len(made) >= 7
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "python benchmarks/results_page.py"


def test_every_number_of_a_headline_stands_in_a_section(results_page):
    sections = "\n".join(str(each) for _, each in results_page.sections())
    rows = tomllib.loads((results_page.RESULTS / "headlines.toml").read_text("utf-8"))["row"]
    assert len(rows) >= 5
    for row in rows:
        for number in re.findall(r"[\d.,]+\d", f"{row['before']} {row['after']}"):
            assert re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d,])", sections), row
        before, after = (
            float(re.match(r"[\d.,]+", row[side]).group().replace(",", ""))
            for side in ("before", "after")
        )
        gain = float(re.match(r"[\d.]+", row["gain"]).group())
        assert gain == pytest.approx(before / after, abs=0.06), row


def test_a_page_without_its_marks_is_told(results_page):
    with pytest.raises(SystemExit, match="end of measured"):
        results_page.between(f"text {results_page.BEGIN} more", "new")
    marked = f"a\n{results_page.BEGIN}\nold\n{results_page.END}\nb"
    assert "old" not in results_page.between(marked, "new")
    assert results_page.between(marked, "new").endswith(f"{results_page.END}\nb")
