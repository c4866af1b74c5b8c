"""Runs a package client (pip, npm) with the person's own settings for it, and with no other variables of ours.

Its output goes to files, so that nothing can block. The whole process group is killed if it takes too long, if the work
is stopped, and if we die.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import Unreachable
from paddock.core.printable import printable
from paddock.plugins.package.extract import InstallProgress, ProgressCallback

_EXEC_PDEATHSIG = Path(__file__).with_name("exec_pdeathsig.py")
_POLL_INTERVAL_S = 0.2
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
# We decide where to install and what to print, not a variable.
_RESERVED_VARIABLES = frozenset(
    {
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_ROOT",
        "PIP_USER",
        "PIP_PYTHON",
        "PIP_REQUIRE_HASHES",
        "PIP_REPORT",
        "PIP_DRY_RUN",
        "PIP_NO_BINARY",
        "PIP_REQUIREMENT",
        "PIP_EDITABLE",
        "PIP_SRC",
        "PIP_LOG",
        "PIP_QUIET",
        "PIP_VERBOSE",
        "PIP_NO_DEPS",
        "PIP_UPGRADE",
        "PIP_PRE",
        "PIP_REQUIRE_VIRTUALENV",
        "PIP_BUILD_CONSTRAINT",
        "PIP_USE_FEATURE",
    }
)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and output of a client."""

    code: int
    out: str
    err: str

    def error_lines(self, max_lines: int = 4) -> str:
        """Return its last error lines, made printable."""
        lines = [printable(line.strip(), 240) for line in self.err.splitlines() if line.strip()]
        errors = [line for line in lines if line.lower().startswith(("error", "npm error", "npm err!"))]
        return "; ".join((errors or lines)[-max_lines:])


@dataclass(frozen=True, slots=True)
class PackageClient:
    """Runs commands below one directory of ours."""

    workspace: Path
    environ: Mapping[str, str]
    progress: ProgressCallback | None = None
    timeout_s: float = 900.0

    def run(self, step: str, command: Sequence[str], extra_variables: Mapping[str, str] | None = None) -> CommandResult:
        """Run a command in the workspace. `step` is shown to the person meanwhile.

        Raises:
            Unreachable: it took too long.
        """
        out, err = self.workspace / "output", self.workspace / "errors"
        with out.open("wb") as to_out, err.open("wb") as to_err:
            process = subprocess.Popen(  # noqa: S603 — a list of arguments, checked by the callers, and no shell
                [sys.executable, "-I", "-S", str(_EXEC_PDEATHSIG), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=to_out,
                stderr=to_err,
                env=client_variables(self.environ) | dict(extra_variables or {}),
                cwd=self.workspace,
                start_new_session=True,
            )
            self._wait(process, step)
        return CommandResult(process.returncode, _read_head(out), _read_head(err))

    def _wait(self, process: subprocess.Popen[bytes], step: str) -> None:
        deadline = time.monotonic() + self.timeout_s
        try:
            while True:
                if self.progress is not None:
                    self.progress(InstallProgress(step))
                try:
                    process.wait(_POLL_INTERVAL_S)
                except subprocess.TimeoutExpired:
                    if time.monotonic() > deadline:
                        raise Unreachable(
                            f"{step} took longer than {self.timeout_s:g} seconds",
                            code="environment.timeout",
                            hint="look at the network and at the settings of pip or npm, then try again",
                        ) from None
                else:
                    return
        finally:
            if process.returncode is None:
                # Reaped only after the group was killed, so the id is still ours.
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def client_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a client gets: network access, its own settings, and no others."""
    inherited = {
        name: value
        for name, value in environ.items()
        if name in _INHERITED_VARIABLES
        or (name.upper().startswith(_SETTING_PREFIXES) and name.upper() not in _RESERVED_VARIABLES)
    }
    return inherited | {"LC_ALL": "C.UTF-8", "NO_COLOR": "1"}


def _read_head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_MAX_OUTPUT_BYTES).decode(errors="replace")
