"""Vendors (providers): remote APIs, and all that leaves the process.

event_loop       the event loop on which a process calls vendors, and threads for what would block it
guard            around every remote connector: single flight, concurrency limit, circuit breaker, caching
cache            cached answers, in Redis or in this process
circuit_breaker  stops calls to a vendor that fails
transport        one HTTP exchange: connections, limits on a reply, TLS
addresses        which IP addresses a vendor's host may have (SSRF)
json_api         the connector of every preset: request, classification of the reply, fields
capitals         text that a vendor sends in capitals
preset           the format of presets/*.toml
expressions      JMESPath expressions and templates in presets
preset_samples   checks a preset against its own samples
"""
