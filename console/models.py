"""Who was invited to the console. Written only by `console.invitations`."""

from django.conf import settings
from django.db import models


class Invitation(models.Model):
    """A user who was invited by e-mail. The row stays: its user always needs two-factor authentication."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="invitation"
    )
    invited_by = models.CharField(max_length=150)
    sent_at = models.DateTimeField(
        null=True, help_text="When the only valid link was made; empty if there is none, since it was withdrawn."
    )

    class Meta:
        default_permissions = ()  # its pages are those of users

    def __str__(self) -> str:
        return f"Invitation of user {self.user_id}"
