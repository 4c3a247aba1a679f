"""The strings of a preset: JMESPath expressions on the vendor's answer, templates with the number for the request."""

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from string import Formatter
from typing import Any

import jmespath
from jmespath.functions import Functions
from jmespath.lexer import Lexer
from jmespath.visitor import TreeInterpreter

from core import numbers

#: The placeholder of a secret in a path.
KEY = "key"
_DROPPED = {"", *map(str, range(1, 10))}
_CONSTANTS = ("true", "false", "null")
_COMPARATORS = ("eq", "ne", "lt", "lte", "gt", "gte")
# It has no state but a cache of its methods. `search` of a compiled expression creates one for each call.
_interpreter = TreeInterpreter()


class UnexpectedShape(Exception):
    """The vendor's answer has another shape than the preset describes. The message, if any, is for operators."""


class NotBoolean(UnexpectedShape):
    """An expression that must be true, false or null has another value."""


class Expression:
    """A JMESPath expression. Unknown functions and likely mistakes are reported here, not when the vendor first
    answers."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._parsed = jmespath.compile(text).parsed
        except jmespath.exceptions.JMESPathError as error:
            raise ValueError(
                f"not JMESPath: {' '.join(str(error).split())[:200].rstrip(' ^')}; write numbers in backticks (`4`), "
                "text in single quotes ('a'), and a name with characters such as - in double quotes (\"a-b\")"
            ) from error
        _refuse_mistakes(text)
        for name in _functions(self._parsed):
            if name not in Functions.FUNCTION_TABLE:
                raise ValueError(f"JMESPath has no function {name}()")

    def __call__(self, document: Any) -> Any:
        """Raises UnexpectedShape if a function of the expression does not take the type that `document` has."""
        try:
            return _interpreter.visit(self._parsed, document)
        except Exception as error:  # not only JMESPath's: comparing text with a number is a TypeError
            raise UnexpectedShape from error

    def is_true(self, document: Any) -> bool:
        """Whether the expression is true for `document`; null counts as false. Raises UnexpectedShape, NotBoolean."""
        value = self(document)
        if value is not None and not isinstance(value, bool):
            raise NotBoolean(f"the preset's `when`: `{self.text}` is neither true, false nor null")
        return value is True

    def applies_to_any(self, documents: Iterable[Any]) -> bool:
        """Whether the expression is true for one of them; one that it cannot be applied to does not count."""
        for document in documents:
            with suppress(UnexpectedShape):
                if self.is_true(document):
                    return True
        return False


class Template:
    """Text with placeholders for the number, such as `{e164}`; `{e164-2}` omits the number's last two digits. As in
    Python's format strings, `{{` and `}}` are braces."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.formats: dict[str, Callable[[str], str | None]] = {}
        for _, name, spec, conversion in Formatter().parse(text):
            if name is None or name == KEY:
                continue
            form, _, dropped = name.partition("-")
            if form not in numbers.FORMATS or spec or conversion or dropped not in _DROPPED:
                raise ValueError(f"{{{name}}} is none of {', '.join(numbers.FORMATS)}")
            self.formats[name] = _shortened(form, int(dropped or 0))

    @property
    def has_key(self) -> bool:
        return f"{{{KEY}}}" in self.text

    def fits(self, number: str) -> bool:
        """Whether the number can be written in all the formats."""
        return all(write(number) is not None for write in self.formats.values())

    def fill(self, number: str, *, encode: Callable[[str], str] = str) -> str:
        """`encode` is applied to what is filled in."""
        return self.text.format_map({name: encode(write(number) or "") for name, write in self.formats.items()})


def literal(text: str) -> Template:
    """A template that is always filled as `text`."""
    return Template(text.replace("{", "{{").replace("}", "}}"))


class Templates(tuple[Template, ...]):
    """One text, or a list of them where a query repeats a name."""


class JsonTemplate:
    """A JSON body whose strings are templates. Raises ValueError for what JSON cannot express, such as a date."""

    def __init__(self, document: Any) -> None:
        try:
            json.dumps(document, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ValueError("json contains what JSON cannot express, such as a date or nan") from error
        self.templates: list[Template] = []
        self._document = _map_leaves(document, self._parse)

    @property
    def is_table(self) -> bool:
        return isinstance(self._document, dict)

    @property
    def names(self) -> frozenset[str]:
        """Those of the members of the table."""
        return frozenset(self._document)

    def fill(self, number: str) -> Any:
        return _map_leaves(self._document, lambda leaf: leaf.fill(number) if isinstance(leaf, Template) else leaf)

    def _parse(self, leaf: Any) -> Any:
        if not isinstance(leaf, str):
            return leaf
        self.templates.append(Template(leaf))
        return self.templates[-1]


def _map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _map_leaves(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_map_leaves(inner, change) for inner in value]
    return change(value)


def _shortened(name: str, dropped: int) -> Callable[[str], str | None]:
    return lambda number: numbers.FORMATS[name](number[: max(0, len(number) - dropped)])


def _refuse_mistakes(text: str) -> None:
    """Raises ValueError for a valid expression that is hardly the one that was meant."""
    tokens = [(token["type"], token["value"]) for token in Lexer().tokenize(text)]
    before = ""
    for (kind, value), (after, _) in pairwise(tokens):  # the last token is the end of the text
        if after == "colon":  # the name of a member that the expression makes
            pass
        elif kind == "unquoted_identifier" and value in _CONSTANTS and before != "dot":
            raise ValueError(f"{value} is the field of this name: write `{value}`, in backticks")
        elif kind == "quoted_identifier":
            plain = value.isascii() and value.isidentifier() and value not in _CONSTANTS
            if before in _COMPARATORS or (plain and before == "comma"):
                field = value if plain else f'@."{value}"'
                raise ValueError(f"\"{value}\" is a field: write '{value}' for text, {field} for the field")
        if kind in _COMPARATORS and before == after == "literal":
            raise ValueError(
                "compares two constants: write a field without quotes, or in double quotes if its name has characters "
                "such as -"
            )
        before = kind


def _functions(node: Any) -> Iterator[str]:
    if node["type"] == "function_expression":
        yield node["value"]
    for child in node["children"]:
        if isinstance(child, dict):  # the bounds of a slice are numbers
            yield from _functions(child)
