"""A program that dies with whoever started it. Run as a script: `exec_pdeathsig.py PARENT PROGRAM ARGUMENT…`.

Without it, a pip whose Paddock was killed would go on filling a directory that nobody wants any more.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)  # it died before we asked
    os.execv(command[0], command)  # noqa: S606 — the parent chose it; what was asked above outlives the exec


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
