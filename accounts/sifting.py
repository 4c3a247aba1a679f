"""How many tokens a search, a filter or a sorting looks at: no index helps them, and a list must not wait."""

from django.db.models import Max

from accounts.models import ApiToken

MAX_SIFTED = 100_000


def passed_over() -> int:
    """The newest MAX_SIFTED tokens have greater ids than this; 0 where there are no others."""
    newest = ApiToken.objects.aggregate(newest=Max("pk"))["newest"] or 0
    return max(0, newest - MAX_SIFTED)
