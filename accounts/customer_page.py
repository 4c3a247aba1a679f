"""`/customer/…`: a customer's own page, by a signed link. It shows no number, note, reason or price."""

from datetime import datetime
from typing import Any

from csp.constants import SELF
from csp.decorators import csp_replace
from django.conf import settings
from django.db.models import Exists, OuterRef
from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.decorators import method_decorator
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.views import APIView

from accounts import customer_links, request_statistics, tokens
from accounts.models import CreditEntry, Customer
from accounts.newest import newest
from core import throttling
from core.numbers import EXAMPLE_NUMBER

#: Content-Security-Policy: no script, and nothing from elsewhere.
POLICY = {"style-src": [SELF], "img-src": [SELF]}
NEWEST_CHARGES = 20
#: How many tokens are listed, those that can be used first.
MAX_TOKENS = 50
#: Of the chart, in units of its viewBox.
CHART_HEIGHT, BAR_STEP = 100, 20


@method_decorator(csp_replace(POLICY), name="get")
class CustomerPage(APIView):
    """Responds 404 while CUSTOMER_PAGES is off. Links that are not valid count against AUTH_FAILURE_RATE."""

    http_method_names = ["get", "head"]
    schema = None

    def get(self, request: Request, link: str) -> HttpResponse:
        if not settings.CUSTOMER_PAGES:
            raise NotFound
        try:
            customer = customer_links.read(link)
        except customer_links.InvalidLink as error:
            throttling.FAILED_AUTHENTICATIONS.inc("link")
            throttling.count_attempt(request._request, group="customer", rate=settings.AUTH_FAILURE_RATE)
            ended = isinstance(error, customer_links.LinkEnded)
            status, title = (410, "This link has expired or was revoked") if ended else (404, "This link is not valid")
            response: HttpResponse = JsonResponse({"detail": title}, status=status)
            if "text/html" in request.META.get("HTTP_ACCEPT", ""):  # otherwise JSON, as everywhere outside the console
                response = render(request._request, "callerid/customer_link.html", {"title": title}, status=status)
        else:
            context = {"search_url": request.build_absolute_uri(reverse("search")), **_overview(customer)}
            response = render(request._request, "callerid/customer.html", context)
        # The URL is a secret: no other site and no search engine may learn it.
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["X-Robots-Tag"] = "noindex, nofollow"
        return response


def _overview(customer: Customer) -> dict[str, Any]:
    now = timezone.now()
    rows = list(customer.tokens.order_by("-pk"))
    rows.sort(key=lambda token: not token.is_usable_at(now))
    ids = [token.pk for token in rows]
    usable = [token for token in rows if token.is_usable_at(now)]
    searches = CreditEntry.objects.filter(kind=CreditEntry.Kind.SEARCH).select_related("token")
    refunds = CreditEntry.objects.filter(refunds=OuterRef("pk"))
    return {
        "customer": customer,
        "now": now,
        "balance": sum(token.credits for token in usable),
        "usable": len(usable),
        "tokens": [_token(token, now) for token in request_statistics.activity_of(rows[:MAX_TOKENS], now)],
        "more": max(0, len(rows) - MAX_TOKENS),
        "charges": newest(searches, ids, NEWEST_CHARGES).annotate(refunded=Exists(refunds)),
        "days": _days(ids, now),
        "chart_height": CHART_HEIGHT,
        "chart_width": request_statistics.DAYS * BAR_STEP,
        "number": EXAMPLE_NUMBER,
    }


def _token(token: Any, now: datetime) -> dict[str, Any]:
    count, window_s = tokens.rate_limit(token)
    return {"row": token, "state": token.state_at(now), "limit": f"{count:,} requests in {window_s} seconds"}


def _days(token_ids: list[int], now: datetime) -> list[dict[str, Any]]:
    """The answered searches of each day, with the bar of the chart."""
    days = request_statistics.by_day(token_ids, now)
    totals = [sum(counts.get(outcome, 0) for outcome in request_statistics.SEARCHES) for counts in days.values()]
    highest = max(*totals, 1)
    bars = [round(CHART_HEIGHT * total / highest) or (1 if total else 0) for total in totals]
    return [
        {"day": day, "count": total, "x": n * BAR_STEP, "y": CHART_HEIGHT - bar, "height": bar}
        for n, (day, total, bar) in enumerate(zip(days, totals, bars, strict=True))
    ]
