"""HTML and SVG as text in which nothing that came from outside is taken for markup."""

from __future__ import annotations

import html
from typing import Any

_CONTROL = {code: "\ufffd" for code in (*range(9), 11, 12, *range(14, 32), 127)}  # no HTML, whatever escapes them
VOID = ("link", "meta", "input", "path", "circle")  # `tag` writes them without an end


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def escaped(text: Any) -> Markup:
    """Any text as markup that shows it, between tags and in attributes alike.

    >>> escaped('a<b & "c"')
    'a&lt;b &amp; &quot;c&quot;'
    """
    if isinstance(text, Markup):
        return text
    sound = str(text).translate(_CONTROL).encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    return Markup(html.escape(sound))


def joined(*parts: Any) -> Markup:
    """Parts one after the other, escaped where they are not markup; None is left out.

    >>> joined(tag("b", "x"), " < ", 2)
    '<b>x</b> &lt; 2'
    """
    return Markup("".join(escaped(part) for part in parts if part is not None))


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element; "_" in the names of attributes is "-", and one that is None or False is left out.

    >>> tag("p", "1 < 2", class_="note", hidden=True, data_at=3)
    '<p class="note" hidden data-at="3">1 &lt; 2</p>'
    """
    written = []
    for key, value in attributes.items():
        if value is not None and value is not False:
            key = key.rstrip("_").replace("_", "-")
            written.append(f" {key}" if value is True else f' {key}="{escaped(value)}"')
    start = f"<{name}{''.join(written)}"
    if name in VOID and not children:
        return Markup(start + "/>")
    return Markup(f"{start}>{joined(*children)}</{name}>")


def table(head: list[Any], rows: list[list[Any]], class_: str | None = None) -> Markup:
    """A table whose first column says what each row is."""
    first = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head))) if any(head) else None
    body = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return tag("div", tag("table", first, tag("tbody", *body), class_=class_), class_="wide")
