"""Spans: what a request waits for. They are made if an add-on sets `make_span`.

No attribute holds a number, a token or a name.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

_NO_SPAN: AbstractContextManager[None] = nullcontext()
#: Makes a span of name, headers and attributes; None while there are no traces.
make_span: Callable[[str, Mapping[str, str] | None, Mapping[str, str]], AbstractContextManager[Any]] | None = None


def span(name: str, headers: Mapping[str, str] | None = None, /, **attributes: str) -> AbstractContextManager[Any]:
    """A span within the current one, around what leaves the process. With `headers`, that of a request, within the
    client's if it sends a `traceparent`. Costs nothing while there are no traces, and is None then."""
    return _NO_SPAN if make_span is None else make_span(name, headers, attributes)
