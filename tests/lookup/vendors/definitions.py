"""What the vendors' own documents say that an answer with status 200 means, read independently of the presets."""

import re
from dataclasses import dataclass, field
from typing import Any

NUMBER, OTHER_NUMBER = "12025550123", "12125550199"
#: Texts as vendors send them, and as they are shown.
TEXTS = {
    "Example Bakery": "Example Bakery",
    "  Müller  & Söhne\n": "Müller & Söhne",
    "名前": "名前",
    "O&#39;Brien": "O'Brien",
}
TEXTS |= dict.fromkeys(["N/A", "unknown", "WIRELESS CALLER", "", "-", "\u3164", NUMBER], None)  # type: ignore[arg-type]
MISSING: Any = object()
FAILURE, INVALID = "failure", "invalid_number"


@dataclass
class Reading:
    """One document. `odd`: values that no document of the vendor allows."""

    document: Any
    odd: list[Any] = field(default_factory=list)
    name: str | None = None
    location: str | None = None
    spam: bool | None = None

    def at(self, path: str) -> Any:
        value = self.document
        for key in path.split("."):
            if isinstance(value, dict) and key in value:
                value = value[key]
            elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
                value = value[int(key)]
            else:
                return MISSING
        return value

    def has(self, *paths: str) -> bool:
        return all(self.at(path) is not MISSING for path in paths)

    def _typed(self, path: str, *types: type) -> Any:
        value = self.at(path)
        if value in (None, MISSING):
            return None
        if type(value) not in types:
            self.odd.append(value)
            return None
        return value

    def flag(self, path: str) -> bool | None:
        return self._typed(path, bool)

    def amount(self, path: str) -> float | None:
        return self._typed(path, int, float)

    def table(self, path: str) -> dict[str, Any]:
        return self._typed(path, dict) or {}

    def text(self, path: str) -> str | None:
        value = self._typed(path, str)
        return TEXTS.get(value, value.strip()) or None if value else None

    def place(self, *paths: str) -> str | None:
        return ", ".join(filter(None, map(self.text, paths))) or None

    def is_about_another(self, path: str) -> bool:
        value = self.at(path)
        digits = re.sub("[^0-9]", "", str(value)).lstrip("0") if type(value) in (str, int) else ""
        return digits not in ("", NUMBER, NUMBER[1:])


def twilio(reading: Reading) -> str | None:
    if reading.is_about_another("phone_number"):
        return FAILURE
    if reading.at("valid") is False and reading.has("validation_errors"):
        return INVALID
    if reading.at("caller_name") is None:
        return None
    code = reading.at("caller_name.error_code")
    if str(code) in ("60600", "60607", "60610"):
        return None
    if not reading.has("caller_name.caller_name") or str(code) == "60606":
        return FAILURE
    reading.name = reading.text("caller_name.caller_name")
    nameless = reading.at("caller_name.caller_name") in (None, "", [], {})
    return FAILURE if code not in (None, MISSING) and nameless else None


def telnyx(reading: Reading) -> str | None:
    if reading.is_about_another("data.phone_number"):
        return FAILURE
    if reading.at("data.valid_number") is False:
        return INVALID
    if not reading.has("data.phone_number", "data.caller_name"):
        return FAILURE
    named = reading.table("data.caller_name")
    if named and "caller_name" not in named:
        return FAILURE
    code = named.get("error_code")
    if not (named.get("caller_name") or named.get("caller_name") == 0) and str(code) not in (
        "None",
        "",
        "10001",
        "10002",
    ):
        return FAILURE
    reading.name = reading.text("data.caller_name.caller_name")
    reading.table("data.portability")
    reading.location = reading.place("data.portability.city", "data.portability.state")
    return None


def ipqualityscore(reading: Reading) -> str | None:
    if reading.at("success") is not True or reading.is_about_another("formatted"):
        return FAILURE
    if reading.at("valid") is False:
        return INVALID
    if reading.at("valid") is not True or not reading.has("fraud_score"):
        return FAILURE
    reading.name = reading.text("name")
    city, region = reading.text("city"), reading.text("region")
    if (city or region) and reading.text("line_type") != "Toll Free":
        reading.location = reading.place("city", "region", "country")
    spammer, abuse, risky, active = map(reading.flag, ("spammer", "recent_abuse", "risky", "active"))
    score = reading.amount("fraud_score")
    if spammer or abuse or (score is not None and score >= 90):
        reading.spam = True
    elif spammer is abuse is risky is False and active is not False and score is not None and score < 75:
        reading.spam = False
    return None


