"""Lookups of text as people see and type it."""

from django.db.models import CharField, Q, TextField, Transform

from core.text import JOINERS, without_joiners


@CharField.register_lookup
@TextField.register_lookup
class Shown(Transform):
    """`name__shown__icontains`: without joiners, which cannot be seen, and which many keyboards cannot type. Compare it
    with text without them."""

    lookup_name = "shown"
    template = f"REPLACE(REPLACE(%(expressions)s, '{JOINERS[0]}', ''), '{JOINERS[1]}', '')"


def has_words(field: str, text: str) -> Q:
    """Whether each word of the text is in the field, as in Django's search of lists."""
    return Q(*(Q((f"{field}__shown__icontains", word)) for word in without_joiners(text).split()))
