#!/usr/bin/env bash
# The methods of __NAME__. The protocol is in rpc.sh.
set -uo pipefail

readonly NAME=__NAME__ VERSION=0.1.0
declare -A METHODS=([greeting.get]=greet)
NOTIFICATIONS=()
CAPABILITIES=()

# shellcheck source=rpc.sh
source "${BASH_SOURCE[0]%/*}/rpc.sh"

# Reads PARAMS and CONFIG, sets RESULT; all of it JSON, and jq does all JSON.
greet() {
    RESULT=$(jq -c --argjson config "$CONFIG" '{text: "\($config.greeting // "Hello"), \(.name)!"}' <<<"$PARAMS")
}

serve
