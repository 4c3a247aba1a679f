"""Prepares a new installation; `./run` runs this before it starts the server. A second run changes nothing."""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, CommandError, call_command
from django.db import DatabaseError, transaction

from accounts import credits, customers, tokens
from accounts.models import ApiToken, Customer
from callerid_project.announce import demo_token_file
from core import db, loop, schema_state
from core.commands import command_line
from core.database_errors import describe
from phonebook.imports.numbering_plan import UnknownLanguage, load_numbering_plan
from phonebook.imports.sample_data import load_sample_data

DEMO_CREDITS = 1_000
DEMO_CUSTOMER = "Example customer"
ACTOR = "quickstart"


class Command(BaseCommand):
    help = (
        "Apply migrations and load the numbering plan; on the embedded profile also sample data, a demo token and an "
        "admin user. Existing data is left unchanged."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.changes = 0
        try:
            with one_at_a_time():
                self.migrate()
                self.load_numbering_plan()
                if settings.EMBEDDED:
                    if load_sample_data():
                        self.report("Loaded the sample data.")
                    self.provide_demo_token(demo_token_file())
                    self.provide_admin()
        except DatabaseError as error:
            raise CommandError(f"Cannot use the database: {describe(error)}") from error
        except OSError as error:
            raise CommandError(f"Cannot use the data directory {settings.DATA_DIR}: {error.strerror}.") from error
        if not self.changes:
            self.stdout.write("Everything is up to date.")

    def report(self, line: str) -> None:
        self.changes += 1
        self.stdout.write(line)
        self.stdout.flush()

    def migrate(self) -> None:
        found = schema_state.problem()
        if found == schema_state.NOT_MIGRATED:
            call_command("migrate", verbosity=0, interactive=False)
            self.report("Applied the migrations.")
        elif found:
            raise CommandError(f"{found}.")

    def load_numbering_plan(self) -> None:
        try:
            plan = load_numbering_plan()
        except UnknownLanguage as error:
            raise CommandError(str(error)) from error
        if not plan.already_loaded:
            self.report(f"Loaded the numbering plan: {plan.prefixes:,} prefixes in {plan.countries:,} countries.")

    def provide_demo_token(self, path: Path) -> None:
        """Store a valid token with credits in `path`, so that the example request that ./run prints works."""
        try:
            active = loop.run(tokens.verify(path.read_text(encoding="ascii").strip()))
        except (FileNotFoundError, ValueError, tokens.InvalidToken):
            # Written before the commit. If the commit fails, the next run replaces the file.
            with transaction.atomic():
                customer = Customer.objects.filter(name=DEMO_CUSTOMER).first() or customers.create(name=DEMO_CUSTOMER)
                issued = tokens.issue(
                    name="demo", customer=customer, initial_credits=DEMO_CREDITS, actor=ACTOR, reason="demo token"
                )
                path.touch(mode=0o600)
                path.chmod(0o600)  # the file may have existed
                path.write_text(issued.api_key + "\n", encoding="ascii")
            self.report(f"Issued a demo token with {DEMO_CREDITS:,} credits, stored in {path}.")
            return
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        if active.credits < 1:
            token = ApiToken.objects.get(pk=active.pk)
            credits.top_up(token=token, amount=DEMO_CREDITS, actor=ACTOR, reason="the demo token had none left")
            self.report(f"Added {DEMO_CREDITS:,} credits to the demo token.")

    def provide_admin(self) -> None:
        users = get_user_model().objects
        if users.filter(is_superuser=True).exists():
            return
        if users.filter(username="admin").exists():
            create = command_line("createsuperuser")
            self.report(f"There is no superuser, and the user 'admin' is not one: run {create}.")
            return
        password = secrets.token_urlsafe(12)
        users.create_superuser("admin", password=password)
        self.report(
            f"Created the superuser 'admin' with the password {password}\n"
            f"  It is not shown again. To change it, run `{command_line('changepassword admin')}`."
        )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """A lock across processes and hosts: quickstarts that start at once run one after the other."""
    if db.VENDOR != "postgresql":
        directory = os.open(settings.DATA_DIR, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)
        return
    db.run("SELECT pg_advisory_lock(hashtext('callerid quickstart'))")
    try:
        yield
    finally:
        db.run("SELECT pg_advisory_unlock(hashtext('callerid quickstart'))")
