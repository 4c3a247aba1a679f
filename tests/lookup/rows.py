"""What a search reads about one number."""

from lookup import cache_versions, rules
from lookup.answers import Found
from lookup.combined_query import NumberRows


def rule_of(number: str) -> Found | None:
    return rules.find(NumberRows(number, [rules.QUERY]))


def cache_version_of(number: str) -> str:
    return cache_versions.find(NumberRows(number, [cache_versions.QUERY]))
