"""Reads package files from a git repository without ever checking it out.

A checkout would run filters and follow attributes that the repository chooses. Here git only fetches objects into a
bare repository of ours and prints them. It runs with no configuration but ours, no hooks, no prompts, no submodules,
one allowed protocol, limits on file size, memory and time, and in a process group that is killed as one. Large-file
pointers stay pointers.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from paddock.cage.bounded_process import ProcessLimits, run_bounded
from paddock.core.errors import HostError, Invalid, OperatorError, Problem, Unreachable
from paddock.core.printable import printable
from paddock.plugins.package.extract import InstallProgress, PackageEntry, ProgressCallback
from paddock.plugins.package.rules import MEGABYTE, PackageValidator, is_excluded
from paddock.plugins.package.source import PackageSource, check_ref, is_commit

_GIT_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.askPass=",
    "credential.helper=",
    "protocol.allow=never",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",  # one pack, so that the limit on file size bounds the whole fetch
    "gc.auto=0",
    "maintenance.auto=false",
)
_INHERITED_VARIABLES = ("PATH", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO")
_INHERITED_PROXY_VARIABLES = (
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
)
GIT_LIMITS = ProcessLimits(
    timeout_s=120.0, output_bytes=256 * 1024, file_bytes=512 * MEGABYTE, memory_bytes=4096 * MEGABYTE
)


class GitRepository:
    """A private bare repository below `workspace`, and the hardened git that fills and reads it."""

    def __init__(
        self, source: PackageSource, workspace: Path, limits: ProcessLimits, progress: ProgressCallback | None
    ) -> None:
        program = shutil.which("git")
        if program is None:
            raise Unreachable("git is not installed", code="git.missing", hint="apt install git")
        self._source = source
        self._url = source.location
        self._workspace = workspace
        self._git = [program, "--git-dir", str(workspace / "repository")]
        self._limits = limits
        self._progress = progress
        self._scheme = urlsplit(self._url).scheme if "://" in self._url else "ssh"
        self._environment = self._build_environment()
        self._run("init", "--quiet", "--bare", "--template=", str(workspace / "repository"))

    def fetch(self) -> str:
        """Fetch the ref and return its commit id.

        Raises:
            Unreachable: the repository cannot be fetched.
            OperatorError: it has no such ref.
        """
        ref = self._source.ref
        if ref is None:
            self._fetch("HEAD", depth=True)
            return self._resolve_commit("FETCH_HEAD")
        check_ref(ref)
        if is_commit(ref):
            if not self._try_fetch(ref):
                self._fetch_everything()
            return self._resolve_commit(ref)
        name = self._resolve_remote_ref(ref)
        if name is not None:
            self._fetch(name, depth=True)
            return self._resolve_commit("FETCH_HEAD")
        if len(ref) >= 7 and all(character in "0123456789abcdef" for character in ref):
            self._fetch_everything()
            return self._resolve_commit(ref)
        raise OperatorError(
            f"{printable(self._url)} has no tag or branch {printable(ref)}",
            code="source.bad_ref",
            hint="list them with: git ls-remote URL",
        )

    def entries(self, commit: str, validator: PackageValidator) -> Iterator[PackageEntry]:
        """Yield the files of a commit. All names and sizes are checked before the first file is read."""
        blobs = self._list_blobs(commit, validator)
        validator.raise_problems(self._source.describe())
        id_list = self._workspace / "wanted"
        id_list.write_text("".join(f"{blob.object_id}\n" for blob in blobs))
        self._run("cat-file", "--batch", stdin=id_list, stdout=self._workspace / "objects")
        with (self._workspace / "objects").open("rb") as objects:
            for blob in blobs:
                header = objects.readline(200).decode("ascii", "replace").split()
                if header != [blob.object_id, "blob", str(blob.size)]:
                    raise HostError("git printed other objects than were asked for", code="git.failed")
                start = objects.tell()
                yield PackageEntry(blob.path, blob.executable, _range_reader(objects, start, blob.size))
                objects.seek(start + blob.size + 1)

    def _list_blobs(self, commit: str, validator: PackageValidator) -> list[_GitBlob]:
        self._run("ls-tree", "-r", "-z", "-l", "--full-tree", commit, stdout=self._workspace / "listing")
        # Enough for as many files as the limits allow, each with the longest name.
        max_bytes = (validator.limits.files + 1) * (validator.limits.path_bytes + 100)
        with (self._workspace / "listing").open("rb") as file:
            rows = file.read(max_bytes).split(b"\0")
            if file.read(1):
                validator.add_problem("", "lists far too many files", "package.too_many_files")
        counting_validator = PackageValidator(validator.limits, validator.problems)
        blobs: list[_GitBlob] = []
        for row in rows[:-1]:
            metadata, _, raw_path = row.partition(b"\t")
            mode, kind, object_id, size = metadata.decode("ascii").split()
            path = raw_path.decode(errors="surrogateescape")
            if is_excluded(path):
                continue
            if kind == "commit":
                validator.add_problem(path, "is a submodule", "package.not_a_file", "packages hold their own files")
            elif mode == "120000":
                validator.add_problem(path, "is a symbolic link", "package.not_a_file", "packages hold plain files")
            elif counting_validator.add_file(path, int(size)):
                blobs.append(_GitBlob(path, mode == "100755", object_id, int(size)))
            if counting_validator.has_max_problems:
                break
        return blobs

    def _resolve_remote_ref(self, ref: str) -> str | None:
        """Return the full name of the remote tag or branch; a tag wins over a branch of the same name."""
        candidates = [ref] if ref.startswith("refs/") else [f"refs/tags/{ref}", f"refs/heads/{ref}"]
        output = self._run("ls-remote", "--quiet", "--end-of-options", self._url, *candidates)
        remote_refs = {line.partition("\t")[2] for line in output.splitlines()}
        return next((name for name in candidates if name in remote_refs), None)

    def _fetch(self, *refspecs: str, depth: bool) -> None:
        options = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-commit-graph"]
        if depth:
            options.append("--depth=1")
        self._run("fetch", *options, "--end-of-options", self._url, *refspecs)

    def _try_fetch(self, commit: str) -> bool:
        try:
            self._fetch(commit, depth=True)
        except Unreachable as error:
            if error.error_code != "git.failed":
                raise
            return False
        return True

    def _fetch_everything(self) -> None:
        self._fetch("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*", depth=False)

    def _resolve_commit(self, name: str) -> str:
        try:
            output = self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").split()
        except Unreachable as error:
            raise OperatorError(
                f"{printable(self._url)} has no commit {printable(name)}", code="source.bad_ref"
            ) from error
        commit = output[-1] if output else ""
        if not is_commit(commit):
            raise HostError("git did not name a commit", code="git.failed")
        return commit

    def _build_environment(self) -> dict[str, str]:
        configuration = self._workspace / "gitconfig"
        lines = ["[safe]"]
        if self._scheme == "file":
            # The person named this repository, so it may be owned by another user.
            path = unquote(urlsplit(self._url).path)
            lines += [f"\tdirectory = {_quote_path(path)}", f"\tdirectory = {_quote_path(path + '/.git')}"]
        configuration.write_text("\n".join(lines) + "\n")
        inherited = {
            name: os.environ[name]
            for name in (*_INHERITED_VARIABLES, *_INHERITED_PROXY_VARIABLES)
            if name in os.environ
        }
        return inherited | {
            "HOME": str(self._workspace),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(configuration),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": self._scheme,
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_SSH_COMMAND": "ssh -oBatchMode=yes",
            "SSH_ASKPASS_REQUIRE": "never",
        }

    def _run(self, *arguments: str, stdin: Path | None = None, stdout: Path | None = None) -> str:
        """Run git and return its output, unless that went to `stdout`."""
        command = f"git {arguments[0]}"
        settings = [part for setting in _GIT_CONFIG for part in ("-c", setting)]
        run = run_bounded(
            [*self._git[:1], *settings, *self._git[1:], *arguments],
            self._environment,
            self._limits,
            directory=self._workspace,
            stdin=stdin,
            stdout=stdout,
            progress=(lambda: report(InstallProgress(command))) if (report := self._progress) else None,
        )
        if run.stopped:
            raise Unreachable(
                f"{command} {run.outcome_text}",
                code="git.timeout" if run.stopped == "timeout" else "git.output",
                hint="clone it yourself and install the directory",
            )
        if run.status != 0:
            raise Unreachable(
                f"{command} failed for {printable(self._url)}: {_first_lines(run.errors) or f'exit {run.status}'}",
                code="git.failed",
                hint="look at the address and try again, or clone it yourself and install the directory",
            )
        return run.output


class _GitBlob(Struct, frozen=True):
    path: str
    executable: bool
    object_id: str
    size: int


def _range_reader(file: BinaryIO, start: int, size: int) -> Callable[[], Iterator[bytes]]:
    def chunks() -> Iterator[bytes]:
        file.seek(start)
        left = size
        while left:
            chunk = file.read(min(left, MEGABYTE))
            if not chunk:
                raise Invalid("git printed too little", [Problem("", "is cut short")], code="package.unsafe")
            left -= len(chunk)
            yield chunk

    return chunks


def _quote_path(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _first_lines(text: str) -> str:
    lines = [printable(line) for line in text[:4_096].splitlines() if line.strip()]
    return "; ".join(lines[:3])