def trestle(reading: Reading) -> str | None:
    if reading.is_about_another("phone_number"):
        return FAILURE
    if reading.at("is_valid") is False:
        return INVALID
    if not reading.has("is_valid", "belongs_to"):
        return FAILURE
    reading.table("belongs_to")
    reading.name = reading.text("belongs_to.name")
    reading.location = reading.place("current_addresses.0.city", "current_addresses.0.state_code") or reading.place(
        "current_address.city", "current_address.state_code"
    )
    partial = reading.at("error") not in (None, MISSING)
    return FAILURE if partial and not (reading.name or reading.location) else None


def trestle_smart_cnam(reading: Reading) -> str | None:
    if reading.is_about_another("phone_number"):
        return FAILURE
    if reading.at("is_valid") is False:
        return INVALID
    if not reading.has("is_valid", "belongs_to"):
        return FAILURE
    reading.table("belongs_to")
    reading.name = reading.text("belongs_to.name")
    checks = reading.table("add_ons.spam_checks")
    if checks.get("phone.is_spam") not in (None, True, False):
        reading.odd.append(checks["phone.is_spam"])
    reading.spam = True if checks.get("phone.is_spam") is True else None
    partial = reading.at("error") not in (None, MISSING)
    return FAILURE if partial and not (reading.name or reading.spam) else None


def phoneblock(reading: Reading) -> str | None:
    votes, wildcard = reading.amount("votes"), reading.amount("votesWildcard")
    if votes is None or wildcard is None or not reading.has("phone") or reading.is_about_another("phone"):
        return FAILURE
    if not isinstance(reading.at("phone"), str):
        reading.odd.append(reading.at("phone"))
    elif reading.at("phone").startswith("+"):
        reading.location = reading.text("location")
    allowed, blocked = reading.flag("whiteListed"), reading.flag("blackListed")
    reading.spam = False if allowed else True if blocked or votes >= 4 or wildcard >= 10 else None
    return None


def usacallerlookup(reading: Reading) -> str | None:
    total = reading.amount("complaints.total")
    if total is None or not reading.has("location") or reading.is_about_another("digits"):
        return FAILURE
    reading.table("location")
    reading.location = reading.place("location.city", "location.state")
    reading.spam = True if total >= 3 else None
    return None


def opencnam(reading: Reading) -> str | None:
    if not reading.has("name", "price", "uri") or reading.is_about_another("number"):
        return FAILURE
    reading.name = reading.text("name")
    return None


def callcontrol(reading: Reading) -> str | None:
    spam, confidence = reading.flag("IsSpam"), reading.amount("Confidence")
    if not reading.has("IsSpam"):
        return FAILURE
    reading.name = reading.text("ReportedCallerName")
    reading.spam = True if spam else False if spam is False and confidence is not None and confidence > 0 else None
    return None


def callfilter(reading: Reading) -> str | None:
    blocked = reading.amount("blocked")
    if blocked not in (0, 1) or not reading.has("phone") or reading.is_about_another("phone"):
        return FAILURE
    reading.spam = True if blocked else None
    return None


def abstract(reading: Reading) -> str | None:
    if reading.is_about_another("phone_number"):
        return FAILURE
    if reading.at("phone_validation.is_valid") is False:
        return INVALID
    if not reading.has("phone_location", "phone_validation"):
        return FAILURE
    for path in ("phone_location", "phone_registration", "phone_risk"):
        reading.table(path)
    reading.name = reading.text("phone_registration.name")
    city, region = reading.text("phone_location.city"), reading.text("phone_location.region")
    reading.location = (
        city if city == region and city else reading.place("phone_location.city", "phone_location.region")
    ) or reading.text("phone_location.country_name")
    reading.flag("phone_validation.is_valid")
    abuse, level = reading.flag("phone_risk.is_abuse_detected"), reading.text("phone_risk.risk_level")
    reading.spam = True if abuse else False if abuse is False and level == "low" else None
    return None


