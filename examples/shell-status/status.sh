#!/usr/bin/env bash
# A plugin in bash and jq: one JSON-RPC message a line on stdin, one answer a line on stdout, logs on stderr.
# jq reads and writes all JSON: nothing that came in from outside is ever pasted into an answer as text.
set -uo pipefail

readonly NAME=shell-status VERSION=0.1.0

log() { # LEVEL MESSAGE
    jq -cn --arg level "$1" --arg plugin "$NAME" --arg message "$2" '$ARGS.named' >&2
}

result() { # ID RESULT, both JSON
    jq -cn --argjson id "$1" --argjson result "$2" '{jsonrpc: "2.0", id: $id, result: $result}'
}

error() { # ID CODE MESSAGE
    jq -cn --argjson id "$1" --argjson code "$2" --arg message "$3" \
        '{jsonrpc: "2.0", id: $id, error: {code: $code, message: $message}}'
}

# What a line is, in four lines: its kind, its id as JSON, its method, and the request id of its context as JSON.
# Kinds: call, notification, answer (never answered), invalid, misplaced (params that are no object).
read -r -d '' CLASSIFY <<'JQ' || true
def sound_id: (.id | type) == "number" or ((.id | type) == "string" and (.id | length) <= 256);
def known_method: if .method | test("^[a-z._]+$") then .method else "?" end;
def request_id: .params._context?.request_id? | if type == "string" then .[:256] else null end;
if length != 1 then error("not one message") else .[0] end
| if type != "object" then ["invalid", "null"]
elif (has("method") | not) and (has("result") or has("error")) then ["answer", "null"]
elif .jsonrpc != "2.0" or (.method | type) != "string" or (has("id") and (sound_id | not))
then ["invalid", (if sound_id then .id | tojson else "null" end)]
elif ((.params // {}) | type) != "object" then ["misplaced", (.id | tojson)]
else [(if has("id") then "call" else "notification" end), (.id | tojson), known_method, (request_id | tojson)]
end | .[]
JQ

initialize() {
    jq -cn --arg name "$NAME" --arg version "$VERSION" '{
        name: $name, version: $version, api_version: 1,
        methods: ["status.get"], notifications: [], capabilities_used: []
    }'
}

status() { # REQUEST_ID as JSON
    local uptime one five fifteen
    read -r uptime _ </proc/uptime
    read -r one five fifteen _ </proc/loadavg
    jq -cn --argjson up "$uptime" --argjson one "$one" --argjson five "$five" --argjson fifteen "$fifteen" \
        --argjson cores "$(nproc_here)" --argjson request "$1" '{
            status: (if $one > $cores then "busy" else "ok" end),
            uptime_seconds: $up, load: [$one, $five, $fifteen], request_id: $request
        }'
}

# The number of processors, without another program.
nproc_here() {
    local line count=0
    while read -r line; do
        [[ $line == processor* ]] && count=$((count + 1))
    done </proc/cpuinfo
    echo "$((count > 0 ? count : 1))"
}

ready=no
while IFS= read -r line || [[ -n $line ]]; do
    if ! found=$(jq -rs "$CLASSIFY" <<<"$line" 2>/dev/null) || [[ -z $found ]]; then
        error null -32700 'the line is not JSON'
        continue
    fi
    mapfile -t parts <<<"$found"
    kind=${parts[0]} id=${parts[1]} method=${parts[2]-} request=${parts[3]-}
    case $kind:$method in
    invalid:*) error "$id" -32600 'not a JSON-RPC 2.0 request' ;;
    answer:*) log warning 'an answer to no question was ignored' ;;
    misplaced:*) [[ $id == null ]] || error "$id" -32602 'params must be an object' ;;
    *:shutdown) exit 0 ;;
    notification:initialized) ready=yes ;;
    notification:*) ;;
    call:initialize) result "$id" "$(initialize)" ;;
    call:ping | call:config.update) result "$id" '{"status":"ok"}' ;;
    call:status.get)
        if [[ $ready == yes ]]; then
            result "$id" "$(status "$request")"
        else
            error "$id" -32002 'the handshake is not over'
        fi
        ;;
    *) error "$id" -32601 'there is no such method' ;;
    esac
done
exit 0
