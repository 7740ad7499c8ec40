"""Offsets: from the parser's UTF-8 columns to characters of the text, and back to columns."""

import ast
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

LINE_END = re.compile(r"\r\n|\n|\r")  # what Python's tokenizer ends a line at; splitlines ends more


@dataclass(frozen=True)
class Lines:
    """The lines of one text, to turn positions into offsets."""

    text: str

    @cached_property
    def starts(self) -> Sequence[int]:
        """Offset of the first character of every line."""
        return [0, *(match.end() for match in LINE_END.finditer(self.text))]

    @cached_property
    def _plain(self) -> bool:
        return self.text.isascii()

    def offset(self, line: int, utf8_column: int) -> int:
        """Offset of a parser position: line from 1, column in bytes from 0."""
        start = self.starts[line - 1]
        if self._plain:
            return start + utf8_column
        # A character takes at most four bytes and at least one: this slice is long enough.
        piece = self.text[start : start + utf8_column].encode("utf-8", "surrogatepass")
        return start + len(piece[:utf8_column].decode("utf-8", "surrogatepass"))

    def extent(self, node: ast.AST) -> tuple[int, int]:
        """Offsets of the first character of ``node`` and of the one after its last."""
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_line = getattr(node, "end_lineno", None) or line
        end_column = getattr(node, "end_col_offset", None)
        start = self.offset(line, column)
        return start, self.offset(end_line, end_column) if end_column is not None else start

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1, in characters."""
        line = bisect_right(self.starts, offset)
        return line, offset - self.starts[line - 1] + 1
