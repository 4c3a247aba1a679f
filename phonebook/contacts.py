from django.db.models import QuerySet

from core.text_lookups import has_words


def named(text: str, rows: QuerySet) -> QuerySet:
    """The contacts whose name contains each word of the text, in any case (on SQLite only of A to Z), by number. Reads
    all rows, if few match."""
    return rows.filter(has_words("name", text)).order_by("number")
