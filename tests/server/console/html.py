# SPDX-License-Identifier: MIT
"""Reads a page as a browser does: its links, its forms, its text, and what a page may not have."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"input", "meta", "link", "br", "hr", "img", "rect", "path", "line", "circle", "use"}


@dataclass
class Form:
    method: str
    action: str
    fields: dict[str, str] = field(default_factory=dict)


class Page(HTMLParser):
    """A page.

    Attributes:
        links: where it leads.
        forms: its forms.
        wrong: what a page may not have.
        text: what people read.
    """

    def __init__(self, html):
        super().__init__()
        self.links, self.forms, self.wrong, self.files, self.text = [], [], [], [], ""
        self.tags, self.disabled, self.ids = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags.append(tag)
        if tag not in VOID:
            self._open = tag
        self.wrong += [f"{tag} {name}" for name in given if name == "style" or name.startswith(("on", "hx-on"))]
        if tag == "script" and "src" not in given:
            self.wrong.append("inline script")
        if tag == "style":
            self.wrong.append("inline style")
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("script", "link"):
            self.files.append(given.get("src") or given.get("href"))
        if tag == "form":
            self.forms.append(Form(given.get("method", "get"), given.get("action", "")))
        is_sent = given.get("type") != "checkbox" or "checked" in given
        if tag in ("input", "textarea", "select") and given.get("name") and self.forms and is_sent:
            self.forms[-1].fields.setdefault(given["name"], given.get("value") or "")
        if "aria-disabled" in given:
            self.disabled.append(given.get("title", ""))

    def handle_data(self, data):
        self.text += f" {data.strip()}" if data.strip() else ""


def page_of(answer):
    assert answer.headers["content-type"].startswith("text/html"), answer.text[:300]
    return Page(answer.text)
