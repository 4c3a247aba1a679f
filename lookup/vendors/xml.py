"""XML as the objects that expressions read, without document types: no entity is expanded, and nothing is loaded."""

from typing import Any
from xml.parsers import expat


def document(body: bytes | str) -> dict[str, Any]:
    """The root element by its name. An element with neither attributes nor children is its text, or None; any other is
    an object with its attributes (`@name`), its children by name (several in a list) and its text (`#text`). Names have
    the prefixes of the document. Raises ValueError."""
    root: dict[str, Any] = {}
    opened: list[tuple[dict[str, Any], list[str]]] = [(root, [])]

    def begin(name: str, attributes: dict[str, str]) -> None:
        opened.append(({f"@{key}": value for key, value in attributes.items()}, []))

    def end(name: str) -> None:
        element, parts = opened.pop()
        text = "".join(parts).strip()
        if element and text:
            element["#text"] = text
        value, siblings = element or text or None, opened[-1][0]
        if name not in siblings:
            siblings[name] = value
        elif isinstance(siblings[name], list):
            siblings[name].append(value)
        else:
            siblings[name] = [siblings[name], value]

    def read(text: str) -> None:
        opened[-1][1].append(text)

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = read, _refuse
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, LookupError) as error:  # LookupError: an encoding that Python does not have
        raise ValueError("not XML") from error
    return root


def _refuse(*declaration: object) -> None:
    raise ValueError("a document type")
