"""Vendors (providers): remote APIs, and all that leaves the process.

guard            around every remote connector: single flight, concurrency limit, circuit breaker, caching
cache            cached answers, in Redis or in this process
transport        one HTTP exchange: connections, limits on a reply, TLS
json_api         the connector of every preset: request, classification of the reply, fields
authentication   how a preset authenticates its requests
oauth2           access tokens by client credentials
capitals         text that a vendor sends in capitals
placeholders     texts that stand in place of a name
signatures       signatures of requests by HMAC
bodies           the body of a reply: its encoding, JSON, XML or text
xml              XML as the objects that expressions read
preset           the format of presets/*.toml
expressions      JMESPath expressions and templates in presets
proxy_bodies     what proxies and frameworks send, which no rule of a preset may take for an answer
"""

from core.hooks import Hook

#: Dotted paths of functions of a preset that read its samples, without a call: the title of each, and what is wrong
#: with it or an empty text.
SAMPLES = Hook[str]()
