"""What an operator reads on the console's pages."""

import html
import re


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
