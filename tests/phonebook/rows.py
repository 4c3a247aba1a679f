"""What a search reads about one number."""

from core import loop
from lookup.answers import Found
from phonebook import cache_versions, rules
from phonebook.number_query import NumberRows


def rule_of(number: str) -> Found | None:
    rule = loop.run(rules.find(NumberRows(number)))
    return Found(name=rule.name, spam=rule.spam) if rule else None


def cache_version_of(number: str) -> str:
    return loop.run(cache_versions.find(NumberRows(number)))
