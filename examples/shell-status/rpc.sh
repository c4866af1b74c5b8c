# shellcheck shell=bash
# The protocol for a plugin in bash and jq: one JSON-RPC message a line on stdin, one a line on stdout, logs on stderr.
# jq reads and writes all JSON: nothing that came in from outside is ever pasted into a message as text.
#
# A plugin says NAME and VERSION, METHODS (a map from names to its functions), NOTIFICATIONS and CAPABILITIES (lists),
# and calls `serve`. A method reads PARAMS and CONTEXT and sets RESULT, all JSON. One that fails called `fault` first;
# else it is answered for as a failure of the plugin. A plugin may define on_config and on_shutdown again.

readonly LIMIT=4194304
CONFIG={} PARAMS={} CONTEXT={} TOKEN=null RESULT=null ANSWER=null FAULT=''
ready=no last_id=0 later=()

# The protocol keeps stdin and stdout to itself: a stray echo lands in the log, and a child cannot eat a message.
exec 4<&0 3>&1 0</dev/null 1>&2

# --- what a plugin may do -----------------------------------------------------------------------------------------

log() { # LEVEL MESSAGE
    jq -cn --arg level "$1" --arg plugin "$NAME" --arg message "$2" '$ARGS.named' >&2
}

fault() { # CODE MESSAGE; as in: [[ … ]] || fault -32602 'that is wrong' || return
    FAULT=$(jq -cn --argjson code "$1" --arg message "$2" '$ARGS.named')
    return 1
}

notify() { # NAME PARAMS
    jq -c --arg method "$1" '{jsonrpc: "2.0", method: $method, params: .}' <<<"$2" >&3
}

query() { # SQL VALUES, a list: the rows, in ANSWER
    ask kaged.storage.query "$@" && ANSWER=$(jq -c .rows <<<"$ANSWER")
}

execute() { # SQL VALUES: how many rows were touched, in ANSWER
    ask kaged.storage.exec "$@" && ANSWER=$(jq -c .rows_affected <<<"$ANSWER")
}

on_config() { :; } # may refuse what stands in CONFIG

on_shutdown() { :; }

# --- asking the host ----------------------------------------------------------------------------------------------

# Waits for the answer. A ping is answered meanwhile; all else is kept for later.
ask() { # METHOD SQL VALUES
    local question=$((last_id += 1))
    jq -c --argjson id "$question" --arg method "$1" --arg sql "$2" --argjson token "$TOKEN" \
        '{jsonrpc: "2.0", id: $id, method: $method, params: {sql: $sql, params: .}}
        | if $token == null then . else .params._call = $token end' <<<"$3" >&3
    while IFS= read -r line <&4; do
        classify
        case $kind:$id:$method in
        "result:$question:"*) ANSWER=${parts[3]} && return ;;
        "error:$question:"*) FAULT=${parts[3]} && return 1 ;;
        call:*:ping) result "$id" '{"status":"ok"}' ;;
        *) later+=("$line") ;;
        esac
    done
    exit 0 # the host is gone
}

# --- answering it -------------------------------------------------------------------------------------------------

result() { # ID RESULT, both JSON
    jq -c --argjson id "$1" '{jsonrpc: "2.0", id: $id, result: .}' <<<"$2" >&3
}

refuse() { # ID, and what is in FAULT
    jq -c --argjson id "$1" '{jsonrpc: "2.0", id: $id, error: .}' <<<"$FAULT" >&3
}

error() { # ID CODE MESSAGE
    fault "$2" "$3" || refuse "$1"
}

greeting() {
    jq -cn --arg name "$NAME" --arg version "$VERSION" \
        --argjson methods "$(list "${!METHODS[@]}")" \
        --argjson notifications "$(list "${NOTIFICATIONS[@]}")" \
        --argjson capabilities_used "$(list "${CAPABILITIES[@]}")" \
        '$ARGS.named + {api_version: 1, features: ["call_tokens"]}'
}

list() { # WORD…
    jq -cn '$ARGS.positional' --args -- "$@"
}

