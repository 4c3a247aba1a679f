"""How this copy of the program is installed: how its commands are called, and whether SQLite may be its database."""

from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

#: In the program's folder: how commands of the production service are called. install.sh and the Dockerfile write it.
INSTALLED = ".installed"
#: Of a service that is installed for the whole host.
ENV_FILE = "/etc/callerid/callerid.env"


def manage_command(root: Path) -> str:
    """What comes before the name of a management command: `callerid`, `/srv/callerid/bin/callerid`, `./run manage`."""
    return _installed(root) or "./run manage"


def refuse_sqlite_of_production(root: Path, env_file: str) -> None:
    """Raises ImproperlyConfigured where a production service is installed, in the folder `root` or on this host, whose
    DATABASE_URL is missing: a command would silently work on a new SQLite database. `env_file`: CALLERID_ENV_FILE, the
    service's environment; a path that does not exist allows SQLite."""
    if not env_file and (command := _installed(root)):
        found = f"{root} is a production service"
    elif _exists(Path(env_file or ENV_FILE)):
        found, command = f"{env_file or ENV_FILE} exists", _installed(root) or "callerid"
    else:
        return
    raise ImproperlyConfigured(
        f"{found} but DATABASE_URL is not set. Run its commands as `{command} COMMAND`, with its environment. For an "
        "SQLite database on the same host, set CALLERID_ENV_FILE to a path that does not exist."
    )


def _installed(root: Path) -> str:
    try:
        return (root / INSTALLED).read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return ""


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        pass  # it exists, and this user may not see it
    return True
