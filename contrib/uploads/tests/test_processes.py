"""Processes of uploads, of a service."""

import fcntl
import gzip
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg

from contrib.uploads.tests import services
from tests import plugin
from tests.api import NUMBER
from tests.service import Service
from tests.test_imports import CONTACTS, database_of
from tests.test_pgbouncer import Serve, pooled_url

__all__ = ["pooled_url"]


def test_uploaded_file_is_imported_through_a_pooler(serve: Serve, pooled_url: str) -> None:
    service = serve(DATABASE_URL=pooled_url, DB_PREPARE="false", REDIS_URL="")
    upload_id = services.upload(service, f"number,name\n{NUMBER},Eve\n".encode())
    service.manage("process_import", str(upload_id))
    batch_id = services.run(service, "print(uploads.confirm(ImportUpload.objects.get()).pk)")
    service.manage("process_import", str(upload_id))
    found = "ImportBatch.objects.values_list('state', 'counts__added')"
    assert services.run(service, f"print({found}.get(), ImportUpload.objects.exists())") == "('done', 1) False"
    for _ in range(3):  # by either connection
        assert "1 deleted" in service.manage("undo_import", batch_id, "--dry-run")
    assert "1 deleted" in service.manage("undo_import", batch_id)
    with psycopg.connect(pooled_url) as one, psycopg.connect(pooled_url) as other:
        for connection in (one, other):
            for name, value in {"statement_timeout": "0", "work_mem": "4MB"}.items():
                assert connection.execute(f"SHOW {name}").fetchall() == [(value,)]


def test_process_of_a_discarded_upload_ends(serve: Callable[..., Service]) -> None:
    """While its import waits for another one into the table."""
    service = serve()
    upload_id = services.upload(service, "".join(CONTACTS[:10]).encode())
    service.manage("process_import", str(upload_id))
    services.run(service, "uploads.confirm(ImportUpload.objects.get())")
    with closing(database_of(service)) as connection, ExitStack() as opened:
        if service.env.get("DATABASE_URL"):
            connection.execute("SELECT pg_advisory_lock(hashtext('import into phonebook_contact'))")
        else:
            path = Path(service.env["CALLERID_DATA_DIR"]) / "phonebook_contact.lock"
            fcntl.flock(opened.enter_context(path.open("ab")), fcntl.LOCK_EX)
        command = [sys.executable, "manage.py", "process_import", str(upload_id)]
        process = subprocess.Popen(command, cwd=plugin.ROOT, env=service.env, stderr=subprocess.PIPE, text=True)
        while not connection.execute("SELECT 1 FROM phonebook_importupload WHERE step = 'Reading'").fetchone():
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        services.run(service, "assert uploads.discard_all() == 1")
        said = process.communicate(timeout=60)[1]
    assert said == f"CommandError: Upload {upload_id}: KeyboardInterrupt; see its page.\n"
    assert (
        services.run(service, "print(ImportBatch.objects.get().error, ImportUpload.objects.count())")
        == "Interrupted. 0"
    )


def test_file_that_needs_too_much_memory_fails(serve: Callable[..., Service]) -> None:
    service = serve()
    content = gzip.compress(b'{"version": 1, "numbers": [' + b"1," * 10**7 + b"1]}")
    upload_id = services.upload(service, content, kind="complaints")
    command = [sys.executable, "manage.py", "process_import", str(upload_id)]
    process = subprocess.run(command, cwd=plugin.ROOT, env=service.env, capture_output=True, text=True, check=False)
    assert process.stderr == f"CommandError: Upload {upload_id}: MemoryError; see its page.\n"
    assert services.run(service, "print(ImportUpload.objects.get().error)") == "The file needs too much memory."
