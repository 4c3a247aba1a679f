"""The newest rows of several tokens, in the ledger or a table of an add-on."""

from collections.abc import Sequence
from typing import TypeVar

from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from accounts.models import ApiToken
from core.ranges import FIRST, LAST, in_range

Row = TypeVar("Row", bound=Model)


def newest(entries: QuerySet[Row], token_ids: Sequence[int], limit: int) -> QuerySet[Row]:
    """The `limit` newest of `entries` that belong to these tokens, newest first, by the index of `token` and
    `created_at`.

    No index has the entries of several tokens in the order of time, so this first finds a time since which there are
    enough entries, but not many more. If `limit / n` tokens have n entries each since a time, there are at least
    `limit` entries since then. That time is found for n = 1, 10, 100, ... `limit`, each among the entries since the
    previous time. At most about 10 times `limit` entries for each n remain to be sorted, however they are distributed.
    """
    since, n = FIRST, 1
    while True:
        of_token = in_range(entries, "token_id", OuterRef("pk"), since, LAST)
        nth = of_token.order_by("-token_id", "-created_at").values("created_at")[n - 1 : n]
        tokens = ApiToken.objects.filter(pk__in=token_ids).order_by()
        times = sorted(filter(None, tokens.values_list(Subquery(nth), flat=True)), reverse=True)
        needed = -(-limit // n)
        if len(times) >= needed:
            since = times[needed - 1]
        if n >= limit:
            break
        n = min(10 * n, limit)
    found = entries.filter(token__in=token_ids, created_at__gte=since)
    # By an expression that no index has: PostgreSQL might otherwise read the index of all tokens' entries backwards,
    # past everything that others wrote since.
    return found.order_by(Coalesce("created_at", "created_at").desc(), "-pk")[:limit]
