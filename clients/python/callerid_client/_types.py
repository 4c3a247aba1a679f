"""What a search returns. The classes have the names and fields of the service's OpenAPI document."""

import dataclasses
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_args, get_type_hints


@dataclass(frozen=True, slots=True)
class SourceA:
    """What the first source knows; None: unknown. `location`: place, free text."""

    name: str | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True)
class SourceB:
    """What the second source knows; None: unknown. `spam`: True, False or None, which differ."""

    name: str | None = None
    spam: bool | None = None


@dataclass(frozen=True, slots=True)
class Combined:
    """Whether each source returned results."""

    source_a_available: bool
    source_b_available: bool


@dataclass(frozen=True, slots=True)
class SearchData:
    """What both sources know about `phone_number`, the number as it was searched."""

    phone_number: str
    source_a: SourceA
    source_b: SourceB
    combined: Combined


@dataclass(frozen=True, slots=True)
class SearchResponse:
    """The body of a successful response. `credits_remaining`: on the token, after this search."""

    success: bool
    data: SearchData
    credits_remaining: int


@dataclass(frozen=True, slots=True)
class SearchResult(SearchResponse):
    """The body, and what the headers say.

    `request_id`: by which the operator finds the request. `rate_limit_remaining`: requests left in the current minute.
    `replayed`: whether this is a stored answer, which was charged before. `outcomes`: `found`, `not-found` or `failed`,
    by the names `source_a` and `source_b`; empty if they were not called.
    """

    request_id: str | None
    rate_limit_remaining: int | None
    replayed: bool
    outcomes: Mapping[str, str] = dataclasses.field(hash=False)


def read_fields(cls: type, document: object) -> dict[str, Any]:
    """The fields of the dataclass `cls` in a JSON document; other members are ignored. Raises ValueError."""
    if not isinstance(document, dict):
        raise ValueError(f"{cls.__name__} is not an object")
    found: dict[str, Any] = {}
    types = get_type_hints(cls)
    for field in fields(cls):
        if field.name not in document:
            if field.default is MISSING:
                raise ValueError(f"{cls.__name__}.{field.name} is missing")
            continue
        value = document[field.name]
        kind: Any = (get_args(types[field.name]) or (types[field.name],))[0]  # of `str | None`: str
        if kind not in (str, int, bool):
            value = kind(**read_fields(kind, value))
        elif type(value) is not kind:  # isinstance(True, int)
            raise ValueError(f"{cls.__name__}.{field.name} has another type")
        found[field.name] = value
    return found
