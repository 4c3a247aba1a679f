"""Python client of the Caller ID service. `Client` and `AsyncClient` search a phone number."""

from ._client import AsyncClient, Client
from ._errors import (
    CallerIdError,
    InvalidAnswer,
    InvalidRequest,
    InvalidToken,
    NoCredits,
    Overloaded,
    RateLimited,
    ServiceFailed,
    Unreachable,
)
from ._types import Combined, SearchData, SearchResponse, SearchResult, SourceA, SourceB
from ._version import __version__

__all__ = [
    "AsyncClient",
    "CallerIdError",
    "Client",
    "Combined",
    "InvalidAnswer",
    "InvalidRequest",
    "InvalidToken",
    "NoCredits",
    "Overloaded",
    "RateLimited",
    "SearchData",
    "SearchResponse",
    "SearchResult",
    "ServiceFailed",
    "SourceA",
    "SourceB",
    "Unreachable",
    "__version__",
]
