#!/usr/bin/env python
"""Django's command line, with configuration mistakes told in one sentence."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "callerid_project.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    try:
        # Read first: Django would bury the sentence under a traceback or "Unknown command".
        settings.INSTALLED_APPS  # noqa: B018
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Configuration error: {error}")
    except DatabaseError as error:
        if "--traceback" in sys.argv:
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        where = f" in {settings.DATA_DIR} (CALLERID_DATA_DIR)" if settings.EMBEDDED else ""
        sys.exit(f"The database{where} cannot be used: {reason}. Has `./run manage migrate` prepared it?")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
