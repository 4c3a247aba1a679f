"""Measures the console's pages with a large ledger: `.venv/bin/python -m bench.console [--rows 10000000]`.

Starts a PostgreSQL server (needs its binaries and psql) with 100,000 tokens of 5,000 customers, a tenth of them in use,
30 days of statistics, and a ledger and a request log of 10,000 rows each first and --rows rows each then; one token
made half of the requests. Requests each page in-process with the statement timeout of the serving process. Prints each
page's median time (inf: it failed), its slowest statement, and the ratio between both sizes. Needs 1 GB of disk for
each million rows.
"""

import argparse
import hmac
import json
from contextlib import closing, suppress

import psycopg

from bench.database import KEYS, Database, psql, without_indexes
from tests.servers import PostgresServer, fresh_database

SMALL = 10_000
TOKENS = 100_000
#: One token in so many has searches.
IN_USE = 10
ROUNDS = 20
REQUESTS = "/admin/request_log/requestlogentry/"
LEDGER = "/admin/accounts/creditentry/"
#: The whole period, in a URL.
EVER = "since=2000-01-01"
#: In the request log, by its keyed hash.
NUMBER = "12025550123"
PAGES = {
    "dashboard, 24 hours": "/admin/",
    "dashboard, its first block": "/admin/status/",
    "dashboard, 7 days": "/admin/?period=7d",
    "dashboard, 30 days": "/admin/?period=30d",
    "sources, 30 days": "/admin/monitoring/source/?period=30d",
    "API token list": "/admin/accounts/apitoken/",
    "an API token": "/admin/accounts/apitoken/10/change/",
    "ledger list": "/admin/accounts/creditentry/",
    "ledger list, all time": f"{LEDGER}?{EVER}",
    "ledger of one token": f"{LEDGER}?token=%2310&{EVER}",
    "a ledger entry": "/admin/accounts/creditentry/2000/change/",
    "all except searches": f"{LEDGER}?kind=booked&{EVER}",
    "customer list": "/admin/accounts/customer/",
    "customers by tokens": "/admin/accounts/customer/?o=-3",
    "customers by balance": "/admin/accounts/customer/?o=-4",
    "customers by searches": "/admin/accounts/customer/?o=-5",
    "customers by revenue": "/admin/accounts/customer/?o=-6",
    "customers by last charge": "/admin/accounts/customer/?o=-7",
    "customers by end of credits": "/admin/accounts/customer/?o=8",
    "revenue of the last month": "/admin/revenue/",
    "its total, for the dashboard": "/admin/revenue/last-month/",
    "a customer with 20 tokens": "/admin/accounts/customer/1/change/",
    "its ledger": f"{LEDGER}?customer=1&{EVER}",
    "a customer with 1,000 tokens": "/admin/accounts/customer/2/change/",
    "its ledger (1,000 tokens)": f"{LEDGER}?customer=2&{EVER}",
    "top-ups of one token": f"{LEDGER}?kind=top-up&token=%2310&{EVER}",
    "one request id in the ledger": f"{LEDGER}?request_id={9000:032}&{EVER}",
    "a reference": f"{LEDGER}?reference=INV-9000&{EVER}",
    "alerts": "/admin/alerts/incident/",
    "notices": "/admin/alerts/notice/",
    "a source, 30 days": "/admin/monitoring/source/twilio/change/?period=30d",
    "search: request id": "/admin/search/ {request_id}",
    "search: number": "/admin/search/ {number}",
    "search: name": "/admin/search/ {name}",
    "request log": f"{REQUESTS}",
    "request log, older page": f"{REQUESTS}?before={{old}}&{EVER}",
    "request log, old day": f"{REQUESTS}?until={{old_day}}&{EVER}",
    "requests of one token": f"{REQUESTS}?token=%2310&{EVER}",
    "requests of the busiest token": f"{REQUESTS}?token=%2320&{EVER}",
    "busiest token, rare outcome": f"{REQUESTS}?token=%2320&outcome=free_degraded&{EVER}",
    "busiest token, number": f"{REQUESTS}?token=%2320&number_hash={{number_hash}}&{EVER}",
    "requests of a customer": f"{REQUESTS}?customer=1&{EVER}",
    "of one with 1,000 tokens": f"{REQUESTS}?customer=2&{EVER}",
    "a customer, outcome without rows": f"{REQUESTS}?customer=1&outcome=free_degraded&{EVER}",
    "one request id": f"{REQUESTS}?request_id={9000:032}&{EVER}",
    "one number": f"{REQUESTS}?number_hash={{number_hash}}&{EVER}",
    "common outcome": f"{REQUESTS}?outcome=found_both&{EVER}",
    "rare outcome": f"{REQUESTS}?outcome=found_degraded&{EVER}",
    "outcome without rows": f"{REQUESTS}?outcome=free_degraded&{EVER}",
    "status 403": f"{REQUESTS}?status=403&{EVER}",
    "status 503 (no rows)": f"{REQUESTS}?status=503&{EVER}",
    "status 200, no rows of outcome": f"{REQUESTS}?status=200&outcome=free_degraded&{EVER}",
    "any failure": f"{REQUESTS}?failed=any&{EVER}",
    "failures only long ago": f"{REQUESTS}?failed=source_b&reason=auth&{EVER}",
    "failures of one token": f"{REQUESTS}?failed=any&token=%2320&{EVER}",
    "a request": f"{REQUESTS}2000/change/",
}

