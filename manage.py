#!/usr/bin/env python
"""Django's command line, which reports configuration and database errors in one sentence."""

import json
import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "callerid_project.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import DatabaseError

    try:
        # Loads the settings first: Django would show a traceback or "Unknown command" instead of the sentence.
        settings.INSTALLED_APPS  # noqa: B018
        execute_from_command_line(sys.argv)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it, such as `head`, has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's own flush at exit
        sys.exit(1)
    except ImproperlyConfigured as error:
        if sys.argv[1:2] == ["doctor"]:
            from monitoring.management.commands.doctor import report

            result, text = report([("Configuration", False, str(error))])
            sys.stdout.write((json.dumps(result, ensure_ascii=False) if "--json" in sys.argv else text) + "\n")
            sys.exit(1)
        sys.exit(f"Configuration error: {error}")
    except DatabaseError as error:
        if "--traceback" in sys.argv:
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        where = f" in {settings.DATA_DIR} (CALLERID_DATA_DIR)" if settings.EMBEDDED else ""
        from core.schema_state import explanation

        sys.exit(f"Cannot use the database{where}: {reason.rstrip('.')}. {explanation()}".rstrip())


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
