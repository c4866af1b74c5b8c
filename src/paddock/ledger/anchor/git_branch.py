"""A branch of a git repository that checkpoints are appended to, each time as a commit. Blocking."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from paddock.cage.bounded_process import BoundedRun, ProcessLimits, run_bounded
from paddock.core.errors import Unreachable
from paddock.core.printable import printable
from paddock.net.anchor_address import AnchorAddress

_LIMITS = ProcessLimits(timeout_s=60.0, output_bytes=64 << 20)
_PUSH_ATTEMPTS = 3  # another host may push to the same branch
_INHERITED = ("PATH", "HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTPS_PROXY", "https_proxy")
_AUTHOR = {"NAME": "paddock", "EMAIL": "paddock@localhost"}


class GitBranch:
    """The branch of one address, with a bare repository here that holds what was fetched of it.

    Args:
        address: A `git` address.
        repository: The directory of that repository; made when it is needed.
        environ: The host's environment: git finds keys and credential helpers by it.
        check_stopped: Called while git runs; raises to stop it.
    """

    def __init__(
        self,
        address: AnchorAddress,
        repository: Path,
        environ: Mapping[str, str],
        check_stopped: Callable[[], None] | None = None,
    ) -> None:
        self._address = address
        self._check_stopped = check_stopped
        self._repository = repository
        self._environment = {name: environ[name] for name in _INHERITED if name in environ} | {
            "LC_ALL": "C",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "GIT_ALLOW_PROTOCOL": urlsplit(address.location).scheme,
            "GIT_DIR": str(repository),
            "GIT_INDEX_FILE": str(repository / "anchor.index"),
            **{f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in _AUTHOR.items()},
        }

    def append(self, file_name: str, document: bytes, message: str) -> str:
        """Append to a file of the branch, and push. Returns the commit.

        Raises:
            Unreachable: git cannot do it.
        """
        self._prepare()
        for attempt in range(1, _PUSH_ATTEMPTS + 1):
            parent = self._fetch()
            commit = self._commit(parent, file_name, document, message)
            pushed = self._try("push", "--quiet", self._address.location, f"{commit}:refs/heads/{self._address.branch}")
            if pushed.status == 0:
                return commit
            if attempt == _PUSH_ATTEMPTS:
                raise self._error("push", pushed)
        raise AssertionError

    def read_added_lines(self) -> list[bytes]:
        """Return every line that was ever added to the branch: a later commit may have taken some away.

        Raises:
            Unreachable: git cannot do it.
        """
        self._prepare()
        parent = self._fetch()
        if parent is None:
            return []
        history = self._run("log", "--no-color", "--no-ext-diff", "--no-textconv", "--text", "-p", "--format=", parent)
        return [line[1:].encode() for line in history.splitlines() if line.startswith("+{")]

    def _prepare(self) -> None:
        self._repository.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (self._repository / "HEAD").is_file():
            self._run("init", "--quiet", "--bare")

    def _fetch(self) -> str | None:
        """Fetch the branch and return its commit; None if it does not exist yet."""
        listed = self._run("ls-remote", "--quiet", self._address.location, f"refs/heads/{self._address.branch}")
        if not listed.strip():
            return None
        commit = listed.split()[0]
        self._run("fetch", "--quiet", "--no-tags", self._address.location, f"refs/heads/{self._address.branch}")
        return commit

    def _commit(self, parent: str | None, file_name: str, document: bytes, message: str) -> str:
        before = b""
        if parent is not None and self._run("ls-tree", "--name-only", parent, file_name).strip():
            before = self._run("show", f"{parent}:{file_name}").encode()
        with tempfile.NamedTemporaryFile(dir=self._repository) as content:
            content.write(before + document)
            content.flush()
            blob = self._run("hash-object", "-w", "--no-filters", content.name).strip()
        self._run("read-tree", *([parent] if parent else ["--empty"]))
        self._run("update-index", "--add", "--cacheinfo", f"100644,{blob},{file_name}")
        tree = self._run("write-tree").strip()
        parents = ["-p", parent] if parent else []
        return self._run("commit-tree", tree, *parents, "-m", message).strip()

    def _run(self, *arguments: str) -> str:
        run = self._try(*arguments)
        if run.status != 0:
            raise self._error(arguments[0], run)
        return run.output

    def _try(self, *arguments: str) -> BoundedRun:
        git = shutil.which("git", path=self._environment.get("PATH", os.defpath))
        if git is None:
            raise Unreachable("there is no git on this machine", code="ledger.anchor", hint="install git")
        # The repository may belong to another user, as on a disk of its own.
        command = [git, "-c", "safe.directory=*", *arguments]
        return run_bounded(command, self._environment, _LIMITS, progress=self._check_stopped)

    def _error(self, command: str, run: BoundedRun) -> Unreachable:
        reason = run.outcome_text if run.stopped else printable(run.first_line, 200) or run.outcome_text
        return Unreachable(
            f"git {command} failed for {self._address.name}: {reason}",
            code="ledger.anchor",
            hint="try it by hand as the user of the daemon; it must work without a password prompt",
        )
