"""What is done with a case, by its kind, and compared with its right result. README.md lists the kinds, with
those of add-ons."""

from tests.cases.kinds.clients import client_response, twilio_addresses
from tests.cases.kinds.deployment import command_environment
from tests.cases.kinds.files import contacts
from tests.cases.kinds.numbers import callers, missing_country_codes, spellings, typed_amounts
from tests.cases.kinds.requests import allowed_hosts, connection, forwarded_address, request_id
from tests.cases.kinds.servers import read_only_database, redis_failover, redis_health
from tests.cases.kinds.vendors import caller_names, compression, coverage, retry_after

__all__ = [
    "allowed_hosts",
    "caller_names",
    "callers",
    "client_response",
    "command_environment",
    "compression",
    "connection",
    "contacts",
    "coverage",
    "forwarded_address",
    "missing_country_codes",
    "read_only_database",
    "redis_failover",
    "redis_health",
    "request_id",
    "retry_after",
    "spellings",
    "twilio_addresses",
    "typed_amounts",
]
