"""The vendors that a slot can be bound to by name."""

import json
import os
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from lookup.answers import FIELDS
from lookup.connectors import preset, registry
from lookup.connectors.preset import Preset
from lookup.management.tables import table
from lookup.search import SLOTS

EVIDENCE = {"V": "vendor's documents", "T": "third-party code", "M": "measured", "K": "general knowledge"}

HEAD = """\
# Vendors

Generated from the presets by `./run manage list_presets --markdown > docs/vendors.md`; edit those. How to bind one
stands in [sources.md](sources.md), how to write one in [presets.md](presets.md).

*Evidence* says where the facts come from: the vendor's own documents, third-party code only, or general knowledge.
Where it is not the vendor's documents, expect surprises. No vendor was called in writing these: the samples are the
documented ones, so run `./run manage check_sources` with your key before you rely on one.
"""


class Command(BaseCommand):
    help = (
        "List the presets, shipped and yours: fields, countries, keys, and whether the environment has those. Fails, "
        "after the others, for one that is none."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--markdown", action="store_true", help="The shipped ones as docs/vendors.md has them.")
        parser.add_argument("--json", action="store_true", help="One JSON object a line.")

    def handle(self, *args: Any, **options: Any) -> None:
        files = preset.folder(preset.SHIPPED) if options["markdown"] else registry.presets()
        presets: list[Preset] = []
        faulty: list[str] = []
        for file in files.values():
            try:
                presets.append(preset.load(file))
            except preset.Invalid as error:
                faulty.append(f"{error}.")
        if options["markdown"]:
            self.stdout.write(markdown(presets), ending="")
        elif options["json"]:
            for each in presets:
                self.stdout.write(json.dumps(_row(each), ensure_ascii=False))
        else:
            rows = [
                [each.name, ", ".join(_slots(each)), _fields(each), _in_short(each), _state(each), each.title]
                for each in presets
            ]
            self.stdout.write(table(["PRESET", "SLOT", "FIELDS", "COUNTRIES", "KEYS", "VENDOR"], rows))
        if faulty:
            raise CommandError("\n".join(faulty))


def markdown(presets: list[Preset]) -> str:
    """docs/vendors.md."""
    lines = [HEAD, "| preset | slot | fields | countries | key needed | evidence |", "|---|---|---|---|---|---|"]
    lines += [
        f"| [`{each.name}`](#{each.name}) | {', '.join(_slots(each))} | {_fields(each)} | {_countries(each)} "
        f"| {_keys(each)} | {EVIDENCE[each.evidence]} |"
        for each in presets
    ]
    for each in presets:
        lines += ["", f"## {each.name}", "", f"**{each.title}**: <{each.documentation}>. From: {each.source}.", ""]
        lines += [f"- {caveat}" for caveat in each.caveats]
        budget = each.budget
        lines.append(
            f'- Kept: an answer {_span(budget.cache_hit_s)}, "nobody knows" {_span(budget.cache_miss_s)}. '
            f"`{each.base_url_name}` replaces `{each.request.origin}`."
        )
    return "\n".join(lines) + "\n"


def _row(each: Preset) -> dict[str, Any]:
    return {
        "preset": each.name,
        "title": each.title,
        "slots": _slots(each),
        "fields": sorted(each.fields.supplied),
        "country_codes": each.coverage.country_codes,
        "regions": each.coverage.regions,
        "keys": {name: bool(os.environ.get(name)) for name in each.auth.names},
        "keys_optional": each.auth.optional,
        "evidence": each.evidence,
        "documentation": each.documentation,
    }


def _slots(each: Preset) -> list[str]:
    return [name[-1].upper() for name, (_, fields) in SLOTS.items() if each.fields.supplied & fields]


def _fields(each: Preset) -> str:
    return ", ".join(field for field in FIELDS if field in each.fields.supplied)


def _countries(each: Preset) -> str:
    return ", ".join([*each.coverage.regions, *(f"+{code}" for code in each.coverage.country_codes)]) or "all"


def _in_short(each: Preset) -> str:
    """`_countries`, for a column."""
    count = len(each.coverage.regions)
    return _countries(each) if count <= 3 else f"{count} countries"


def _keys(each: Preset) -> str:
    names = ", ".join(f"`{name}`" for name in each.auth.names)
    return f"no ({names} optional)" if each.auth.optional and names else names or "no"


def _state(each: Preset) -> str:
    missing = [name for name in each.auth.names if not os.environ.get(name)]
    if not missing:
        return "set" if each.auth.names else "none needed"
    return f"{'optional' if each.auth.optional else 'missing'}: {', '.join(missing)}"


def _span(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit if seconds != length else unit[:-1]}"
    return f"{seconds:g} s" if seconds else "not at all"