FILL = """
INSERT INTO accounts_customer (id, name, note, links_version, created_at)
SELECT g, 'Customer ' || g, '', 1, now() FROM generate_series(1, 5000) g;

INSERT INTO accounts_apitoken (id, name, note, jti, credits, lifetime_days, created_at, expires_at,
    revoked_reason, contact, customer_id)
SELECT g, 'Integrator ' || g, '', md5(g::text), g * 7 % 5000, 365, now() - g % 300 * interval '1 day',
    now() + interval '60 days', '', '', CASE WHEN g % 100 = 0 THEN 2 WHEN g <= 20 THEN 1 ELSE 3 + g % 4998 END
FROM generate_series(1, {tokens}) g;

INSERT INTO accounts_tokenday (token_id, day, outcome, count)
SELECT token, current_date - day, outcome, 1 + (token + day) % 50
FROM generate_series({in_use}, {tokens}, {in_use}) token, generate_series(0, 29) day,
    unnest(ARRAY['found_both', 'found_one', 'found_none', 'rate_limited']) outcome
ORDER BY day DESC;

INSERT INTO accounts_searchhour (hour, outcome, count)
SELECT date_trunc('hour', now()) - hour * interval '1 hour', outcome, 1000 + hour
FROM generate_series(0, 719) hour,
    unnest(ARRAY['found_both', 'found_one', 'found_none', 'replayed', 'no_credits', 'rate_limited', 'unauthorized',
        'invalid', 'failed']) outcome;

INSERT INTO monitoring_sourcehour (hour, slot, connector, outcome, count, total_us, ms_1, ms_5, ms_10, ms_25, ms_50,
ms_100,     ms_250, ms_500, ms_1000, ms_2500, ms_more)
SELECT date_trunc('hour', now()) - hour * interval '1 hour', slot, connector, outcome, 110, 9000000,
    10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10
FROM generate_series(0, 719) hour, unnest(ARRAY['source_a', 'source_b']) slot,
    unnest(ARRAY['directory', 'geography', 'twilio', 'trestle']) connector,
    unnest(ARRAY['found', 'not_found', 'cached_found', 'cached_not_found', 'late', 'error', 'breaker']) outcome;
"""
# Disables triggers: those of the foreign key would look up ten million tokens.
LEDGER = """
SET session_replication_role = replica;
INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference, request_id,
    created_at)
SELECT 1 + g::bigint * 7919 % {tokens}, -1, 1, CASE WHEN g % 1000 = 0 THEN 'top-up' ELSE 'search' END, '', '',
    CASE WHEN g % 1000 = 0 THEN 'INV-' || g ELSE '' END,
    lpad(g::text, 32, '0'), now() - g * interval '0.2 seconds'
FROM generate_series({begin}, {end}) g;
"""
# A week. Failures of source B were long ago: the newest tenth has none.
REQUEST_LOG = """
INSERT INTO monitoring_requestlogentry (created_at, token_id, request_id, status, outcome, charged, replayed, entry_id,
    number_mask, number_hash, duration_us, source_a, source_a_us, source_b, source_b_us, failures, calls)
SELECT now() - (g * 604800.0 / {rows}) * interval '1 second',
    CASE WHEN g %% 2 = 0 THEN 20 ELSE 1 + g::bigint * 7919 %% {tokens} END, lpad(g::text, 32, '0'),
    CASE WHEN g %% 50 = 0 THEN 403 WHEN g %% 1000 = 1 THEN 500 ELSE 200 END,
    CASE WHEN g %% 50 = 0 THEN 'no_credits' WHEN g %% 1000 = 1 THEN 'failed' WHEN g %% 1000 = 3 THEN 'found_degraded'
        WHEN g %% 4 = 1 THEN 'found_one' ELSE 'found_both' END,
    g %% 50 <> 0, false, g, '12*******23', CASE WHEN g %% 9999 = 0 THEN %(hash)s ELSE sha256(int8send(g)) END,
    1800, 'found', 400, 'found', 410,
    CASE WHEN g %% 1000 IN (1, 3) THEN 'source_a:twilio:late'
        WHEN g > {rows} * 0.9 AND g %% 100 = 5 THEN 'source_b:trestle:auth' ELSE '' END,
    '{{"source_a":[["directory","found",405,""],["geography","found",20,""]],"source_b":[["complaints","found",404,""]]}}'
FROM generate_series({begin}::bigint, {end}) g
"""
# Run by `manage.py shell`.
TIME_PAGES = """
import json, statistics, time
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from datetime import timedelta
from django.utils import timezone
from core.hashing import keyed_hash
from core.long_lists import Position
client = Client(headers={{"Host": "localhost"}}, raise_request_exception=False)
client.force_login(User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)[0])
def request(url):
    started = time.perf_counter()
    path, _, text = url.partition(" ")
    response = client.post(path, {{"q": text}}, follow=True) if text else client.get(path, follow=True)
    return (time.perf_counter() - started) * 1000 if response.status_code == 200 else float("inf")
times = {{}}
long_ago = timezone.now() - timedelta(days=6)
parameters = dict(old=Position(long_ago, 1), old_day=long_ago.strftime("%Y-%m-%dT%H:%M"),
    number="{number}", number_hash=keyed_hash("number", "{number}").hex(), request_id="{request_id}",
    name="Integrator 77")
for page, url in {pages}.items():
    url = url.format(**parameters)
    request(url)
    median = statistics.median(request(url) for _ in range({rounds}))
    connection.force_debug_cursor = True
    connection.queries_log.clear()
    request(url)
    connection.force_debug_cursor = False
    times[page] = median, max(float(query["time"]) * 1000 for query in connection.queries_log)
print(json.dumps(times))
"""


