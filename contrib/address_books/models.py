from django.db import models

from phonebook.models import NumberField


class AddressBook(models.Model):
    """An address book that `sync_contacts` synchronizes (ADDRESS_BOOKS), and what its last run did."""

    name = models.CharField(max_length=32, primary_key=True)
    settings_digest = models.CharField(max_length=32, blank=True, help_text="Of its settings without the password.")
    contacts = models.PositiveIntegerField(default=0, help_text="Different numbers of all cards.")
    rejected = models.PositiveIntegerField(default=0, help_text="Numbers that could not be used.")
    synced_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=200, blank=True)

    class Meta:
        db_table = "phonebook_addressbook"
        default_permissions = ()  # shown on the Sources page


class AddressBookCard(models.Model):
    """A card of an address book, with or without numbers, so that an unchanged one is not transferred again."""

    book = models.ForeignKey(AddressBook, on_delete=models.CASCADE)
    key = models.CharField(max_length=32, help_text="Hash of its path or id on the server, which may have a name.")
    version = models.CharField(max_length=32, blank=True, help_text="Hash of its ETag or values.")
    rejected = models.PositiveIntegerField(default=0)

    class Meta:
        db_table = "phonebook_addressbookcard"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["book", "key"], name="addressbookcard_book_key")]


class AddressBookContact(models.Model):
    """A number of a card. Searches read only Contact, into which the first book's are published."""

    number = NumberField()
    card = models.ForeignKey(AddressBookCard, on_delete=models.CASCADE)
    name = models.CharField(max_length=200, blank=True)
    location = models.CharField(max_length=200, blank=True)

    class Meta:
        db_table = "phonebook_addressbookcontact"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["number", "card"], name="addressbookcontact_number_card")]
