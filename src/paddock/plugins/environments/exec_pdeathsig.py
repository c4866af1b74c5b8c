"""Runs a program that dies with its parent. Run as a script: `exec_pdeathsig.py PARENT PROGRAM ARGUMENT…`.

Without it, a uv whose Paddock was killed would go on filling an abandoned directory.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # the parent died before the prctl call
    os.execv(command[0], command)  # noqa: S606 — the parent chose it; what was asked above outlives the exec


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
