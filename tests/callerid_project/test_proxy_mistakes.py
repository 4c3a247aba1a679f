"""What a wrong proxy configuration shows in the log (docs/proxy.md has the table)."""

import pytest
from django.test import Client

LOGIN = "/admin/login/"


@pytest.mark.parametrize(
    ("host", "logged"),
    [
        ("callerid_backend", "refused_host=callerid_backend"),
        ("127.0.0.1:8001.example", "refused_host=127.0.0.1:8001.example"),
        ('a"b forged=1', "refused_host=(malformed)"),
        ("x" * 101, "refused_host=(malformed)"),
    ],
)
def test_the_log_names_the_refused_host(
    client: Client, caplog: pytest.LogCaptureFixture, host: str, logged: str
) -> None:
    with caplog.at_level("INFO", "callerid.request"):
        assert client.get("/callerid/search", headers={"Host": host}).status_code == 400
    (line,) = (record.getMessage() for record in caplog.records if record.name == "callerid.request")
    assert line.endswith(f" {logged}")
    assert "status=400" in line


def test_the_log_says_that_a_request_has_no_host(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "callerid.request"):
        assert client.get("/callerid/search", SERVER_NAME="backend.test").status_code == 400
    assert "refused_host=(none)" in caplog.text


def test_a_missing_forwarded_proto_is_named_in_the_log(db: None, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(enforce_csrf_checks=True)
    token = client.get(LOGIN).cookies["csrftoken"].value
    with caplog.at_level("INFO", "callerid.request"):
        form = {"csrfmiddlewaretoken": token, "username": "a", "password": "b"}
        sent_from = "https://localhost/admin/login/493023125042"
        assert client.post(LOGIN, form, headers={"Origin": sent_from, "Host": "localhost"}).status_code == 403
    assert "csrf=Origin checking failed scheme=http" in caplog.text
    assert "3125042" not in caplog.text
