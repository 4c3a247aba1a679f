"""An authenticator app."""

import time
from base64 import b32decode

from django_otp.oath import TOTP


def code(typed_secret: str, steps: int = 0) -> str:
    """What an app with this secret (base 32) shows now, or `steps` half minutes later."""
    totp = TOTP(b32decode(typed_secret.replace(" ", "")))
    totp.time = time.time() + steps * totp.step
    return f"{totp.token():06d}"
