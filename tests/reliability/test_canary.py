"""A known token, number, name and key are found nowhere but where docs/personal-data.md says."""

import re
from collections.abc import Callable, Mapping

import psycopg
import pytest
import redis
import requests
from psycopg import sql

from tests import plugin, upstream
from tests.mock_vendors import KEYS, PRESETS
from tests.reliability.operations import serve_hosts
from tests.service import Service
from tests.upstream import Upstream, says

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

NUMBER, OTHER_NUMBER = "12125550142", "12125550143"
CONTACT, VENDORS, PASSWORD = "Quentinia Contact", "Quentinia Vendors", "quentinia-password-7"
#: The columns with numbers or names in clear text.
COLUMNS = {
    "phonebook_contact.number",
    "phonebook_contact.name",
    "phonebook_numberrule.number",
    "accounts_idempotencyrecord.answer",  # for 24 hours
    "django_admin_log.object_id",
    "django_admin_log.object_repr",
    *plugin.of_addons("CANARY_COLUMNS"),
}


def test_secrets_and_personal_data_stay_where_they_belong(
    serve: Callable[..., Service], vendor: Callable[..., Upstream], postgres_url: str, redis_url: str
) -> None:
    places, secrets = used_service(serve, vendor, DATABASE_URL=postgres_url, REDIS_URL=redis_url)
    assert leaks({**places, "Redis": in_redis(redis_url)}, secrets) == []
    found = columns_with(postgres_url, secrets)
    assert {column for column, _ in found} <= COLUMNS
    assert ("phonebook_contact.name", "contact") in found  # so it would have been found elsewhere


def used_service(
    serve: Callable[..., Service], vendor: Callable[..., Upstream], **environment: str
) -> tuple[dict[str, str], dict[str, str]]:
    """What a service wrote and sent until it was stopped, and the secrets and personal data that it had, by name."""
    one, other = vendor(says({**upstream.GOOD_A, "name": VENDORS})), vendor(upstream.raw(b"", 500))
    environment |= {
        "LOG_LEVEL": "DEBUG",
        "PRESET_DIR": str(PRESETS),
        "SOURCE_A": "directory,mock_a",
        "SOURCE_B": "complaints,mock_b",
        "MOCK_A_BASE_URL": one.url,
        "MOCK_B_BASE_URL": other.url,
        "TRUSTED_PROXIES": "1",
        "REQUIRE_2FA": "false",
        **KEYS,
    }
    (service,) = serve_hosts(serve, environment, count=1)
    token = service.manage("create_token", "canary", "--credits", "9", "--quiet").strip()
    cookies = use_everything(service, token)
    metrics = requests.get(f"{service.url}/metrics", timeout=60)
    assert metrics.status_code == 200
    service.stop()  # which writes the statistics, and sends what was not sent yet
    secrets = {"token": token, "number": NUMBER, "other number": OTHER_NUMBER, "password": PASSWORD}
    names = {"contact": "Quentinia", "encoded": "UXVlbnRpbmlh"}
    keys = {**KEYS, **{name: service.env[name] for name in ("SECRET_KEY", "JWT_SIGNING_KEY", "NUMBER_HASH_KEY")}}
    assert "view=search status=200" in service.log()
    places = {"log": service.log(), "metrics": metrics.text, "cookies": cookies}
    return places, {**secrets, **names, **keys}


def leaks(places: Mapping[str, str], secrets: Mapping[str, str]) -> list[tuple[str, str]]:
    """The places that have one of `secrets`, and the secret's name."""
    return [(place, name) for place, text in places.items() for name, secret in secrets.items() if secret in text]


def use_everything(service: Service, token: str) -> str:
    """Searches of every outcome, commands and pages. Returns the cookies."""
    service.manage("set_rule", OTHER_NUMBER, "--spam", "yes")
    service.manage(
        "shell",
        "--no-imports",
        "-c",
        "from phonebook.models import Contact; from django.contrib.auth.models import User\n"
        f"Contact.objects.create(number={NUMBER}, name='{CONTACT}')\n"
        f"User.objects.create_superuser('root', password='{PASSWORD}')\n"
        + "\n".join(code.format(number=NUMBER, name=CONTACT) for code in plugin.of_addons("CANARY").values()),
    )
    url = f"{service.url}/callerid/search"

    def post(query: str, key: str = token, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.post(url, json={"api_key": key, "query": query}, headers=named, timeout=60).status_code

    assert post(NUMBER, Idempotency_Key=f"call-{NUMBER}") == 200
    assert post(NUMBER, Idempotency_Key=f"call-{NUMBER}") == 200
    assert post(OTHER_NUMBER, X_Request_ID=OTHER_NUMBER, traceparent=NUMBER) == 200
    assert post(f"+{NUMBER}") == 400
    assert post(NUMBER, key=f"{token}x") == 401
    assert requests.post(url, data=f'{{"query": "{NUMBER}", "api_key": "{token}"', timeout=60).status_code == 415
    assert requests.get(f"{service.url}/{NUMBER}/?api_key={token}&q={CONTACT}", timeout=60).status_code == 404
    assert requests.get(f"{service.url}/livez", headers={"Host": f"{NUMBER}.example"}, timeout=60).status_code == 400
    https = {"X-Forwarded-Proto": "https", "Referer": f"https://127.0.0.1:{service.port}/"}
    login = f"{service.url}/admin/login/"
    page = requests.get(login, headers=https, timeout=60)
    form = {"username": "root", "password": PASSWORD}
    form["csrfmiddlewaretoken"] = re.findall(r'csrfmiddlewaretoken" value="(\w+)"', page.text)[0]
    cookies = {**page.cookies.get_dict()}
    done = requests.post(login, form, headers={**https, "Cookie": written(cookies)}, timeout=60, allow_redirects=False)
    assert done.status_code == 302
    cookies |= done.cookies.get_dict()
    pages = ["", f"phonebook/contact/?q={NUMBER}", f"phonebook/contact/?q={CONTACT}", "accounts/creditentry/"]
    for path in [*pages, "phonebook/numberrule/"]:
        answer = requests.get(f"{service.url}/admin/{path}", headers={**https, "Cookie": written(cookies)}, timeout=60)
        assert answer.status_code == 200
    return f"{page.headers['Set-Cookie']} {done.headers['Set-Cookie']}"


def written(cookies: Mapping[str, str]) -> str:
    return "; ".join(f"{name}={value}" for name, value in cookies.items())


def in_redis(url: str) -> str:
    """All keys and values, except the cached answers, which have names; their keys are there."""
    client = redis.Redis.from_url(url)
    text = ""
    for key in client.scan_iter():
        text += f" {key!r}"
        if not key.startswith(b"callerid:answer:"):
            if key == b"callerid:limits":  # a sorted set of the other keys
                continue
            text += str(client.lrange(key, 0, -1) if client.type(key) == b"list" else client.get(key))
    assert "callerid:answer:" in text
    return text


def columns_with(url: str, secrets: Mapping[str, str]) -> set[tuple[str, str]]:
    """Each column of the database whose text has one of `secrets`, and the secret's name."""
    found = set()
    with psycopg.connect(url) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
        ).fetchall()
        for table, column in columns:
            query = sql.SQL("SELECT 1 FROM {} WHERE strpos({}::text, %s) > 0 LIMIT 1")
            having = query.format(sql.Identifier(table), sql.Identifier(column))
            for name, secret in secrets.items():
                if connection.execute(having, [secret]).fetchone():
                    found.add((f"{table}.{column}", name))
    return found
