"""What an operator reads on the console's pages."""

import html
import re
from html.parser import HTMLParser
from typing import Any


def words(markup: str) -> str:
    return " ".join(html.unescape(re.sub(r"<.*?>", " ", markup)).split())


def table(text: str, label: str) -> list[list[str]]:
    """The words of each cell of the table in the box with this name, without the headings."""
    box = text.partition(f'role="region" aria-label="{label}"')[2]
    body = box.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [[words(cell) for cell in re.findall(r"<t[dh].*?>(.*?)</t[dh]>", row, re.DOTALL)] for row in rows]


def figures(text: str) -> dict[str, str]:
    """Each figure by its name."""
    return {name: words(value) for name, value in re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text)}


class _Form(HTMLParser):
    """The values of the form whose id ends with `_form`, as a browser submits them."""

    def __init__(self) -> None:
        super().__init__()
        self.values: dict[str, list[str]] = {}
        self.inside, self.select, self.textarea = False, "", ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        have = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.inside = have.get("id", "").endswith("_form")
        elif not self.inside or "disabled" in have:
            return
        elif tag == "input" and "name" in have:
            if have.get("type") not in ("checkbox", "radio") or "checked" in have:
                self.values.setdefault(have["name"], []).append(have.get("value", "on" if "checked" in have else ""))
        elif tag == "textarea":
            self.textarea = have["name"]
            self.values[self.textarea] = [""]
        elif tag == "select":
            self.select = have.get("name", "")
        elif tag == "option" and self.select and "selected" in have:
            self.values.setdefault(self.select, []).append(have["value"])

    def handle_data(self, data: str) -> None:
        if self.textarea:
            self.values[self.textarea] = [self.values[self.textarea][0] + data]

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self.values[self.textarea] = [self.values[self.textarea][0].removeprefix("\n")]
            self.textarea = ""
        elif tag == "form":
            self.inside = False


def submitted(page: Any, **fields: Any) -> dict[str, Any]:
    """What a browser submits from the form of a page that changes an object, with `fields` changed; None: not sent."""
    parser = _Form()
    parser.feed(page.text)
    # The empty form, of which scripts make new rows.
    values = {name: value for name, value in parser.values.items() if "__prefix__" not in name}
    return {name: value for name, value in {**values, **fields}.items() if value is not None}
