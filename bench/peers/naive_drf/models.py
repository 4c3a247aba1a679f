"""Models of our tables, with the columns that a search needs."""

from typing import ClassVar, Self

from django.db import models
from django.utils import timezone


class ApiToken(models.Model):
    objects: ClassVar[models.Manager[Self]] = models.Manager()

    jti = models.CharField(max_length=32, unique=True)
    credits = models.BigIntegerField(default=0)
    revoked_at = models.DateTimeField(null=True)
    last_charged_at = models.DateTimeField(null=True)

    class Meta:
        managed = False
        db_table = "accounts_apitoken"


class CreditEntry(models.Model):
    objects: ClassVar[models.Manager[Self]] = models.Manager()

    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT)
    amount = models.BigIntegerField()
    balance_after = models.BigIntegerField()
    kind = models.CharField(max_length=10)
    actor = models.CharField(max_length=150, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    reference = models.CharField(max_length=100, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    number_hash = models.BinaryField(max_length=32, null=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        managed = False
        db_table = "accounts_creditentry"


class Contact(models.Model):
    objects: ClassVar[models.Manager[Self]] = models.Manager()

    number = models.BigIntegerField(primary_key=True)
    name = models.CharField(max_length=200, blank=True)
    location = models.CharField(max_length=200, blank=True)

    class Meta:
        managed = False
        db_table = "phonebook_contact"


class ComplaintDay(models.Model):
    objects: ClassVar[models.Manager[Self]] = models.Manager()

    number = models.BigIntegerField()
    day = models.DateField()
    total = models.PositiveIntegerField()

    class Meta:
        managed = False
        db_table = "phonebook_complaintday"
