"""Runs a package client (uv, npm) with the person's own settings for it, and with no other variables of ours.

It is killed with all its processes if it takes too long, if the work is stopped, and if we die.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from paddock.cage.bounded_process import BoundedRun, ProcessLimits, run_bounded
from paddock.core.errors import Unreachable
from paddock.core.printable import printable
from paddock.plugins.package.extract import InstallProgress, ProgressCallback

_EXEC_PDEATHSIG = Path(__file__).with_name("exec_pdeathsig.py")
_MAX_OUTPUT_BYTES = 16 * 1024 * 1024
_INHERITED_VARIABLES = frozenset(
    {
        "PATH",
        "HOME",
        "TMPDIR",
        "XDG_CONFIG_HOME",
        "XDG_CONFIG_DIRS",
        "XDG_CACHE_HOME",
        "NETRC",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "NODE_EXTRA_CA_CERTS",
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "no_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
    }
)
_SETTING_PREFIXES = ("PIP_", "NPM_CONFIG_")  # compared in upper case: npm reads both


def error_lines(result: BoundedRun, max_lines: int = 4) -> str:
    """Return the last error lines of a client, made printable."""
    lines = [printable(line.strip(), 240) for line in result.errors.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("error", "npm error", "npm err!"))]
    return "; ".join((errors or lines)[-max_lines:])


class PackageClient(Struct, frozen=True):
    """Runs commands below one directory of ours. What they fetch is kept in a cache that no one else writes to."""

    workspace: Path
    cache: Path
    environ: Mapping[str, str]
    progress: ProgressCallback | None = None
    timeout_s: float = 900.0

    def run(self, step: str, command: Sequence[str], extra_variables: Mapping[str, str] | None = None) -> BoundedRun:
        """Run a command in the workspace. `step` is shown to the person meanwhile.

        Raises:
            Unreachable: it took too long, or printed too much.
        """
        result = run_bounded(
            [sys.executable, "-I", "-S", str(_EXEC_PDEATHSIG), str(os.getpid()), *command],
            client_variables(self.environ) | dict(extra_variables or {}),
            ProcessLimits(self.timeout_s, _MAX_OUTPUT_BYTES),
            directory=self.workspace,
            progress=(lambda: report(InstallProgress(step))) if (report := self.progress) else None,
        )
        if result.stopped:
            raise Unreachable(
                f"{step} {result.outcome_text}",
                code="environment.timeout" if result.stopped == "timeout" else "environment.output",
                hint="look at the network and at the settings of pip or npm, then try again",
            )
        return result


def client_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a client gets: network access, its own settings, and no others."""
    inherited = {
        name: value
        for name, value in environ.items()
        if name in _INHERITED_VARIABLES or name.upper().startswith(_SETTING_PREFIXES)
    }
    return inherited | {"LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
