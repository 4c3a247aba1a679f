#!/bin/sh
# Says what is wrong with the service's address, the token or its credits, without a call: a search that costs a credit.
#   CALLERID_URL=https://callerid.example.org CALLERID_TOKEN=... integrations/check.sh
#   integrations/check.sh /etc/default/kamailio.d/callerid      with the settings in a file
# Needs curl 7.75. docs/telephone-systems.md lists what it says.
set -u

setting() {
    if [ "$file" ]; then
        sed -n "s/^$1=//p" "$file" | tail -n 1 | tr -d '"'
    else
        printenv "$1"
    fi
}
finish() {
    echo "$2"
    exit "$1"
}

file=${1:-}
[ -z "$file" ] || [ -r "$file" ] || finish 1 "cannot read $file"
url=$(setting CALLERID_URL)
token=$(setting CALLERID_TOKEN)
cacert=$(setting CALLERID_CACERT)
[ "$token" ] || finish 1 "CALLERID_TOKEN is not set"
url=${url:-http://127.0.0.1:8000}
case $url in
http://[!/]* | https://[!/]*) ;;
*) finish 1 "CALLERID_URL is not an address such as https://callerid.example.org" ;;
esac

# On standard input: arguments are visible to every user of the machine.
answer=$(printf '{"api_key":"%s","query":"12025550143"}' "$token" |
    curl --silent --max-time 1 ${cacert:+--cacert "$cacert"} --header 'Content-Type: application/json' \
        --data-binary @- --write-out '\n%{http_code} %{errormsg}' "${url%/}/callerid/search")
failure=$?
last=$(printf '%s\n' "$answer" | tail -n 1)
[ $failure != 28 ] || finish 1 "status 28: no answer in time"
[ $failure = 0 ] || finish 1 "status $failure: ${last#* }"
[ "${last%% *}" = 200 ] || finish 1 "status ${last%% *}"
credits=$(printf '%s' "$answer" | sed -n 's/.*"credits_remaining": *\([0-9][0-9]*\).*/\1/p')
[ "$credits" ] || finish 1 "not an answer of the service"
finish 0 "OK, $credits credits left"
