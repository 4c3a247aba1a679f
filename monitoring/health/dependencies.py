"""Checks of what searches depend on: configuration, database, Redis, clocks, proxies, sources and their data."""

import resource
from collections.abc import Iterator

from django.conf import settings
from django.core import checks as system_checks
from django.utils import timezone

from core import periods, schema_state
from core.commands import command_line
from core.postgresql import replication, server_log
from core.text import sentence
from lookup.models import SourcePause
from lookup.source_actions import configured, described
from monitoring import clocks, source_report
from monitoring.health import forwarding, redis_check
from monitoring.health.registry import CHECKS, STAYS_OPEN, Condition, Effect, Findings, NotUsed, Request, check, problem
from monitoring.source_report import FAILING_PERCENT, State
from monitoring.source_statistics import BOUNDS_MS, advice
from phonebook.imports import data_sets
from phonebook.imports.numbering_plan import NUMBERING_PLAN, installed_version

#: An alert about a duration stays open until it has fallen to this share of what opens it.
STAYS_SLOW = 0.8
#: Of open files and connections. Each client takes one.
MIN_DESCRIPTORS = 4_096
#: Of the alerts about a source.
SOURCE_KINDS = {"source.failing": "sources are failing", "source.slow": "sources are slow"}


@check("Configuration")
def _configuration(request: Request) -> Findings:
    """Django's system checks, in production those of `check --deploy` too. Warnings are shown and fail nothing."""
    found = system_checks.run_checks(include_deployment_checks=not settings.EMBEDDED)
    shown = [each for each in found if each.level >= system_checks.WARNING and not each.is_silenced()]
    for each in shown:
        if each.is_serious():
            yield problem(each.msg, each.hint or "")
    if not any(each.is_serious() for each in shown):
        yield " ".join(["No errors.", *(f"Warning: {each.msg} {each.hint or ''}".strip() for each in shown)])


@check("Key files")
def _key_files(request: Request) -> Findings:
    directory = settings.DATA_DIR
    files = [directory / "keys.json", *directory.glob("callerid.sqlite3*")]
    exposed = [file for file in files if file.exists() and file.stat().st_mode & 0o077]
    if exposed:
        names = " ".join(map(str, exposed))
        yield problem("Other users of this machine may use them", f"Run chmod 600 {names}")
    elif settings.EMBEDDED:
        yield f"Only their owner may read those in {directory}."
    else:
        yield "The keys come from the environment."


