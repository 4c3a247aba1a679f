"""The operator's word about a number: it stands above every connector, in both slots."""

from django.db import connection

from lookup.answers import Found

_FIND = "SELECT spam, name FROM lookup_numberrule WHERE number = %s"


def find(number: str) -> Found | None:
    """The rule for `number`, or None. One SQL statement."""
    with connection.cursor() as cursor:
        cursor.execute(_FIND, [int(number)])
        row = cursor.fetchone()
    if row is None or (row[0] is None and not row[1]):
        return None
    spam, name = row
    return Found(name=name or None, spam=None if spam is None else bool(spam))
