"""The check of Redis runs the commands of the service, on keys of its own, and says what to do about an error."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import cast

from django.conf import settings

from core import redis
from core.text import sentence
from lookup.rate_limit import count_on_redis
from monitoring.health.registry import Check, Condition, Findings, NotUsed, Request, problem

_NAME = "health-check"
_KEY = f"callerid:{_NAME}"

_PRIMARY = "REDIS_URL points to a replica: use the name of the primary. After a failover, wait until it points there."
_PASSWORD = "Correct user and password in REDIS_URL."  # noqa: S105
_CLUSTER = (
    "REDIS_URL points to a Redis Cluster, where limits would not be shared: use one primary, with or without replicas "
    "(a managed Redis with cluster mode disabled), or Sentinel (docs/reliability.md)."
)
_OTHER = (
    "REDIS_URL must point to Redis 6 or newer, or Valkey, with Lua scripts, and not to a Sentinel; its user needs what "
    "docs/reliability.md lists."
)
#: What to do, by the code of Redis's reply.
_HINTS = {
    "READONLY": _PRIMARY,
    "MASTERDOWN": _PRIMARY,
    "NOREPLICAS": "Start its replicas, or lower min-replicas-to-write.",
    "MISCONF": 'It cannot save its data: free its disk, or switch saving off (save "").',
    "OOM": "Its memory is full: raise maxmemory, and set maxmemory-policy to volatile-lru (docs/reliability.md).",
    "LOADING": "Wait until it has loaded its data.",
    "NOPERM": "Give its user the commands and keys that docs/reliability.md lists.",
    "NOAUTH": _PASSWORD,
    "WRONGPASS": _PASSWORD,
    **dict.fromkeys(("ASK", "CLUSTERDOWN", "CROSSSLOT", "MOVED", "TRYAGAIN"), _CLUSTER),
}


#: The first is the script of the rate limit. The second time, with a window of nothing, it finds that request expired
#: and deletes the key: so each of its commands is run. The last runs the commands of attempts and of cached answers.
_USES: tuple[Callable[[redis.Client], Awaitable[object]], ...] = (
    partial(count_on_redis, _NAME, 1, 60),
    partial(count_on_redis, _NAME, 1, 0),
    lambda client: client.execute_all([("SET", _KEY, 1, "EX", 1), ("INCRBY", _KEY, 1), ("GET", _KEY), ("MGET", _KEY)]),
)


def find_eviction_problem() -> str | None:
    """Run what the service runs. Returns why Redis may evict limits, or refuse to store them, when cached answers have
    filled its memory, and what to do; None if it does neither, or does not say (INFO is refused). Raises
    RedisUnavailable."""
    for use in _USES:
        redis.call(use)
    found = redis.call(_memory)
    policy = found.get("maxmemory_policy", "")
    if policy.startswith("allkeys-"):
        consequence = "Redis may evict rate limits, which then start anew"
    elif policy == "noeviction" and found.get("maxmemory", "0") != "0":
        consequence = (
            "when cached answers have filled the memory, limits cannot be stored, and each process counts alone"
        )
    else:
        return None
    return f"maxmemory-policy is {policy}: {consequence}. Set it to volatile-lru (docs/reliability.md)."


async def _memory(client: redis.Client) -> dict[str, str]:
    from redis.exceptions import ResponseError

    try:
        reply: bytes = await client.execute("INFO", "memory")
    except ResponseError:
        return {}
    lines = (line.partition(":") for line in reply.decode().splitlines())
    return {name: value for name, _, value in lines}


def explain(unavailable: redis.RedisUnavailable) -> tuple[str, str]:
    """The error as a sentence, and what to do about it."""
    from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError

    error = cast(BaseException, unavailable.__cause__)
    code = redis.error_code(error)
    # Without what may quote a cached answer, and without the position in the script.
    text = str(error).removeprefix(code).partition(", with args")[0].partition(" script: ")[0].strip()
    if isinstance(error, AuthenticationError):
        hint = _PASSWORD
    elif "cluster mode" in text or "cluster node" in text:
        hint = _CLUSTER
    elif isinstance(error, ResponseError | BusyLoadingError):
        hint = _HINTS.get(code, _OTHER)
    else:
        hint = "Start it, or correct REDIS_URL."
    return sentence(f"{code}: {text}" if text else code), hint


def _findings(request: Request) -> Findings:
    if not settings.REDIS_URL:
        yield NotUsed("Not configured (not needed for one process).")
        return
    try:
        found = find_eviction_problem()
    except redis.RedisUnavailable as unavailable:
        reply, hint = explain(unavailable)
        yield Condition(
            kind="redis.unavailable",
            subject="",
            title="Redis is unavailable",
            summary=f"{reply} Each process counts rate limits on its own.",
            hint=hint,
        )
    else:
        yield problem(found) if found else "Reachable; limits and cached answers are stored."


CHECK = Check("Redis", _findings, {"redis.unavailable": "Redis is unavailable"}, is_delayed=True, on_dashboard=True)


def reason_to_refuse_start() -> str | None:
    """None also while Redis is unavailable for a reason that may end: searches do without it."""
    if settings.REDIS_URL:
        try:
            find_eviction_problem()
        except redis.RedisUnavailable as unavailable:
            reply, hint = explain(unavailable)
            return f"{hint} {reply}" if hint == _CLUSTER else None
    return None