@check("Open files", on_dashboard=True)
def _open_files(request: Request) -> Findings:
    """The server takes the hard limit as its own (serve.py). A command knows only its own."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    where = "This server" if settings.SERVING else "A server that is started as this command was"
    text = f"{where} may have {limit:,} open files and connections"
    if limit == resource.RLIM_INFINITY:
        yield f"{where} has no limit of open files and connections."
    elif limit < MIN_DESCRIPTORS:
        yield problem(f"{text}, and each client takes one", "Raise its hard limit (docs/processes.md).")
    else:
        yield f"{text}."


@check("Proxy", on_dashboard=True)
def _proxy(request: Request) -> Findings:
    trusted = settings.TRUSTED_PROXIES
    forwarded = request.META.get("HTTP_X_FORWARDED_FOR", "") if request else ""
    hops = len([hop for hop in forwarded.split(",") if hop.strip()])
    if trusted == 0 and forwarding.monitor.untrusted:
        yield problem(
            "X-Forwarded-For was received, but TRUSTED_PROXIES is 0. Set it to the number of proxies; until then all "
            "clients share the proxy's rate limits. If there is no proxy, a client sent the header and it was ignored."
        )
    elif trusted == 0 and not settings.EMBEDDED:
        yield problem("TRUSTED_PROXIES is 0: set it to the number of proxies in front.")
    elif request and trusted > hops:
        yield problem(
            f"TRUSTED_PROXIES is {trusted}, but X-Forwarded-For of this request has {hops} entries. Correct the number "
            "or the proxy: clients could forge their address. Ignore this if you opened the console without the proxy."
        )
    elif forwarding.monitor.is_unreadable():
        yield forwarding.UNREADABLE
    elif "*" in settings.ALLOWED_HOSTS:
        yield problem("ALLOWED_HOSTS accepts every Host header: list the names of the service.")
    else:
        yield f"TRUSTED_PROXIES is {trusted}; ALLOWED_HOSTS is {','.join(settings.ALLOWED_HOSTS)}."


CHECKS.append(redis_check.CHECK)


@check("Database", on_dashboard=True)
def database(request: Request) -> Findings:
    found = schema_state.problem()
    yield problem(found, schema_state.advice(found)) if found else "Reachable; schema up to date."


@check("Commits", on_dashboard=True, on_sqlite=False)
def _commits(request: Request) -> Findings:
    advice = "Start the standby, or correct synchronous_standby_names or DATABASE_URL (docs/reliability.md)."
    found = replication.commit_problem()
    yield problem(found, advice) if found else "They complete."


@check("PostgreSQL log", on_dashboard=True, on_sqlite=False)
def _server_log(request: Request) -> Findings:
    names = server_log.writes_values()
    advice = "As a superuser, run the statements in docs/personal-data.md under 'PostgreSQL's log'."
    text = f"PostgreSQL may log phone numbers and names in clear text: {', '.join(names)}."
    yield problem(text, advice) if names else "Statements are not logged."


@check("Clocks")
def _clocks(request: Request) -> Findings:
    """How far the database's clock is from this host's."""
    ahead_s = clocks.database_ahead_s()
    if ahead_s is None:
        yield "No other clock is used."
    elif abs(ahead_s) > clocks.MAX_DIFFERENCE_S:
        yield problem(f"PostgreSQL's clock differs from that of this host by {ahead_s:+.1f} s.", clocks.ADVICE)
    else:
        yield f"PostgreSQL differs from this host by {ahead_s:+.2f} s."


# --- Sources and their data -------------------------------------------------------------------------------------------


@check("Numbering plan", {"data.stale": "data sets are out of date"}, on_dashboard=True)
def _numbering_plan(request: Request) -> Findings:
    if "geography" not in configured():
        yield NotUsed("No source needs it.")
        return
    loaded, installed = data_sets.loaded_version(NUMBERING_PLAN), installed_version()
    if loaded == installed:
        yield f"Version {loaded} is loaded."
        return
    yield Condition(
        kind="data.stale",
        subject="numbering_plan",
        title="Numbering plan is not current" if loaded else "No numbering plan is loaded",
        summary=f"Version {installed} is installed{f', {loaded} is loaded' if loaded else ''}.",
        hint=f"Run {command_line('load_numbering_plan')}.",
    )


@check("Sources", SOURCE_KINDS, is_delayed=True, on_dashboard=True)
def _sources(request: Request) -> Findings:
    states = source_report.states(now := timezone.now())
    for name, state in states.items():
        if state.pause:
            yield from ended_by(state.pause)
            if request is None:  # the console's pages show it with a link
                yield f"{name}: paused {described(state.pause, now)}."
        else:
            # A source that is failing is reported once, with its last failure.
            if state.check and (failure := state.check_failure) and not state.is_failing:
                yield problem(f"The check of {name} failed {failure}", advice(state.check.result["outcome"], name))
            elif state.name == "resumed":
                yield f"{name}: not called since it was resumed."
            yield from _failing(name, state)
            yield from _slow(name, state)
    for slot in source_report.paused_slots(states):
        yield problem(f"All sources of {slot} are paused: resume one")
    if all(state.name == "healthy" for state in states.values()):
        yield "All configured sources are in use."


def ended_by(pause: SourcePause) -> Iterator[Condition]:
    """A paused source is neither failing nor slow."""
    for kind in SOURCE_KINDS:
        text = f"{pause.connector}: paused {described(pause)}."
        because = "the source is paused"
        yield Condition(kind, pause.connector, title="", summary=text, effect=Effect.ENDED, ended_because=because)


def _failing(name: str, state: State) -> Findings:
    last, usage = state.last_failure, state.usage
    near_limit = state.has_just_failed and state.failed_percent >= FAILING_PERCENT * STAYS_OPEN
    if last and (state.is_unanswered or near_limit):
        failed = usage.failed_unpaused
        count = f"{failed:,} of {usage.unpaused:,} lookups failed. " if failed else ""
        yield Condition(
            kind="source.failing",
            subject=name,
            title=f"Source failing: {name}",
            summary=f"{count}Last failure: {last.reason}, at {periods.shown(last.at)}. {sentence(last.hint)}".strip(),
            hint=advice(last.reason, name),
            effect=Effect.ALERT if state.is_failing else Effect.PASSING,
        )


def _slow(name: str, state: State) -> Findings:
    calls, p95_ms = state.usage.calls, state.usage.p95_ms
    if calls >= settings.ALERT_MIN_COUNT and p95_ms and p95_ms > settings.ALERT_SLOW_MS * STAYS_SLOW:
        duration = f"{p95_ms:,.0f}" if p95_ms < BOUNDS_MS[-1] else f"more than {BOUNDS_MS[-1]:,}"
        yield Condition(
            kind="source.slow",
            subject=name,
            title=f"Source slow: {name}",
            summary=f"The slowest 5 % of {calls:,} calls took {duration} ms or more. "
            f"A search waits at most {settings.SEARCH_DEADLINE_S * 1000:,.0f} ms.",
            hint=f"{advice('late', name)} If it stays slow, pause it.",
            effect=Effect.ALERT if p95_ms > settings.ALERT_SLOW_MS else Effect.PASSING,
        )
