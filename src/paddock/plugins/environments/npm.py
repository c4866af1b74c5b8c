"""npm as we use it: to pin, to ask about one package, and to install exactly what is pinned. It runs no script."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from paddock.core.errors import HostError, Unreachable
from paddock.plugins.environments.clients import Client, Finished
from paddock.plugins.environments.lock import Lock
from paddock.plugins.environments.npm_faults import npm_error
from paddock.plugins.environments.npm_lock import pin_npm_lock
from paddock.plugins.environments.npm_project import package_json, project_lock

# Over any setting of the person's own: no scripts, no repositories, nothing of other packages, nothing but our folder.
_ALWAYS = (
    *("--ignore-scripts", "--git=/bin/false", "--omit=dev", "--include=optional", "--include=peer", "--no-dry-run"),
    *("--no-global", "--location=project", "--package-lock", "--lockfile-version=3", "--install-strategy=hoisted"),
    *("--omit-lockfile-registry-resolved", "--no-bin-links", "--no-audit", "--no-fund", "--no-update-notifier"),
    *("--logs-max=0", "--loglevel=error", "--json", "--no-color", "--no-progress"),
)
_ASKED = ("name", "version", "description", "license", "homepage", "engines", "deprecated")


@dataclass(frozen=True, slots=True)
class Npm:
    """npm for one directory, which holds a `package.json` and later `node_modules`."""

    client: Client
    folder: Path

    def resolve(self, name: str, version: str | None) -> Lock:
        """The lock for a package at a version, a tag or a range.

        Raises:
            PaddockError: says why there is none; see `npm_faults`.
            Invalid: something cannot be pinned.
        """
        wanted = {"name": "paddock-environment", "version": "0.0.0", "private": True}
        self._write("package.json", json.dumps(wanted | {"dependencies": {name: version or "latest"}}))
        done = self._run("looking for packages", "install", "--package-lock-only")
        if done.code != 0:
            raise npm_error(done, name, version)
        try:
            text = (self.folder / "package-lock.json").read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise HostError("npm wrote no lock", code="environment.client_failed") from error
        return pin_npm_lock(text, name)

    def about(self, name: str, version: str) -> dict[str, Any]:
        """What the registry says of one version. Strangers wrote it."""
        done = self._run("asking about the package", "view", f"{name}@{version}", *_ASKED)
        if done.code != 0:
            raise npm_error(done, name, version)
        try:
            value: Any = json.loads(done.out)
        except (ValueError, RecursionError):
            value = None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def install(self, lock: Lock) -> None:
        """Install what the lock pins, and nothing else.

        Raises:
            PaddockError: says why not; an archive with another hash is refused.
        """
        self._write("package.json", package_json(lock))
        self._write("package-lock.json", project_lock(lock))
        done = self._run(f"installing {len(lock.packages)} npm packages", "ci")
        if done.code != 0:
            raise npm_error(done, lock.packages[0].name, lock.packages[0].version)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def _run(self, step: str, command: str, *arguments: str) -> Finished:
        program = shutil.which("npm", path=self.client.environ.get("PATH"))
        if program is None:
            raise Unreachable(
                "npm is not installed, and it fetches the packages of Node.js plugins",
                code="environment.no_npm",
                hint="apt install npm",
            )
        return self.client.run(step, [program, command, f"--prefix={self.folder}", *_ALWAYS, *arguments])
