"""Kinds of results of the console's search, which apps and add-ons register. An add-on has the search itself."""

from dataclasses import dataclass
from typing import NamedTuple

from django.http import HttpRequest

from core.hooks import Hook

#: Results of one kind that are shown.
MAX_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Search:
    """`number`: the text as a number; None if it is none. `is_typed`: while somebody types, so it is searched again and
    again."""

    request: HttpRequest
    text: str
    number: int | None
    is_typed: bool


@dataclass(frozen=True, slots=True)
class Result:
    """`under`: results that belong to it."""

    title: str
    url: str
    detail: str = ""
    under: tuple["Result", ...] = ()


class Kind(NamedTuple):
    """`found_by`: what to enter. `find`: the dotted path of a function that returns the Results of a Search; more than
    MAX_SHOWN say only that there are more. `model`: whose permission they need; empty for none."""

    title: str
    found_by: str
    find: str
    model: str = ""


#: In the order in which they are shown.
KINDS = Hook[Kind]()
