"""Uploads of a service, without its console: tests run the process themselves."""

from tests.service import Service

_STEP = """
from phonebook.imports import uploads
from phonebook.models import ImportBatch, ImportUpload
uploads._run_process = lambda batch_id: None
{step}
"""
_UPLOAD = """
batch = uploads.begin(kind={kind!r}, by="olga", file_name="people.csv", size={size}, options={{}})
uploads.append(batch_id=batch.pk, by="olga", offset=0, content={content!r})
print(batch.pk)
"""


def run(service: Service, step: str) -> str:
    """What the statements print."""
    return service.manage("shell", "-v0", "-c", _STEP.format(step=step)).strip()


def upload(service: Service, content: bytes, kind: str = "contacts") -> int:
    """The id of a batch whose file, of one part, is to be checked."""
    return int(run(service, _UPLOAD.format(size=len(content), content=content, kind=kind)))
