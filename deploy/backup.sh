#!/bin/sh
# Dumps the database into a directory, verifies the dump, and deletes older ones: backup.sh DIRECTORY [DAYS]
#
# PGDATABASE, PGHOST, PGUSER and ~/.pgpass say which database, as for psql. A file appears under its name only when it is
# whole. Dumps older than DAYS (14) are deleted after a new one has succeeded. docs/backup.md: how to restore, and how to
# go back to a point in time.
set -eu
umask 077

if [ $# -lt 1 ] || [ -z "${PGDATABASE:-}" ]; then
    sed -n '2,6s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
directory=$1
days=${2:-14}
case $days in '' | *[!0-9]*) echo "backup.sh: DAYS is a whole number." >&2; exit 2 ;; esac
mkdir -p "$directory"
# `find` fails where it may not return to, such as root's directory for the user postgres.
cd -- "$directory"
directory=$PWD

name=callerid-$(date -u +%Y%m%dT%H%M%SZ).dump
partial=$directory/.$name.partial
trap 'rm -f "$partial"' EXIT
pg_dump --format=custom --no-password --lock-wait-timeout=10s --file="$partial"
# Reads the whole archive: a truncated one fails here, and not when it is needed.
pg_restore --file=/dev/null "$partial"
sync "$partial"
mv "$partial" "$directory/$name"
find "$directory" -maxdepth 1 -name 'callerid-*.dump' -mtime "+$days" -delete
echo "$directory/$name"
