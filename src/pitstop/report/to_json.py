"""JSON: the Report type, field for field."""

from pitstop.core import store
from pitstop.core.report import Report

SUFFIX = ".json"
MARK = '"kind": "Report"'  # in what was written by this


def render(report: Report) -> str:
    """The report as JSON that ``store.loads`` reads back."""
    return store.dumps(report)
