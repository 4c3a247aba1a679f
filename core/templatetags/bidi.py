"""The template filter `isolated`: see core.bidi."""

from django import template

from core.bidi import isolated

register = template.Library()
register.filter("isolated", isolated)
