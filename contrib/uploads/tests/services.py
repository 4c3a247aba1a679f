"""Uploads of a service, without its console: tests run the process themselves."""

from tests.service import Service

_STEP = """
from django.contrib.auth.models import User
from contrib.uploads import uploads
from phonebook.models import ImportBatch
from contrib.uploads.models import ImportUpload
uploads.run_waiting = lambda: None
{step}
"""
_UPLOAD = """
user, _ = User.objects.get_or_create(username="olga")
upload = uploads.begin(user=user, kind={kind!r}, file_name="people.csv", size={size}, options={{}})
uploads.append(upload, offset=0, content={content!r})
print(upload.pk)
"""


def run(service: Service, step: str) -> str:
    """What the statements print."""
    return service.manage("shell", "-v0", "-c", _STEP.format(step=step)).strip()


def upload(service: Service, content: bytes, kind: str = "contacts") -> int:
    """The id of an upload, of one part, that is to be checked."""
    return int(run(service, _UPLOAD.format(size=len(content), content=content, kind=kind)))
