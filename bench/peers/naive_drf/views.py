"""The search in one view."""

import hmac
from datetime import timedelta
from typing import Any
from uuid import uuid4

import jwt
from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django_ratelimit.core import is_ratelimited
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from bench.peers.naive_drf.models import ApiToken, ComplaintDay, Contact, CreditEntry
from bench.peers.naive_drf.serializers import SearchRequest, SearchResponse


def livez(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


class SearchView(APIView):
    def post(self, request: Request) -> Response:
        body = SearchRequest(data=request.data)
        body.is_valid(raise_exception=True)
        number = body.validated_data["query"]
        try:
            claims = jwt.decode(body.validated_data["api_key"], settings.JWT_SIGNING_KEY, algorithms=["HS256"])
            token = ApiToken.objects.get(jti=claims["jti"], revoked_at=None)
        except (jwt.InvalidTokenError, KeyError, ApiToken.DoesNotExist):
            return Response({"detail": "Invalid or missing token"}, status=401)

        def key(group: str, request: HttpRequest) -> str:
            return str(token.pk)

        if is_ratelimited(request, group="search", key=key, rate=settings.RATE_LIMIT, increment=True):
            return Response({"detail": "Rate limit exceeded"}, status=429)

        source_a: dict[str, Any] = {}
        contact = Contact.objects.filter(number=number).first()
        if contact is not None:
            source_a = {field: value for field in ("name", "location") if (value := getattr(contact, field))}
        source_b: dict[str, Any] = {}
        since = timezone.now().date() - timedelta(days=90)
        complaints = ComplaintDay.objects.filter(number=number, day__gt=since).aggregate(total=Sum("total"))["total"]
        if complaints is not None and complaints >= 2:
            source_b = {"spam": True}

        with transaction.atomic():
            token = ApiToken.objects.select_for_update().get(pk=token.pk)
            if token.credits < 1:
                return Response({"detail": "No credits remaining"}, status=403)
            token.credits -= 1
            token.last_charged_at = timezone.now()
            token.save()
            CreditEntry.objects.create(
                token=token,
                amount=-1,
                balance_after=token.credits,
                kind="search",
                request_id=uuid4().hex,
                number_hash=hmac.digest(settings.NUMBER_HASH_KEY.encode(), number.encode(), "sha256"),
            )
        answer = {
            "success": True,
            "data": {
                "phone_number": number,
                "source_a": source_a,
                "source_b": source_b,
                "combined": {"source_a_available": bool(source_a), "source_b_available": bool(source_b)},
            },
            "credits_remaining": token.credits,
        }
        return Response(SearchResponse(answer).data)
