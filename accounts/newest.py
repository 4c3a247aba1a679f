"""The newest ledger entries of several tokens."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.models import ApiToken, CreditEntry


def newest(entries: QuerySet[CreditEntry], token_ids: Sequence[int], limit: int) -> QuerySet[CreditEntry]:
    """The `limit` newest of `entries` that belong to these tokens, newest first.

    No index has the entries of several tokens in the order of time, so this first finds a time since which there are
    enough entries, but not many more. If `limit / n` tokens have n entries each since a time, there are at least
    `limit` entries since then. That time is found for n = 1, 10, 100, ... `limit`, each among the entries since the
    previous time. At most about 10 times `limit` entries for each n remain to be sorted, however they are distributed.
    """
    since: datetime | None = None
    n = 1
    while True:
        of_token = entries.filter(token=OuterRef("pk"))
        if since is not None:
            of_token = of_token.filter(created_at__gte=since)
        nth = of_token.order_by("-token_id", "-created_at").values("created_at")[n - 1 : n]
        tokens = ApiToken.objects.filter(pk__in=token_ids).order_by()
        times = sorted(filter(None, tokens.values_list(Subquery(nth), flat=True)), reverse=True)
        needed = -(-limit // n)
        if len(times) >= needed:
            since = times[needed - 1]
        if n >= limit:
            break
        n = min(10 * n, limit)
    found = entries.filter(token__in=token_ids)
    if since is not None:
        found = found.filter(created_at__gte=since)
    # By an expression that no index has: PostgreSQL might otherwise read the index of all tokens' entries backwards,
    # past everything that others wrote since.
    return found.order_by(Coalesce("created_at", "created_at").desc(), "-pk")[:limit]
