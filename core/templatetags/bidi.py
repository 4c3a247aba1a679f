"""The template filters `isolated` and `isolated_title`, see core.bidi, and `folded`, see core.cells."""

from django import template

from core.bidi import isolated, isolated_title
from core.cells import folded

register = template.Library()
register.filter("isolated", isolated)
register.filter("isolated_title", isolated_title)
register.filter("folded", folded)
