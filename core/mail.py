"""E-mail."""

from django.core.mail import EmailMessage, get_connection

#: The timeout of the mail server, unless the caller has its own.
TIMEOUT_S = 20


def send_email(email: EmailMessage, *, timeout_s: float | None = None) -> None:
    """Raises smtplib's errors, and others of OSError."""
    with get_connection(timeout=timeout_s or TIMEOUT_S) as server:  # closed even when the login fails
        server.send_messages([email])
