"""The page around the sections: one file, with its style and its script inside, that asks the network for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from typing import NamedTuple

from chefs.report.markup import Markup, joined, tag

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Page(NamedTuple):
    """A title, a few sentences that say the most important, and sections by their names in the table of contents."""

    title: str
    summary: Sequence[Markup | str]
    sections: dict[str, Markup]
    foot: str

    def html(self) -> str:
        """The whole file."""
        links = [tag("a", name, href=f"#{_id(part)}") for name, part in self.sections.items()]
        head = joined(
            tag("meta", charset="utf-8"),
            tag("meta", http_equiv="Content-Security-Policy", content=POLICY),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("title", self.title),
            tag("link", rel="icon", href="data:,"),
            tag("style", Markup(_text("style.css"))),
        )
        body = joined(
            tag("a", "Skip to the report", href="#main", class_="skip"),
            tag("header", tag("h1", self.title), *(tag("p", words) for words in self.summary)),
            tag("nav", *links, aria_label="Contents"),
            tag("main", *self.sections.values(), id="main"),
            tag("footer", self.foot),
            tag("div", id="tip", role="status", hidden=True),
            tag("script", Markup(_text("script.js"))),
        )
        return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _id(section: Markup) -> str:
    """The id with which a section begins."""
    return section.partition('id="')[2].partition('"')[0]


def _text(name: str) -> str:
    return resources.files("chefs.report").joinpath(name).read_text(encoding="utf-8")
