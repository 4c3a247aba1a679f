"""Authentication of the search, which reads what the tables know about the number in the same statement."""

from collections.abc import Sequence
from typing import Any, cast

from rest_framework.request import Request

from accounts.authentication import BodyTokenAuthentication
from core.database import Row
from lookup import search
from phonebook import numbers
from phonebook.number_query import NumberRows


class SearchAuthentication(BodyTokenAuthentication):
    """Sets `request.number_rows`, unless the number is invalid, which is reported only to a valid token."""

    async def fetch_row(self, request: Request, statement: str, parameters: Sequence[Any]) -> Row | None:
        try:
            rows = NumberRows(numbers.parse(cast(dict[str, Any], request.data).get("query")))
        except numbers.InvalidNumber:
            return await super().fetch_row(request, statement, parameters)
        request.number_rows = rows  # type: ignore[attr-defined]
        return await rows.read_with(search.queries(), statement, parameters)
