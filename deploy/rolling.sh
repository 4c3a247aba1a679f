#!/bin/sh
# Restarts instances one after another, each only when the previous one is ready again; stops at the first failure.
#
#     deploy/rolling.sh callerid.example.com 10.0.0.11:8001 10.0.0.11:8002 10.0.0.11:8000 '[fd00::12]:8001'
#
# The first argument is a name of ALLOWED_HOSTS, for the Host header of /readyz. RESTART is the command, `restart ADDRESS
# PORT` by default: directly for an address of this host, otherwise over ssh. READY_TIMEOUT_S (60): how long an instance
# may take to be ready.
set -eu

here=" 127.0.0.1 localhost ::1 $(hostname -I 2>/dev/null || :) "
restart() {
    address=$(echo "$1" | tr -d '[]')
    case $here in
    *" $address "*) systemctl restart "callerid@$2" ;;
    *) ssh -o BatchMode=yes "$address" systemctl restart "callerid@$2" ;;
    esac
}

ready() {
    curl --silent --show-error --fail --output /dev/null --max-time 5 --header "Host: $host" "http://$1/readyz"
}

[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
host=$1
shift

# While another instance is not ready, a restart could leave none.
for instance; do
    ready "$instance" || { echo "rolling.sh: $instance is not ready; nothing was restarted." >&2; exit 1; }
done

for instance; do
    echo "restarting $instance"
    "${RESTART:-restart}" "${instance%:*}" "${instance##*:}" ||
        { echo "rolling.sh: $instance did not restart; the rest still runs the old version." >&2; exit 1; }
    deadline=$(($(date +%s) + ${READY_TIMEOUT_S:-60}))
    until ready "$instance" 2>/dev/null; do
        if [ "$(date +%s)" -ge "$deadline" ]; then
            echo "rolling.sh: $instance is not ready after ${READY_TIMEOUT_S:-60} s; the rest still runs the old version." >&2
            exit 1
        fi
        sleep 0.2
    done
    echo "$instance is ready"
done
