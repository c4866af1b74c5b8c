"""pip as we use it: to pin, to look into one wheel, and to install exactly what is pinned. It never builds anything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddock.core.errors import HostError
from paddock.plugins.environments.clients import Client, Finished
from paddock.plugins.environments.interpreter import pip_place, quiet_command, this_interpreter
from paddock.plugins.environments.lock import Lock
from paddock.plugins.environments.pip_faults import Fault, fault_of

_ALONE = Path(__file__).with_name("pip_alone.py")
_ALWAYS = ("--disable-pip-version-check", "--no-input", "--no-color")
_ONLY_BUILT = ("--only-binary", ":all:", "--progress-bar=off")


@dataclass(frozen=True, slots=True)
class Pip:
    """pip for the directory of one environment. It runs on our interpreter and finds there nothing to run."""

    client: Client
    root: Path

    def resolve(self, wanted: Sequence[str]) -> list[dict[str, Any]]:
        """What would be installed: pip's own report, an entry for each package.

        Raises:
            PaddockError: says why there is no answer; see `pip_faults`.
        """
        report = self.client.workspace / "report.json"
        options = ("--dry-run", "--ignore-installed", "--report", str(report), *_ONLY_BUILT)
        done = self._run("looking for packages", "install", *options, "--", *wanted)
        if done.code != 0:
            raise self._explained(done, wanted[0])
        try:
            return json.loads(report.read_text(encoding="utf-8"))["install"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HostError("pip's report cannot be read", code="environment.client_failed") from error

    def wheel(self, pinned: str) -> Path:
        """The file of one package, by its line in a lock. It is only looked at."""
        folder = self.client.workspace / "wheel"
        folder.mkdir()
        lines = self.client.workspace / "one.lock"
        lines.write_text(pinned + "\n", encoding="utf-8")
        options = ("--quiet", "--no-deps", "--require-hashes", *_ONLY_BUILT, "-d", str(folder), "-r", str(lines))
        done = self._run("looking into the package", "download", *options)
        found = sorted(folder.glob("*.whl"))
        if done.code != 0 or not found:
            raise self._explained(done, pinned.partition(" ")[0])
        return found[0]

    def install(self, lock: Lock) -> None:
        """Install what the lock pins, and nothing else.

        Raises:
            PaddockError: says why not; a file with another hash is refused.
        """
        lines = self.client.workspace / "requirements.lock"
        lines.write_text(lock.text, encoding="utf-8")
        options = ("--no-deps", "--require-hashes", "--no-compile", "--no-warn-script-location", *_ONLY_BUILT)
        step = f"installing {len(lock.packages)} Python packages"
        done = self._run(step, "install", *options, "-r", str(lines))
        if done.code != 0:
            raise self._explained(done, lock.packages[0].name)

    def _explained(self, done: Finished, wanted: str) -> Exception:
        fault = fault_of(done.out + done.err, done.lines(), wanted)
        if fault.kind is not Fault.NOTHING_FITS:
            return fault.error()
        # Nothing that is built fits. Does the index have the package at all? Listing its versions builds nothing, and
        # only when it talks much does pip tell an index that is silent from one that knows no such package.
        listed = self._run("looking for the reason", "index", "versions", "-vv", "--", fault.name)
        return fault.after_listing(listed.code == 0, listed.out + listed.err).error()

    def _run(self, step: str, command: str, *arguments: str) -> Finished:
        alone = [*quiet_command(this_interpreter()), str(_ALONE), str(pip_place()), str(self.root), command]
        return self.client.run(step, [*alone, *_ALWAYS, *arguments])
