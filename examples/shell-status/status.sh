#!/usr/bin/env bash
# The machine's load and uptime, from a plugin in bash and jq. The protocol is in rpc.sh.
set -uo pipefail

readonly NAME=shell-status VERSION=0.1.0
declare -A METHODS=([status.get]=get_status [status.keep]=keep_status)
NOTIFICATIONS=(status.kept)
CAPABILITIES=(kaged:storage:write)

# shellcheck source=rpc.sh
source "${BASH_SOURCE[0]%/*}/rpc.sh"

on_config() {
    jq -e '.busy_above // 1 | type == "number" and . > 0' <<<"$CONFIG" >/dev/null ||
        fault -32004 'busy_above must be a number above 0'
}

get_status() {
    local uptime one five fifteen
    read -r uptime _ </proc/uptime
    read -r one five fifteen _ </proc/loadavg
    RESULT=$(jq -cn --argjson up "$uptime" --argjson one "$one" --argjson five "$five" --argjson fifteen "$fifteen" \
        --argjson cores "$(processors)" --argjson config "$CONFIG" --argjson context "$CONTEXT" '{
            status: (if $one > $cores * ($config.busy_above // 1) then "busy" else "ok" end),
            uptime_seconds: $up,
            load: [$one, $five, $fifteen],
            request_id: ($context.request_id | if type == "string" then .[:256] else null end)
        }')
}

keep_status() {
    local load
    read -r load _ </proc/loadavg
    execute 'CREATE TABLE IF NOT EXISTS loads (load REAL)' '[]' || return
    execute 'INSERT INTO loads (load) VALUES (?)' "[$load]" || return
    query 'SELECT count(*) AS kept, max(load) AS highest FROM loads' '[]' || return
    RESULT=$(jq -c '.[0]' <<<"$ANSWER")
    notify status.kept "$RESULT"
}

processors() { # how many, without another program
    local line count=0
    while read -r line; do
        [[ $line == processor* ]] && count=$((count + 1))
    done </proc/cpuinfo
    echo "$((count > 0 ? count : 1))"
}

serve
