"""The service's settings, but that Redis is tried again soon after it failed."""

from callerid_project.settings import *  # noqa: F403

REDIS_RETRY_S = 0.2
