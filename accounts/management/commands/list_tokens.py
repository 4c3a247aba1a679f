from typing import Any

from accounts.management.commands._output import as_json
from accounts.models import ApiToken
from core.commands import JSONCommand


class Command(JSONCommand):
    help = "List all API tokens with their balance (or `test`) and state (active, in grace, revoked, expired)."

    def handle(self, *args: Any, **options: Any) -> None:
        tokens = [as_json(token) for token in ApiToken.objects.order_by("pk").iterator()]
        lines = [f"{'ID':>6}  {'CREDITS':>10}  {'STATE':<8}  {'EXPIRES':<20}  {'TOKEN':<13}  NAME"]
        for token in tokens:
            balance = "test" if token["test"] else token["credits"]
            lines.append(
                f"{token['id']:>6}  {balance:>10}  {token['state']:<8}  {token['expires_at']:<20}  "
                f"{token['hint']:<13}  {token['name']}"
            )
        self.write_result(options, tokens, "\n".join(lines))
