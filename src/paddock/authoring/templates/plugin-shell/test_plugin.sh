#!/usr/bin/env bash
# Run with: bash test_plugin.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

answer=$(printf '%s\n' \
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}' \
    '{"jsonrpc":"2.0","method":"initialized"}' \
    '{"jsonrpc":"2.0","id":2,"method":"greeting.get","params":{"name":"Ann"}}' |
    bash ./plugin.sh | jq -r 'select(.id == 2).result.text')

[[ $answer == 'Hello, Ann!' ]] || { echo "failed: it said '$answer'" && exit 1; }
echo 'ok'