configure() {
    local asked=$id old=$CONFIG
    FAULT=''
    CONFIG=$(jq -c 'if (.config | type) == "object" then .config else empty end' <<<"${parts[3]}")
    if [[ -n $CONFIG ]] && on_config; then
        result "$asked" '{"status":"ok"}'
    else
        CONFIG=$old
        [[ -n $FAULT ]] || fault -32004 'this configuration is not accepted'
        refuse "$asked"
    fi
}

call() {
    local asked=$id asked_for=$method handler=${METHODS[$method]-}
    # shellcheck disable=SC2034 # not all methods read all of it
    PARAMS=${parts[3]} CONTEXT=${parts[4]} TOKEN=${parts[5]} RESULT=null FAULT=''
    if [[ -z $handler ]]; then
        error "$asked" -32601 'there is no such method'
    elif [[ $ready == no ]]; then
        error "$asked" -32002 'the handshake is not over'
    elif "$handler"; then
        result "$asked" "$RESULT"
    elif [[ -n $FAULT ]]; then
        refuse "$asked"
    else
        log error "$asked_for failed"
        error "$asked" -32603 'the plugin failed'
    fi
}

# --- reading it ---------------------------------------------------------------------------------------------------

# What a line is, one fact a line: its kind, its id as JSON, and then for
#   call, notification                     method, own params, context, token
#   result, error (the answers to us)      nothing, the value
#   stray, invalid, misplaced (params that are no object)
read -r -d '' CLASSIFY <<'JQ' || true
def sound_id: (.id | type) == "number" or ((.id | type) == "string" and (.id | length) <= 256);
def known_method: if .method | test("^[a-z0-9._]+$") then .method else "?" end;
def answer: if .jsonrpc != "2.0" or (sound_id | not) then ["stray", "null"]
    elif (.error | type) == "object" then ["error", (.id | tojson), "", (.error | tojson)]
    elif has("result") and .error == null then ["result", (.id | tojson), "", (.result | tojson)]
    else ["stray", "null"] end;
def request: [(if has("id") then "call" else "notification" end), (.id | tojson), known_method,
    (.params // {} | del(._context, ._call) | tojson),
    (.params._context | if type == "object" then . else {} end | tojson),
    (.params._call | if type == "string" and length <= 256 then . else null end | tojson)];
if length != 1 then error("not one message") else .[0] end
| if type != "object" then ["invalid", "null"]
elif (has("method") | not) and (has("result") or has("error")) then answer
elif .jsonrpc != "2.0" or (.method | type) != "string" or (has("id") and (sound_id | not))
then ["invalid", (if sound_id then .id | tojson else "null" end)]
elif has("params") and (.params | type) != "object" then ["misplaced", (.id | tojson)]
else request end | .[]
JQ

classify() {
    local found
    kind=garbled id=null method='' parts=()
    ((${#line} <= LIMIT)) || { kind=invalid && return; }
    found=$(jq -rs "$CLASSIFY" <<<"$line" 2>/dev/null) && [[ -n $found ]] || return 0
    mapfile -t parts <<<"$found"
    kind=${parts[0]} id=${parts[1]} method=${parts[2]-}
}

next_line() {
    if ((${#later[@]})); then
        line=${later[0]} later=("${later[@]:1}")
    else
        IFS= read -r line <&4 || [[ -n $line ]]
    fi
}

serve() {
    while next_line; do
        classify
        case $kind:$method in
        garbled:*) error null -32700 'the line is not JSON' ;;
        invalid:*) error "$id" -32600 'not a JSON-RPC 2.0 request' ;;
        misplaced:*) [[ $id == null ]] || error "$id" -32602 'params must be an object' ;;
        stray:* | result:* | error:*) log warning 'an answer to no question was ignored' ;;
        *:shutdown) break ;;
        notification:initialized) ready=yes ;;
        notification:*) ;;
        call:initialize) result "$id" "$(greeting)" ;;
        call:ping | call:projects.activated | call:projects.deactivated) result "$id" '{"status":"ok"}' ;;
        call:config.update) configure ;;
        call:*) call ;;
        esac
    done
    on_shutdown
}
