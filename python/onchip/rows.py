# SPDX-License-Identifier: Apache-2.0
"""Rows of a sweep or a front: plain lists and dicts, which notebooks show as tables and Arrow's readers take."""
from __future__ import annotations

import html
import math
import numbers
from typing import Any, Dict, Iterable, List, Mapping

MOST_SHOWN = 100


class Rows(List[Dict[str, Any]]):
    """A list of dicts. `bars`: columns of numbers behind which a notebook draws a bar, as long as the number is large."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), bars: Iterable[str] = ()) -> None:
        super().__init__(dict(row) for row in rows)
        self.bars = tuple(bars)

    def columns(self) -> List[str]:
        """The keys of all rows, in the order in which they come."""
        return list(dict.fromkeys(key for row in self for key in row))

    def _repr_html_(self) -> str:
        shown, columns = self[:MOST_SHOWN], self.columns()
        most = {name: max((abs(row[name]) for row in self if _is_number(row.get(name))), default=0) for name in self.bars}
        head = "".join(f"<th>{html.escape(str(name))}</th>" for name in columns)
        body = "".join("<tr>" + "".join(_cell(row.get(name), most.get(name, 0)) for name in columns) + "</tr>"
                       for row in shown)  # fmt: skip
        more = f"<p>{len(shown)} of {len(self)} rows</p>" if len(self) > len(shown) else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as one record batch. A column is int64, float64, bool or utf8, by its values, and null where a row has
        none; anything else is utf8, as JSON. A requested schema is not heeded, as Arrow allows."""
        from .api import table_of_rows  # which imports this module

        return table_of_rows(self).__arrow_c_stream__()

    @property
    def arrow(self) -> ArrowRows:
        """The same stream for readers that take a list for a list: pyarrow.table(rows.arrow), DuckDB, pandas' from_arrow."""
        return ArrowRows(self)


class ArrowRows:
    """Rows that are no list, only an Arrow stream, as often as it is asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


class Front(Dict[str, Any]):
    """The answer of pareto(), a dict; a notebook shows its table."""

    @property
    def table(self) -> Rows:
        """The rows of the front with numbers as numbers, and bars behind the objectives."""
        rows = ({name: _value(name, text) for name, text in point["row"].items()} for point in self["front"])
        return Rows(rows, bars=(objective.partition(":")[0] for objective in self["objectives"].split(",")))

    def _repr_html_(self) -> str:
        return self.table._repr_html_()


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and math.isfinite(value)


def _cell(value: Any, most: float) -> str:
    if not _is_number(value):
        text = html.escape("" if value is None else str(value))
        style = "max-width:20em;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;text-align:left"
        return f'<td title="{text}" style="{style}">{text}</td>'
    text = str(value) if isinstance(value, numbers.Integral) else f"{value:.6g}"
    share = 100 * abs(value) / most if most else 0
    bar = f";background:linear-gradient(90deg,rgba(80,140,220,.35) {share:.1f}%,transparent {share:.1f}%)" if most else ""
    return f'<td style="text-align:right{bar}">{text}</td>'


def _value(name: str, text: Any) -> Any:
    """Of a front's row, whose cells are texts."""
    if not isinstance(text, str) or text == "":
        return text or None
    if name in ("fits", "runs"):
        return text in ("1", "true")
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text