def google_find_place(reading: Reading) -> str | None:
    candidates = reading.at("candidates")
    if reading.at("status") == "ZERO_RESULTS" and candidates == []:
        return None
    if reading.at("status") != "OK" or not reading.has("candidates.0.name"):
        return FAILURE
    reading.name = reading.text("candidates.0.name")
    reading.location = reading.text("candidates.0.formatted_address") if len(candidates) == 1 else None
    return None


def youmail(reading: Reading) -> str | None:
    if reading.at("statusCode") != 10000 or reading.is_about_another("phoneNumber"):
        return FAILURE
    level = reading.amount("spamRisk.level")
    if reading.at("recordFound") is False:
        return None
    if reading.at("recordFound") is not True or level is None:
        return FAILURE
    reading.spam = {2: True, 0: False}.get(level)  # type: ignore[call-overload]
    return None


def veriroute(reading: Reading) -> str | None:
    # The vendor's own client reads the answer with and without its envelope.
    base = "data." if reading.at("data") and reading.has("data") else ""
    if not reading.has(f"{base}cnam") or reading.is_about_another(f"{base}number"):
        return FAILURE
    errors = reading.at("errors")
    if not (errors is MISSING or isinstance(errors, list)):
        reading.odd.append(errors)
    failed = bool(errors) and errors is not MISSING
    reading.name = reading.text(f"{base}cnam")
    spam = reading._typed(f"{base}spam_type", str)
    reading.spam = True if spam in ("SPAM", "SCAM", "ROBOCALL", "TELEMARKETER") else None
    return FAILURE if failed and not (reading.name or reading.spam) else None


def tellows(reading: Reading) -> str | None:
    score = reading.at("tellows.score")
    if score is MISSING or reading.is_about_another("tellows.number"):
        return FAILURE
    comments = reading.at("tellows.comments")
    if type(score) not in (str, int, type(None)) or type(comments) not in (str, int, type(None)):
        reading.odd.append(score)
    callers = reading.at("tellows.callerNames.caller")
    first = callers[0] if isinstance(callers, list) and callers else callers
    name = first.get("name") if isinstance(first, dict) else first
    reading.name = TEXTS.get(name, name.strip()) or None if isinstance(name, str) else None
    if name not in (None, MISSING) and not isinstance(name, str):
        reading.odd.append(name)
    reading.location = reading.text("tellows.location")
    commented = (str(comments).isdigit() and int(comments) > 0) or (type(comments) is float and comments > 0)
    rated = str(score) if type(score) in (str, int) else ""
    reading.spam = True if rated in ("7", "8", "9") and str(comments) != "0" else None
    if rated in ("1", "2", "3") and commented:
        reading.spam = False
    return None


def telesign(reading: Reading) -> str | None:
    if reading.is_about_another("numbering.original.complete_phone_number"):
        return FAILURE
    code = reading.at("contact.status.code")
    if code in (2803, 2804, 2805):
        return None
    if code != 2800:
        return FAILURE
    reading.name = (
        " ".join(filter(None, (reading.text("contact.first_name"), reading.text("contact.last_name")))) or None
    )
    reading.location = reading.place("contact.city", "contact.state_province")
    return None


def fcc(reading: Reading) -> str | None:
    rows = reading.document
    if not isinstance(rows, list):
        return FAILURE
    numbers = [row.get("caller_id_number") if isinstance(row, dict) else None for row in rows]
    if not all(isinstance(number, str) for number in numbers):
        return FAILURE
    if len(set(numbers)) > 1 or any(number != "202-555-0123" for number in numbers):
        return FAILURE
    reading.spam = True if len(rows) >= 2 else None
    return None


def yelp(reading: Reading) -> str | None:
    businesses = reading.at("businesses")
    if businesses == [] and reading.at("total") in (0, None, MISSING, "", [], {}):
        return None
    if not businesses or not isinstance(businesses, list):
        return FAILURE
    if not all(isinstance(business, dict) and "name" in business for business in businesses):
        return FAILURE
    is_open = [Reading(business) for business in businesses if business.get("is_closed") is not True]
    if is_open:
        reading.name = is_open[0].text("name")
    if len(is_open) == 1:
        [only] = is_open
        country = "state" if only.at("location.country") in ("US", "CA") else "country"
        reading.location = only.place("location.city", f"location.{country}")
    return None
