"""The template filters `isolated` and `isolated_title`: see core.bidi."""

from django import template

from core.bidi import isolated, isolated_title

register = template.Library()
register.filter("isolated", isolated)
register.filter("isolated_title", isolated_title)
