"""Random and odd answers of vendors: documented values of each member that matters, and missing ones and other types.

A document with one of the latter may be a failure, but never a wrong answer.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.lookup.vendors import definitions
from tests.lookup.vendors.definitions import NUMBER, OTHER_NUMBER, TEXTS, Reading

NAMES: list[Any] = [*TEXTS, None]
CITIES: list[Any] = ["Springfield", "St. Louis", "N/A", "", None]
STATES: list[Any] = ["IL", "Missouri", None]
PHONES: list[Any] = [f"+{NUMBER}", NUMBER, NUMBER[1:], "(202) 555-0123", f"+{OTHER_NUMBER}", None]
FLAGS: list[Any] = [True, False, None]
ERRORS: list[Any] = [None, None, {"name": "InternalError", "message": "Could not retrieve entire response"}]
_ODD: list[Any] = [None, "", "x?", 0, 7, -1, 1e308, True, False, [], {}, [{}], [None], {"a": {"b": 1}}]
BUSINESSES: list[Any] = [
    {"name": "Example Bakery", "is_closed": False, "location": {"city": "Springfield", "state": "IL", "country": "US"}},
    {"name": "Closed Bakery", "is_closed": True, "location": {"city": "Springfield", "state": "IL", "country": "US"}},
    {"name": "Beispiel", "is_closed": None, "location": {"city": "Berlin", "state": "BE", "country": "DE"}},
    {"name": None, "location": {"city": None, "state": None, "country": None}},
]


@dataclass(frozen=True)
class Definition:
    members: Mapping[str, Any]
    #: FAILURE, INVALID, or None for an answer, whose fields it sets.
    read: Callable[[Reading], str | None]
    #: The member that is the document.
    unwrapped: str = ""

    def document(self, rng: random.Random) -> Any:
        """Most members have documented values."""
        made: dict[str, Any] = {}
        oddity = rng.choice([0.0, 0.0, 0.05, 0.3])
        for path, values in self.members.items():
            chance = rng.random()
            if chance < oddity / 2:
                continue
            value = rng.choice(_ODD) if chance < oddity else rng.choice(values)
            *parents, last = path.split(".")
            inner: Any = made
            for key in parents:
                inner = inner.setdefault(key, {}) if isinstance(inner, dict) else None
            if isinstance(inner, dict):
                inner[last] = value
        if self.unwrapped:
            return made.get(self.unwrapped, made)
        if made and rng.random() < oddity / 4:
            return rng.choice([[made], made[next(iter(made))], {"data": made}])
        return made


DEFINITIONS: dict[str, Definition] = {
    "abstract": Definition(
        {"phone_location.city": CITIES, "phone_location.region": STATES, "phone_location.country_name": ["India", None]}
        | {"phone_validation.is_valid": FLAGS, "phone_registration.name": NAMES, "phone_number": PHONES}
        | {"phone_risk.is_abuse_detected": FLAGS, "phone_risk.risk_level": ["low", "high", None]},
        definitions.abstract,
    ),
    "callcontrol": Definition(
        {"IsSpam": FLAGS, "Confidence": [0, 90, None], "ReportedCallerName": NAMES}, definitions.callcontrol
    ),
    "callfilter": Definition(
        {"phone": PHONES, "blocked": [0, 1], "cat": [0, 1, 8], "comments": [0, 15]}, definitions.callfilter
    ),
    "google_find_place": Definition(
        {
            "status": [
                "OK",
                "OK",
                "ZERO_RESULTS",
                "REQUEST_DENIED",
                "OVER_QUERY_LIMIT",
                "INVALID_REQUEST",
                "UNKNOWN_ERROR",
            ]
        }
        | {
            "candidates": [
                [],
                *([{"name": n, "formatted_address": c}] * k for n in NAMES for c in CITIES for k in (1, 2)),
            ]
        },
        definitions.google_find_place,
    ),
    "ipqualityscore": Definition(
        {
            "success": [True, True, False],
            "valid": [True, True, False],
            "fraud_score": [0, 74, 75, 89, 90, 100],
            "name": NAMES,
        }
        | {"recent_abuse": FLAGS, "risky": FLAGS, "active": FLAGS, "spammer": FLAGS, "formatted": PHONES}
        | {"line_type": ["Toll Free", "Wireless"], "city": CITIES, "region": STATES, "country": ["US", None]},
        definitions.ipqualityscore,
    ),
    "opencnam": Definition(
        {"name": NAMES, "number": PHONES, "price": [0, 0.0048], "uri": ["/v3/phone/+12025550123"]}, definitions.opencnam
    ),
    "phoneblock": Definition(
        {
            "phone": PHONES,
            "votes": [0, 3, 4, 42],
            "votesWildcard": [0, 9, 10, 120],
            "whiteListed": FLAGS,
            "blackListed": FLAGS,
        }
        | {"location": CITIES, "rating": ["C_POLL", "A_LEGITIMATE"], "archived": [False]},
        definitions.phoneblock,
    ),
    "telesign": Definition(
        {"contact.status.code": [2800, 2800, 2803, 2804, 2805, 2802, 2806, 2810, 2812], "status.code": [300, 301]}
        | {"contact.first_name": ["Example", None, ""], "contact.last_name": ["Holmes", "Müller", None]}
        | {"contact.city": CITIES, "contact.state_province": STATES}
        | {"numbering.original.complete_phone_number": [NUMBER, OTHER_NUMBER]},
        definitions.telesign,
    ),
    "tellows": Definition(
        {
            "tellows.score": ["1", "3", "5", "7", "9", 2, 8, None],
            "tellows.comments": ["0", "17", 3, None],
            "tellows.number": PHONES,
        }
        | {
            "tellows.location": CITIES,
            "tellows.callerNames.caller": [*NAMES, *([n] for n in NAMES), *([{"name": n}] for n in NAMES)],
        },
        definitions.tellows,
    ),
    "telnyx": Definition(
        {"data.caller_name.caller_name": NAMES, "data.caller_name.error_code": [None, "", "10001", "10002", "10009"]}
        | {"data.phone_number": PHONES, "data.valid_number": FLAGS, "data.fraud": [None]}
        | {"data.portability.city": CITIES, "data.portability.state": STATES},
        definitions.telnyx,
    ),
    "trestle": Definition(
        {"phone_number": PHONES, "is_valid": FLAGS, "belongs_to.name": NAMES, "error": ERRORS, "warnings": [[]]}
        | {"current_addresses": [[], None, *([{"city": c, "state_code": s}] for c in CITIES for s in STATES)]}
        | {"current_address": [None, *({"city": c, "state_code": s} for c in CITIES for s in STATES)]},
        definitions.trestle,
    ),
    "trestle_smart_cnam": Definition(
        {"phone_number": PHONES, "is_valid": FLAGS, "belongs_to.name": NAMES, "error": ERRORS, "warnings": [[]]}
        | {"add_ons.spam_checks": [None, *({"phone.is_spam": flag} for flag in FLAGS)]},
        definitions.trestle_smart_cnam,
    ),
    "twilio": Definition(
        {"phone_number": PHONES, "valid": [True, True, False], "validation_errors": [None, ["TOO_SHORT"]]}
        | {"caller_name.caller_name": NAMES, "caller_name.caller_type": ["CONSUMER", None]}
        | {"caller_name.error_code": [None, None, 60606, 60600, "60607", 60610, 60608, 60626, 60616, 60699]},
        definitions.twilio,
    ),
    "usacallerlookup": Definition(
        {"digits": [NUMBER[1:], OTHER_NUMBER[1:]], "complaints.total": [0, 2, 3, 9], "toll_free": [False]}
        | {"location.city": CITIES, "location.state": STATES},
        definitions.usacallerlookup,
    ),
    "veriroute": Definition(
        {
            "data.number": PHONES,
            "data.cnam": NAMES,
            "data.spam_type": ["NONE", "SPAM", "SCAM", "ROBOCALL", "TELEMARKETER", None],
        }
        | {"errors": [[], [], ["Upstream provider failed"]]},
        definitions.veriroute,
    ),
    "youmail": Definition(
        {
            "statusCode": [10000, 10000, 20000, 30000, 50000],
            "recordFound": [True, True, False],
            "spamRisk.level": [0, 1, 2],
        }
        | {"phoneNumber": [int(NUMBER[1:]), int(OTHER_NUMBER[1:])]},
        definitions.youmail,
    ),
    "fcc": Definition(
        {
            "rows": [
                [{"caller_id_number": n, "state": "CT"}] * k
                for n in ("202-555-0123", "212-555-0199")
                for k in (0, 1, 2, 3)
            ]
        },
        definitions.fcc,
        unwrapped="rows",
    ),
    "yelp": Definition(
        {
            "total": [0, 1, 2, None],
            "businesses": [[], *([business] for business in BUSINESSES), BUSINESSES[:2], BUSINESSES[1:]],
        },
        definitions.yelp,
    ),
}
