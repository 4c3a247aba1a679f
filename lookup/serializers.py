"""The shapes of the contract: declared for the schema, built here and nowhere else.

`to_representation` is written out: the fields are few and fixed, and DRF's generic walk costs more than the search.
"""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from lookup import numbers
from lookup.answers import Answer, Found
from lookup.search import SearchResult


class SearchRequest(serializers.Serializer):
    """A token and a phone number. Both are strings; nothing is trimmed or converted."""

    api_key = serializers.CharField(max_length=2048, help_text="The token that the operator gave you: a JWT.")
    query = serializers.RegexField(
        f"^{numbers.PATTERN}$",
        help_text="Country code followed by the number, digits only: no `+`, spaces or hyphens.",
    )


class SourceA(serializers.Serializer):
    """What the first source knows. A field that it does not know is absent."""

    name = serializers.CharField(required=False, min_length=1)
    location = serializers.CharField(required=False, min_length=1, help_text="A place, free text.")


class SourceB(serializers.Serializer):
    """What the second source knows. A field that it does not know is absent."""

    name = serializers.CharField(required=False, min_length=1)
    spam = serializers.BooleanField(required=False)


class Combined(serializers.Serializer):
    """Whether each source returned results."""

    source_a_available = serializers.BooleanField()
    source_b_available = serializers.BooleanField()


class SearchData(serializers.Serializer):
    phone_number = serializers.CharField(help_text="The number that was searched, as in `query`.")
    source_a = SourceA()
    source_b = SourceB()
    combined = Combined()

    def to_representation(self, instance: SearchResult) -> dict[str, Any]:
        source_a, source_b = (_fields(instance.slots[slot].answer) for slot in ("source_a", "source_b"))
        return {
            "phone_number": instance.number,
            "source_a": source_a,
            "source_b": source_b,
            "combined": {"source_a_available": bool(source_a), "source_b_available": bool(source_b)},
        }


def _fields(answer: Answer) -> dict[str, Any]:
    return answer.known() if isinstance(answer, Found) else {}


@extend_schema_field({"type": "boolean", "const": True})
class AlwaysTrue(serializers.BooleanField):
    """True; an error has another body."""


class SearchResponse(serializers.Serializer):
    """A successful search. `credits_remaining` is added when the credit is taken."""

    success = AlwaysTrue(help_text="Always true.")
    data = SearchData()  # type: ignore[assignment]
    credits_remaining = serializers.IntegerField(min_value=0, help_text="Credits left on the token after this search.")

    def to_representation(self, instance: SearchResult) -> dict[str, Any]:
        return {"success": True, "data": self.fields["data"].to_representation(instance)}


class ErrorResponse(serializers.Serializer):
    detail = serializers.CharField(help_text="What went wrong, in one sentence.")
