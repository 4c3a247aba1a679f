#!/usr/bin/env bash
# Prints who is calling. Needs Linux, bash 5, curl 7.83 and jq. docs/clients.md lists the exit codes.
#   CALLERID_URL=http://127.0.0.1:8000 CALLERID_TOKEN=... ./callerid.sh 493023125555
set -uo pipefail

readonly ATTEMPTS=3 ATTEMPT_MS=2000 TOTAL_MS=4000 PAUSE_MS=200

finish() {
    echo "$2" >&2
    exit "$1"
}
now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
seconds() { printf '%d.%03d' $(($1 / 1000)) $(($1 % 1000)); }
describe() {
    jq -er '.data | objects | "Name:  \(.source_a.name // .source_b.name // "unknown")",
        "Place: \(.source_a.location // "unknown")",
        "Spam:  \(if .source_b | has("spam") then if .source_b.spam then "yes" else "no" end else "unknown" end)"' \
        2>/dev/null
}

[[ $# == 1 && -n ${CALLERID_URL:-} && -n ${CALLERID_TOKEN:-} ]] ||
    finish 2 "Usage: CALLERID_URL=... CALLERID_TOKEN=... $0 NUMBER"

# On standard input: arguments are visible to every user of the machine.
request=$(jq -cn --arg query "$1" '{api_key: env.CALLERID_TOKEN, query: $query}')
# The same key with each attempt: none is charged twice.
key=$(</proc/sys/kernel/random/uuid)
deadline=$(($(now_ms) + TOTAL_MS))

for ((attempt = 1; attempt <= ATTEMPTS; attempt++)); do
    left=$((deadline - $(now_ms)))
    ((left > 0)) || break # 0 would be no limit
    if response=$(curl --silent --max-time "$(seconds $((left < ATTEMPT_MS ? left : ATTEMPT_MS)))" \
        --header 'Content-Type: application/json' --header "Idempotency-Key: $key" --data-binary @- \
        --write-out '\n%{http_code} %header{retry-after}' "${CALLERID_URL%/}/callerid/search" <<<"$request"); then
        read -r status retry_after <<<"${response##*$'\n'}"
        body=${response%$'\n'*}
        failure="$status $(jq -r .detail <<<"$body" 2>/dev/null)"
        [[ $retry_after =~ ^[0-9]{1,9}$ ]] || retry_after=1
        retry_ms=$((10#$retry_after * 1000))
        case $status in
        200)
            describe <<<"$body" && exit 0
            code=8 wait_ms=$PAUSE_MS failure="No response" # not JSON
            ;;
        401) finish 3 "$failure" ;;
        403) finish 4 "$failure" ;;
        429) code=5 wait_ms=$retry_ms ;;
        503) code=7 wait_ms=$retry_ms ;;
        5??) code=6 wait_ms=$PAUSE_MS ;;
        *) finish 1 "$failure" ;;
        esac
    else
        code=8 wait_ms=$PAUSE_MS failure="No response"
    fi
    (($(now_ms) + wait_ms < deadline && attempt < ATTEMPTS)) || break
    sleep "$(seconds "$wait_ms")"
done
finish "$code" "$failure"
