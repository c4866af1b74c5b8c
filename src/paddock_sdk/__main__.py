"""`python -m paddock_sdk describe main.py`: print the tools and methods of a plugin, for its manifest."""

from __future__ import annotations

import json
import sys

from paddock_sdk.describe import NotAPlugin, describe_program

USAGE = "usage: python -m paddock_sdk describe PROGRAM"


def main(arguments: list[str]) -> int:
    if len(arguments) != 2 or arguments[0] != "describe":
        print(USAGE, file=sys.stderr)
        return 2
    try:
        print(json.dumps(describe_program(arguments[1]), indent=2, ensure_ascii=False))
    except NotAPlugin as error:
        print(f"{arguments[1]}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
