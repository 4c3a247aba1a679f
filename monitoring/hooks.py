"""Where add-ons register what the console's pages of monitoring show."""

from core.hooks import Hook

#: Dotted paths of functions of a time and outcomes (accounts.request_statistics.OUTCOMES) that return, for each minute
#: since then and each of these outcomes, how many requests had it: tuples of the minute, the outcome and the count; or
#: None if they do not know. They raise OperationalError if the query times out.
OUTCOMES_BY_MINUTE = Hook[str]()
