"""Makes a fresh installation answer: what `./run` does before it starts the server. A second run changes nothing."""

import fcntl
import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import BaseCommand, CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from accounts import credits, tokens
from lookup.datasets.plan import load_numbering_plan
from lookup.datasets.samples import load_samples

DEMO_CREDITS = 1_000
ACTOR = "quickstart"


class Command(BaseCommand):
    help = (
        "Apply migrations and load the numbering plan; on the embedded profile also sample data, a demo token and an "
        "admin user. What is there already is left as it is."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        self.changes = 0
        try:
            if settings.EMBEDDED:
                require_writable(settings.DATA_DIR)
            with one_at_a_time():
                self.migrate()
                self.load_numbering_plan()
                if settings.EMBEDDED:
                    if load_samples():
                        self.done("Loaded the sample data.")
                    self.provide_demo_token(settings.DATA_DIR / "demo_token")
                    self.provide_admin()
        except DatabaseError as error:
            raise CommandError(f"The database cannot be used: {str(error).strip().splitlines()[0]}") from error
        except OSError as error:
            raise CommandError(f"Cannot use the data directory {settings.DATA_DIR}: {error.strerror}.") from error
        if not self.changes:
            self.stdout.write("Everything is in place.")

    def done(self, line: str) -> None:
        self.changes += 1
        self.stdout.write(line)
        self.stdout.flush()

    def migrate(self) -> None:
        executor = MigrationExecutor(connection)
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            call_command("migrate", verbosity=0, interactive=False)
            self.done("Prepared the database.")

    def load_numbering_plan(self) -> None:
        plan = load_numbering_plan()
        if not plan.already_loaded:
            self.done(f"Loaded the numbering plan: {plan.prefixes:,} prefixes in {plan.countries:,} countries.")

    def provide_demo_token(self, path: Path) -> None:
        """A token that works and can pay, kept in `path`: the curl that ./run prints must never be a stale one."""
        try:
            token = tokens.verify(path.read_text(encoding="ascii").strip())
        except (FileNotFoundError, ValueError, tokens.InvalidToken):
            # The row is committed after the file is written: a token that is in neither is no loss.
            with transaction.atomic():
                issued = tokens.issue(name="demo", initial_credits=DEMO_CREDITS, actor=ACTOR, reason="demo token")
                write_private(path, issued.api_key + "\n")
            self.done(f"Made a demo token with {DEMO_CREDITS:,} credits, kept in {path}.")
            return
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        if token.credits < 1:
            credits.top_up(token=token, amount=DEMO_CREDITS, actor=ACTOR, reason="the demo token had none left")
            self.done(f"Gave the demo token {DEMO_CREDITS:,} more credits.")

    def provide_admin(self) -> None:
        users = get_user_model().objects
        if users.filter(is_superuser=True).exists():
            return
        if users.filter(username="admin").exists():
            self.done("There is no superuser, and 'admin' is someone else: ./run manage createsuperuser makes one.")
            return
        password = secrets.token_urlsafe(12)
        users.create_superuser("admin", password=password)
        self.done(
            f"Made the admin user 'admin' with the password {password}\n"
            "  It is not shown again; `./run manage changepassword admin` sets another one."
        )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two that start at once take turns, on one host or on several: the second finds everything in place."""
    if connection.vendor != "postgresql":
        directory = os.open(settings.DATA_DIR, os.O_RDONLY)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX)
            yield
        finally:
            os.close(directory)
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(hashtext('callerid quickstart'))")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(hashtext('callerid quickstart'))")


def require_writable(directory: Path) -> None:
    """Raises OSError when no file can be made there: SQLite would only say that it cannot open its own."""
    with tempfile.TemporaryFile(dir=directory):
        pass


def write_private(path: Path, text: str) -> None:
    """Replace `path` in one step by a file that only its owner can read (mkstemp's mode is 0600)."""
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
