"""What the texts of a preset may hold: JMESPath on the vendor's answer, formats of the number in the request."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import jmespath
from jmespath.functions import Functions

from lookup import numbers

#: Where a secret stands in a path.
KEY = "key"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
# jmespath's own, made once and not for each expression.
_OPTIONS = jmespath.Options(custom_functions=Functions())
_FORMAT = re.compile(r"([a-z0-9_]+?)(?:-([1-9]))?")


class Expression:
    """A JMESPath expression. Its functions are checked here, not when the vendor first answers."""

    def __init__(self, text: str) -> None:
        try:
            self._compiled = jmespath.compile(text)
        except jmespath.exceptions.JMESPathError as error:
            raise ValueError(f"not JMESPath: {' '.join(str(error).split())[:200]}") from error
        for name in _functions(self._compiled.parsed):
            if name not in Functions.FUNCTION_TABLE:
                raise ValueError(f"JMESPath has no function {name}()")

    def __call__(self, document: Any) -> Any:
        """Raises Unreadable where `document` has a type that a function of the expression does not take."""
        try:
            return self._compiled.search(document, _OPTIONS)
        except Exception as error:  # not only its own: comparing text with a number is Python's TypeError
            raise Unreadable from error

    def holds(self, document: Any) -> bool:
        """Whether the expression is true of `document`; null counts as false. Raises NotBoolean and Unreadable."""
        value = self(document)
        if value is not None and not isinstance(value, bool):
            raise NotBoolean
        return value is True


class Unreadable(Exception):
    """The vendor's answer has another shape than the preset says."""


class NotBoolean(Unreadable):
    """An expression that must be true, false or null has another value. The message, if any, is for operators."""


class Template:
    """Text with `{e164}` and other formats of the number; `{e164-2}` leaves the number's last two digits off."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.formats: dict[str, Callable[[str], str | None]] = {}
        for name in _PLACEHOLDER.findall(text):
            match = _FORMAT.fullmatch(name)
            if not match or match[1] not in {*numbers.FORMATS, KEY}:
                raise ValueError(f"{{{name}}} is none of {', '.join(numbers.FORMATS)}, {KEY}")
            if match[1] != KEY:
                self.formats[name] = _shortened(match[1], int(match[2] or 0))
        if set("{}") & set(_PLACEHOLDER.sub("", text)):
            raise ValueError("a brace that does not enclose the name of a format")

    @property
    def wants_key(self) -> bool:
        return f"{{{KEY}}}" in self.text

    def fits(self, number: str) -> bool:
        return all(write(number) is not None for write in self.formats.values())

    def fill(self, number: str, *, key: str = "", encode: Callable[[str], str] = str) -> str:
        """`encode`: applied to what is filled in."""

        def value(match: re.Match[str]) -> str:
            if match[1] == KEY:
                return encode(key)
            return encode(self.formats[match[1]](number) or "")

        return _PLACEHOLDER.sub(value, self.text)


class Templates(tuple[Template, ...]):
    """One text, or a list of them where a query repeats a name."""


class JsonTemplate:
    """A JSON body whose texts are templates. Raises ValueError for what JSON has not, such as a date or nan."""

    def __init__(self, document: Any) -> None:
        self.templates: list[Template] = []
        self._document = self._read(document)
        try:
            json.dumps(document, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError("json holds what JSON has not, such as a date or nan") from error

    def fill(self, number: str) -> Any:
        return _filled(self._document, number)

    def _read(self, value: Any) -> Any:
        if isinstance(value, str):
            self.templates.append(Template(value))
            return self.templates[-1]
        if isinstance(value, dict):
            return {key: self._read(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._read(inner) for inner in value]
        return value


def _filled(value: Any, number: str) -> Any:
    if isinstance(value, Template):
        return value.fill(number)
    if isinstance(value, dict):
        return {key: _filled(inner, number) for key, inner in value.items()}
    if isinstance(value, list):
        return [_filled(inner, number) for inner in value]
    return value


def _shortened(name: str, dropped: int) -> Callable[[str], str | None]:
    write = numbers.FORMATS[name]
    return write if not dropped else lambda number: write(number[:-dropped])


def _functions(node: Any) -> Iterator[str]:
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, dict):  # the bounds of a slice are mere numbers
            yield from _functions(child)