def time_pages(database: Database) -> dict[str, tuple[float, float]]:
    """Returns each page's median time and the time of its slowest statement, in milliseconds."""
    output = database.manage(
        "shell",
        "--no-imports",
        "-c",
        TIME_PAGES.format(pages=PAGES, rounds=ROUNDS, number=NUMBER, request_id=f"{9000:032}"),
    )
    return dict(json.loads(output.splitlines()[-1]))


def write_requests(url: str, begin: int, end: int) -> None:
    number_hash = hmac.digest(KEYS["NUMBER_HASH_KEY"].encode(), f"number:{NUMBER}".encode(), "sha256")
    with (
        psycopg.connect(url, autocommit=True) as connection,
        without_indexes(connection, "monitoring_requestlogentry"),
    ):
        statement = REQUEST_LOG.format(tokens=TOKENS, begin=begin, end=end, rows=end)
        connection.execute(statement.encode(), {"hash": number_hash})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of each large table (default: 10,000,000)")
    rows = parser.parse_args().rows
    with closing(PostgresServer().start()) as server, fresh_database(server.url) as url:
        Database({"DATABASE_URL": url})
        serving = Database({"DATABASE_URL": url, "DB_STATEMENT_TIMEOUT_MS": "500", "REQUIRE_2FA": "false"})
        psql(url, FILL.format(tokens=TOKENS, in_use=IN_USE))
        results = []
        for begin, end in ((1, SMALL), (SMALL + 1, rows)):
            psql(url, LEDGER.format(tokens=TOKENS, begin=begin, end=end))
            write_requests(url, begin, end)
            psql(url, "VACUUM ANALYZE")
            results.append(time_pages(serving))
        print(f"{'ms (slowest statement)':<32} {SMALL:>16,} {rows:>18,}   ratio")
        for page in PAGES:
            (a, slowest_a), (b, slowest_b) = (times[page] for times in results)
            print(f"{page:<32} {a:8.0f} ({slowest_a:4.0f}) {b:10.0f} ({slowest_b:4.0f}) {b / a:8.2f}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
