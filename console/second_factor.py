"""Two-factor authentication of staff: a TOTP device (RFC 6238) and single-use recovery codes, stored by django-otp.

django-otp accepts each TOTP code once, and after a wrong code makes the user wait 1, 2, 4, ... seconds. Recovery codes
are stored as hashes; they have 80 random bits, so a hash without salt is enough. The TOTP secret is stored in clear,
because the server computes codes with it.
"""

import hashlib
import re
import secrets
from base64 import b32encode
from typing import Any

import django_otp
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.utils import timezone
from django_otp.models import Device
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from console.models import Invitation
from core import history
from core.attempt_limits import TooManyAttempts

RECOVERY_CODES = 10
_TOTP_CODE = re.compile(r"[0-9]{6}")


class InvalidCode(Exception):
    """The code is wrong, was used before, or has expired."""


class AlreadySetUp(Exception):
    """The user already has a device."""


def is_set_up(user: User) -> bool:
    return TOTPDevice.objects.filter(user_id=user.pk, confirmed=True).exists()


def is_required(user: User) -> bool:
    """Whether the user may not be without a device: everybody with REQUIRE_2FA, and always those who were invited."""
    return settings.REQUIRE_2FA or Invitation.objects.filter(user_id=user.pk).exists()


def is_needed(user: User) -> bool:
    """Whether a session of `user` needs a code after the password. Runs at most one statement."""
    if settings.REQUIRE_2FA:
        return True
    device = TOTPDevice.objects.filter(user=OuterRef("pk"), confirmed=True)
    invitation = Invitation.objects.filter(user=OuterRef("pk"))
    return User.objects.filter(Exists(device) | Exists(invitation), pk=user.pk).exists()


def is_satisfied(request: HttpRequest) -> bool:
    """Whether this session may open the console: it is verified, or its user has no device and needs none.

    A page calls it several times, and the database is asked once.
    """
    user: Any = request.user
    if user.is_verified():
        return True
    if not hasattr(user, "needs_second_factor"):
        user.needs_second_factor = is_needed(user)
    return not user.needs_second_factor


def is_needed_after_password(request: HttpRequest, user: User) -> bool:
    """Whether the session in which `user` has just logged in by password still needs a code.

    False if the session was verified before: Django keeps a session when the same user logs in again.
    """
    device = Device.from_persistent_id(request.session.get(django_otp.DEVICE_ID_SESSION_KEY) or "")
    return is_needed(user) and (device is None or device.user_id != user.pk)


def recovery_codes_left(user: User) -> int:
    return StaticToken.objects.filter(device__user_id=user.pk).count()


def unsaved_device(user: User, key: str) -> TOTPDevice:
    return TOTPDevice(user=user, name="Authenticator app", key=key)


def qr_code(user: User, key: str) -> str:
    """The otpauth:// URL of `key` as a QR code: an SVG image in a data: URL."""
    import segno  # only here: it takes memory that most processes never need

    return str(segno.make(unsaved_device(user, key).config_url, micro=False).svg_data_uri(scale=4, light="white"))


def typed_key(key: str) -> str:
    """`key` in base 32, in groups of four characters, to type into an app."""
    return " ".join(re.findall("....", b32encode(bytes.fromhex(key)).decode()))


def set_up(user: User, *, key: str, code: str) -> tuple[Device, list[str]]:
    """Save a device with `key` if `code` proves that the user's app has it; return the device and its recovery codes.

    Raises InvalidCode and AlreadySetUp.
    """
    device, code = unsaved_device(user, key), _normalized(code)
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)  # of two concurrent set-ups, the second sees the first
        if is_set_up(user):
            raise AlreadySetUp
        # This saves the device, which then does not accept the code again; the exception rolls that back.
        if not (_TOTP_CODE.fullmatch(code) and device.verify_token(code)):
            raise InvalidCode
        return device, replace_recovery_codes(user, "Set up two-factor authentication.")


def verify(user: User, code: str) -> Device:
    """Use up `code` and return the user's device that accepts it. Raises InvalidCode, and TooManyAttempts
    while no code is checked because of earlier wrong ones.

    Do not call it in a transaction: its rollback would undo the count of wrong codes.
    """
    code = _normalized(code)
    devices: type[Device] = TOTPDevice if _TOTP_CODE.fullmatch(code) else StaticDevice
    device = devices.objects.devices_for_user(user, confirmed=True).first()
    if device is None:
        raise InvalidCode
    allowed, reason = device.verify_is_allowed()
    if not allowed:
        seconds = (reason["locked_until"] - timezone.now()).total_seconds()
        raise TooManyAttempts(max(1, int(seconds) + 1))
    token = code if devices is TOTPDevice else _stored(code)
    accepted = django_otp.verify_token(user, device.persistent_id, token)
    if accepted is None:
        raise InvalidCode
    return accepted


def replace_recovery_codes(user: User, message: str = "Replaced the recovery codes.") -> list[str]:
    """Create new recovery codes and return them; the earlier ones stop working. `message`: for the history."""
    codes = [b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(RECOVERY_CODES)]
    with transaction.atomic():
        device, _ = StaticDevice.objects.get_or_create(user_id=user.pk, defaults={"name": "Recovery codes"})
        device = StaticDevice.objects.select_for_update().get(pk=device.pk)
        device.token_set.all().delete()
        StaticToken.objects.bulk_create(StaticToken(device=device, token=_stored(code)) for code in codes)
        history.record(action=history.Action.CHANGE, target=user, user=user, message=message)
    return ["-".join(re.findall("....", code)) for code in codes]


def remove(user: User, message: str, *, by: User | None) -> bool:
    """Delete the user's device and recovery codes, and return whether there were any. Sessions that they verified
    need a new code. `message`: for the history; `by`: who removes them, None for whoever runs this command."""
    with transaction.atomic():
        deleted = [devices.objects.filter(user_id=user.pk).delete()[0] for devices in (TOTPDevice, StaticDevice)]
        if any(deleted):
            history.record(action=history.Action.CHANGE, target=user, user=by, message=message)
    return any(deleted)


def _normalized(code: str) -> str:
    return re.sub(r"[\s-]", "", code).lower()


def _stored(code: str) -> str:
    """80 bits of the code's hash, as many as the code has: 16 characters, the length of the column."""
    return b32encode(hashlib.sha256(code.encode()).digest()[:10]).decode().lower()
