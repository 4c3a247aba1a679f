import sys
from collections.abc import Iterable
from typing import Any

from core.commands import JSONCommand


class Command(JSONCommand):
    help = (
        "Check everything that the service needs: configuration, key files, database, Redis, clocks, sources, "
        "balances, notices, prune, proxy. Says what to do about each problem, and exits with status 1 if there is one. "
        "Shows no secret."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        from monitoring.health import checks  # needs valid settings, which manage.py reports for this command

        results = checks.for_doctor()
        self.write_result(options, *report(each[:3] for each in results))
        if not all(each.healthy for each in results):
            sys.exit(1)


def report(results: Iterable[tuple[str, bool, str]]) -> tuple[dict[str, Any], str]:
    """The report for --json, and as text. `results`: name, whether it is in order, and one or more sentences."""
    checks = [{"name": name, "ok": ok, "detail": detail} for name, ok, detail in results]
    wrong = [check for check in checks if not check["ok"]]
    lines = [f"{'ok     ' if check['ok'] else 'PROBLEM'}  {check['name']:<14}  {check['detail']}" for check in checks]
    text = "\n".join([*lines, "", f"{len(wrong)} of {len(checks)} checks found a problem."])
    return {"ok": not wrong, "checks": checks}, text
