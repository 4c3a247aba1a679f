#!/bin/sh
# Prepares this host: the user callerid, the dependencies, /etc/callerid/callerid.env with new keys, the command
# `callerid`, and the units. Run it as root in /opt/callerid, again after each upgrade. It changes no existing
# environment file, and enables and starts nothing.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
[ "$(id -u)" = 0 ] || { echo "install.sh: run it as root." >&2; exit 1; }
[ "$root" = /opt/callerid ] || { echo "install.sh: the units expect the service in /opt/callerid, not $root." >&2; exit 1; }
umask 022

id callerid >/dev/null 2>&1 ||
    useradd --system --user-group --home-dir /nonexistent --shell /usr/sbin/nologin callerid

# Compiled now, because the service may not write here: every start would compile thousands of modules.
scratch=$(mktemp -d)
CALLERID_DATA_DIR=$scratch CALLERID_ENV_FILE=$scratch/none "$root/run" manage version >/dev/null
rm -r "$scratch"
runuser -u callerid -- "$root/.venv/bin/python" -c '' || {
    echo "install.sh: the user callerid cannot run this Python. Run: PYTHON=/usr/bin/python3 $0" >&2
    exit 1
}
"$root/.venv/bin/python" -m compileall -q -j 0 "$root/accounts" "$root/callerid_project" "$root/core" "$root/lookup" \
    "$root/.venv/lib"

install -d -m 0755 /etc/callerid
install -d -m 0700 -o callerid -g callerid /var/lib/callerid
env_file=/etc/callerid/callerid.env
if [ ! -e "$env_file" ]; then
    new=$(mktemp /etc/callerid/.callerid.env.XXXXXX)
    while IFS= read -r line; do
        case $line in
        SECRET_KEY= | JWT_SIGNING_KEY= | NUMBER_HASH_KEY=)
            line=$line$("$root/.venv/bin/python" -c 'import secrets; print(secrets.token_urlsafe(48))') ;;
        esac
        printf '%s\n' "$line"
    done <"$root/deploy/systemd/callerid.env.example" >"$new"
    chown root:callerid "$new"
    chmod 0640 "$new"
    mv "$new" "$env_file"
    echo "Created $env_file with new keys: set DATABASE_URL, REDIS_URL and ALLOWED_HOSTS there, and back it up."
fi

install -m 0755 "$root/deploy/systemd/callerid" /usr/local/bin/callerid
install -m 0644 "$root"/deploy/systemd/*.service "$root"/deploy/systemd/*.timer /etc/systemd/system/
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
