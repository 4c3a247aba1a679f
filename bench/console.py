"""Measures the console's pages with a large ledger: `.venv/bin/python -m bench.console [--rows 10000000]`.

Starts a PostgreSQL server (needs its binaries and psql) with 100,000 tokens, a tenth of them in use, 30 days of
statistics, and a ledger of 10,000 entries first and --rows entries then. Requests each page in-process with the
statement timeout of the serving process. Prints each page's median time (inf: it failed), its slowest statement, and
the ratio between both sizes.
"""

import argparse
import json
from contextlib import closing, suppress

from bench.database import Database, psql
from tests.servers import PostgresServer, fresh_database

SMALL = 10_000
TOKENS = 100_000
#: One token in so many has searches.
IN_USE = 10
ROUNDS = 20
PAGES = {
    "dashboard, 24 hours": "/admin/",
    "dashboard, 7 days": "/admin/?period=7d",
    "dashboard, 30 days": "/admin/?period=30d",
    "sources, 30 days": "/admin/lookup/usage/?period=30d",
    "API token list": "/admin/accounts/apitoken/",
    "an API token": "/admin/accounts/apitoken/10/change/",
    "ledger list": "/admin/accounts/creditentry/",
    "ledger of one token": "/admin/accounts/creditentry/?token__id__exact=10",
}

FILL = """
INSERT INTO accounts_apitoken (id, name, note, jti, credits, lifetime_days, created_at, expires_at,
    revoked_reason, contact)
SELECT g, 'Integrator ' || g, '', md5(g::text), g * 7 % 5000, 365, now() - g % 300 * interval '1 day',
    now() + interval '60 days', '', ''
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

INSERT INTO accounts_creditday (day, kind, amount)
SELECT current_date - day, kind, 1000
FROM generate_series(0, 29) day, unnest(ARRAY['issue', 'top-up', 'adjustment', 'refund']) kind;

INSERT INTO lookup_sourcehour (hour, slot, connector, outcome, count, total_us, ms_1, ms_5, ms_10, ms_25, ms_50, ms_100,
    ms_250, ms_500, ms_1000, ms_2500, ms_more)
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
SELECT 1 + g::bigint * 7919 % {tokens}, -1, 1, CASE WHEN g % 1000 = 0 THEN 'top-up' ELSE 'search' END, '', '', '',
    lpad(g::text, 32, '0'), now() - g * interval '0.2 seconds'
FROM generate_series({begin}, {end}) g;
"""
# Run by `manage.py shell`.
TIME_PAGES = """
import json, statistics, time
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
client = Client(headers={{"Host": "localhost"}}, raise_request_exception=False)
client.force_login(User.objects.get_or_create(username="bench", is_staff=True, is_superuser=True)[0])
def request(url):
    started = time.perf_counter()
    response = client.get(url)
    return (time.perf_counter() - started) * 1000 if response.status_code == 200 else float("inf")
times = {{}}
for page, url in {pages}.items():
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
    output = database.manage("shell", "--no-imports", "-c", TIME_PAGES.format(pages=PAGES, rounds=ROUNDS))
    return dict(json.loads(output.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=10_000_000, help="entries in the large ledger (default: 10,000,000)"
    )
    rows = parser.parse_args().rows
    with closing(PostgresServer().start()) as server, fresh_database(server.url) as url:
        Database({"DATABASE_URL": url})
        serving = Database({"DATABASE_URL": url, "DB_STATEMENT_TIMEOUT_MS": "500"})
        psql(url, FILL.format(tokens=TOKENS, in_use=IN_USE))
        results = []
        for begin, end in ((1, SMALL), (SMALL + 1, rows)):
            psql(url, LEDGER.format(tokens=TOKENS, begin=begin, end=end))
            psql(url, "VACUUM ANALYZE")
            results.append(time_pages(serving))
        print(f"{'ms (slowest statement)':<32} {SMALL:>16,} {rows:>18,}   ratio")
        for page in PAGES:
            (a, slowest_a), (b, slowest_b) = (times[page] for times in results)
            print(f"{page:<32} {a:8.0f} ({slowest_a:4.0f}) {b:10.0f} ({slowest_b:4.0f}) {b / a:8.2f}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
