"""The request and response bodies, in the API and in its OpenAPI schema. Each `to_representation` is written out: DRF's
goes through the fields, which costs more than the search."""

from typing import Any

from rest_framework import serializers

from accounts import tokens
from core import numbers
from lookup.answers import Found
from lookup.search import SearchResult


class SearchRequest(serializers.Serializer):
    """A token and a phone number, both strings. Nothing is trimmed or converted."""

    api_key = serializers.CharField(max_length=tokens.MAX_LENGTH, help_text="Your API token, a JWT from the operator.")
    query = serializers.RegexField(
        f"^{numbers.PATTERN}$",
        help_text="Country code and number, digits only, without `+`, spaces or hyphens.",
    )


class SourceA(serializers.Serializer):
    """Results of the first source. Unknown fields are absent."""

    name = serializers.CharField(required=False, min_length=1)
    location = serializers.CharField(required=False, min_length=1, help_text="Place, free text.")


class SourceB(serializers.Serializer):
    """Results of the second source. Unknown fields are absent."""

    name = serializers.CharField(required=False, min_length=1)
    spam = serializers.BooleanField(required=False)


class Combined(serializers.Serializer):
    """Whether each source returned results."""

    source_a_available = serializers.BooleanField()
    source_b_available = serializers.BooleanField()


class SearchData(serializers.Serializer):
    phone_number = serializers.CharField(help_text="The searched number, as in `query`.")
    source_a = SourceA()
    source_b = SourceB()
    combined = Combined()

    def to_representation(self, instance: SearchResult) -> dict[str, Any]:
        answers = {slot: outcome.answer for slot, outcome in instance.slots.items()}
        known = {slot: answer.known() if isinstance(answer, Found) else {} for slot, answer in answers.items()}
        available = {f"{slot}_available": bool(fields) for slot, fields in known.items()}
        return {"phone_number": instance.number, **known, "combined": available}


class SearchResponse(serializers.Serializer):
    """A successful search."""

    # Without "const": clients by openapi-generator 7.26 take it for the string "true", and refuse every answer.
    success = serializers.BooleanField(help_text="Always true: an error has another body.")
    data = SearchData()  # type: ignore[assignment]
    credits_remaining = serializers.IntegerField(min_value=0, help_text="Credits left on the token after this search.")

    def to_representation(self, instance: SearchResult) -> dict[str, Any]:
        """Without `credits_remaining`, which the charge adds."""
        return {"success": True, "data": self.fields["data"].to_representation(instance)}


class ErrorResponse(serializers.Serializer):
    detail = serializers.CharField(help_text="A sentence that says what went wrong.")


#: For each search: a serializer of its own, and its `data`, cost four times as much.
search_response = SearchResponse()
