import os
from typing import Any

from django.core.management.base import CommandError, CommandParser

from core.commands import JSONCommand
from core.periods import duration
from lookup.answers import FIELDS
from lookup.connectors import registry
from lookup.search import SLOTS
from lookup.vendors import preset
from lookup.vendors.preset import Preset

EVIDENCE = {"V": "vendor's documents", "T": "third-party code", "M": "measured", "K": "general knowledge"}

HEAD = """\
# Vendors

Generated from the presets by `./run manage list_presets --markdown > docs/vendors.md`: edit the presets, not this page.
[sources.md](sources.md) explains how to use a preset, [presets.md](presets.md) how to write one.

*Evidence* states where the facts come from: the vendor's own documents, third-party code only, or general knowledge.
Facts from other sources than the vendor's documents may be wrong. No vendor was called when these presets were written:
the samples are the documented ones, so run `./run manage check_sources` with your key before you rely on a preset.
"""


class Command(JSONCommand):
    help = (
        "List the presets, shipped and your own: fields, countries, keys, and whether the environment has the keys. "
        "Fails, after listing the others, if one is invalid."
    )
    json_help = "Print one JSON object per line."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--markdown", action="store_true", help="Print docs/vendors.md, from the shipped presets.")

    def handle(self, *args: Any, **options: Any) -> None:
        files = preset.folder(preset.SHIPPED) if options["markdown"] else registry.presets()
        presets: list[Preset] = []
        invalid: list[str] = []
        for file in files.values():
            try:
                presets.append(preset.load(file))
            except preset.InvalidPreset as error:
                invalid.append(f"{error}.")
        if options["markdown"]:
            self.stdout.write(markdown(presets), ending="")
        else:
            header = ["PRESET", "SLOT", "FIELDS", "COUNTRIES", "KEYS", "VENDOR"]
            self.write_rows(options, map(_row, presets), header, list(map(_cells, presets)))
        if invalid:
            raise CommandError("\n".join(invalid))


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
        cached = f"Cached: found {duration(budget.cache_hit_s)}, not found {duration(budget.cache_miss_s)}."
        if not (budget.cache_hit_s or budget.cache_miss_s):
            cached = "Not cached."
        lines.append(f"- {cached} `{each.base_url_name}` replaces `{each.request.origin}`.")
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


def _cells(each: Preset) -> list[str]:
    count = len(each.coverage.regions)
    countries = _countries(each) if count <= 3 else f"{count} countries"
    missing = [name for name in each.auth.names if not os.environ.get(name)]
    if missing:
        keys = f"{'optional' if each.auth.optional else 'missing'}: {', '.join(missing)}"
    else:
        keys = "set" if each.auth.names else "none needed"
    return [each.name, ", ".join(_slots(each)), _fields(each), countries, keys, each.title]


def _slots(each: Preset) -> list[str]:
    return [name[-1].upper() for name, (_, fields) in SLOTS.items() if each.fields.supplied & fields]


def _fields(each: Preset) -> str:
    return ", ".join(field for field in FIELDS if field in each.fields.supplied)


def _countries(each: Preset) -> str:
    return ", ".join([*each.coverage.regions, *(f"+{code}" for code in each.coverage.country_codes)]) or "all"


def _keys(each: Preset) -> str:
    names = ", ".join(f"`{name}`" for name in each.auth.names)
    return f"no ({names} optional)" if each.auth.optional and names else names or "no"
