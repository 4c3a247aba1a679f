#!/bin/sh
# Prepares this host: the user callerid, the dependencies, /etc/callerid/callerid.env with new keys, the command
# `callerid`, and with systemd the units. Run it as root, in the directory where the service is to stay (/opt/callerid),
# again after each upgrade. It changes no existing environment file.
#
# install.sh --start [COUNT] also enables and starts COUNT instances (2), on the ports 8001, 8002 and so on, one for the console
# on 8000, and callerid.target, which starts them at boot. Without it, nothing is enabled or started.
#
# install.sh PREFIX puts everything below that directory instead: PREFIX/etc/callerid.env, PREFIX/bin/callerid and
# PREFIX/var. It needs no root, makes no user and installs no units: run it as the user that will run the service.
set -eu

die() {
    echo "install.sh: $*" >&2
    exit 1
}

root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd -P)
start=0
if [ "${1-}" = --start ]; then
    start=${2:-2}
    case $start in [1-9] | [1-9][0-9]) ;; *) die "COUNT must be a number from 1 to 99, such as --start 2" ;; esac
    [ -d /run/systemd/system ] || die "--start needs systemd: docs/production.md says how to start instances without it."
    shift $#
fi
prefix=${1-}
case $prefix in
'')
    [ "$(id -u)" = 0 ] || die "run it as root, or with a directory of yours: install.sh PREFIX"
    case $root in /home/* | /root/*) die "the units cannot read $root: clone the service to /opt/callerid." ;; esac
    bin=/usr/local/bin etc=/etc/callerid data=/var/lib/callerid user=callerid command=callerid
    id "$user" >/dev/null 2>&1 ||
        useradd --system --user-group --home-dir /nonexistent --shell /usr/sbin/nologin "$user"
    ;;
/*) bin=$prefix/bin etc=$prefix/etc data=$prefix/var user='' command=$bin/callerid ;;
*) die "PREFIX must be an absolute path, such as /srv/callerid." ;;
esac
case $root$prefix in *[!A-Za-z0-9/._-]*) die "$root and PREFIX may contain letters, digits and /._- only." ;; esac
umask 022

# The paths of this host in place of those of the files.
located() {
    sed -e "s|/opt/callerid|$root|g" -e "s|/etc/callerid/|$etc/|g" -e "s|/var/lib/callerid|$data|g" \
        -e "s|^user=callerid\$|user=$user|" "$1"
}

# Installs the dependencies.
scratch=$(mktemp -d)
CALLERID_DATA_DIR=$scratch CALLERID_ENV_FILE=$scratch/none "$root/run" manage version >/dev/null
rm -r "$scratch"
if [ -n "$user" ]; then
    setpriv --reuid="$user" --regid="$user" --init-groups "$root/.venv/bin/python" -c '' ||
        die "the user $user cannot run this Python. Run: PYTHON=/usr/bin/python3 $0"
    # Compiled now, because the service may not write here: every start would compile thousands of modules.
    (cd "$root" && printf '%s\n' ./*/__init__.py | xargs dirname | xargs .venv/bin/python -m compileall -q -j 0 .venv/lib)
fi

mkdir -p "$bin" "$etc" "$data"
chmod 0700 "$data"
env_file=$etc/callerid.env
if [ ! -e "$env_file" ]; then
    new=$(mktemp "$etc/.callerid.env.XXXXXX")
    located "$root/deploy/systemd/callerid.env.example" | while IFS= read -r line; do
        case $line in
        SECRET_KEY= | JWT_SIGNING_KEY= | NUMBER_HASH_KEY=)
            line=$line$("$root/.venv/bin/python" -c 'import secrets; print(secrets.token_urlsafe(48))') ;;
        esac
        printf '%s\n' "$line"
    done >"$new"
    if [ -n "$user" ]; then
        chown "root:$user" "$new"
        chmod 0640 "$new"
    fi
    mv "$new" "$env_file"
    echo "Created $env_file with new keys: set DATABASE_URL, REDIS_URL and ALLOWED_HOSTS there, and back it up."
fi
[ -z "$user" ] || chown "$user:$user" "$data"
[ -e "$etc/console.env" ] || cp "$root/deploy/systemd/console.env.example" "$etc/console.env"

located "$root/deploy/systemd/callerid" >"$bin/.callerid.new"
chmod 0755 "$bin/.callerid.new"
mv "$bin/.callerid.new" "$bin/callerid"
# For hints that name a command, and so that ./run here, without the environment, never means an SQLite database.
printf '%s\n' "$command" >"$root/.installed"
if [ -n "$user" ] && [ -d /etc/systemd/system ]; then
    for unit in "$root"/deploy/systemd/*.service "$root"/deploy/systemd/*.target "$root"/deploy/systemd/*.timer; do
        located "$unit" >"/etc/systemd/system/${unit##*/}"
    done
    mkdir -p /etc/systemd/system/callerid@8000.service.d
    located "$root/deploy/systemd/callerid@8000.service.d/console.conf" >/etc/systemd/system/callerid@8000.service.d/console.conf
    if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
fi
if [ "$start" -gt 0 ]; then
    set -- callerid.target
    port=8000
    while [ "$port" -le $((8000 + start)) ]; do
        set -- "$@" "callerid@$port.service"
        port=$((port + 1))
    done
    systemctl enable --now "$@"
fi
