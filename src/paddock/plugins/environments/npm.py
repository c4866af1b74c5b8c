"""Runs npm to resolve a lock, to view one package, and to install exactly what is locked. It runs no scripts."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from paddock.cage.bounded_process import BoundedRun
from paddock.core.errors import HostError, NotFound, OperatorError, PaddockError, PluginError, Unreachable
from paddock.core.printable import printable
from paddock.manifest.registry_package import NPM_NAME_PATTERN
from paddock.plugins.environments.lock import Lock
from paddock.plugins.environments.npm_lock import has_hash, pin_npm_lock, pinned_entries, requested_packages
from paddock.plugins.environments.package_client import PackageClient, error_lines

_ROOT_PACKAGE = {"name": "paddock-environment", "version": "0.0.0"}
_KEPT_FIELDS = frozenset(
    {
        *("name", "version", "integrity", "bundleDependencies", "inBundle", "peerDependenciesMeta"),
        *("optional", "peer", "dev", "devOptional", "os", "cpu", "libc", "engines"),
    }
)
_DEPENDENCY_FIELDS = ("dependencies", "optionalDependencies", "peerDependencies")
# No archive has this hash. It is not checked for a package bundled in another's archive; one that is fetched fails.
_IMPOSSIBLE_HASH = "sha512-" + base64.b64encode(bytes(64)).decode()


def build_package_json(lock: Lock) -> str:
    """Build the `package.json` that belongs to the lock; npm needs both."""
    return json.dumps({**_ROOT_PACKAGE, "private": True, "dependencies": requested_packages(lock)}, indent=1) + "\n"


def build_package_lock(lock: Lock) -> str:
    """Build the `package-lock.json` from which npm installs what the lock pins, and can install nothing else."""
    root = {**_ROOT_PACKAGE, "dependencies": requested_packages(lock)}
    packages = {"": root, **{path: _strip_entry(entry) for path, entry in pinned_entries(lock).items()}}
    return json.dumps({**_ROOT_PACKAGE, "lockfileVersion": 3, "requires": True, "packages": packages}, indent=1) + "\n"


def _strip_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    stripped = {key: value for key, value in entry.items() if key in _KEPT_FIELDS}
    if not has_hash(entry):
        stripped["integrity"] = _IMPOSSIBLE_HASH
    for field in _DEPENDENCY_FIELDS:
        dependencies = entry.get(field)
        if isinstance(dependencies, dict):
            # The lock already decided which version fits.
            stripped[field] = dict.fromkeys(cast("dict[str, Any]", dependencies), "*")
    return stripped


# Override any setting of the person: no scripts, no git, no other packages, no directory but ours.
_NPM_OPTIONS = (
    *("--ignore-scripts", "--git=/bin/false", "--omit=dev", "--include=optional", "--include=peer", "--no-dry-run"),
    *("--no-global", "--location=project", "--package-lock", "--lockfile-version=3", "--install-strategy=hoisted"),
    *("--omit-lockfile-registry-resolved", "--no-bin-links", "--no-audit", "--no-fund", "--no-update-notifier"),
    *("--logs-max=0", "--loglevel=error", "--json", "--no-color", "--no-progress"),
)
# npm's own values make a person without a network wait for more than a minute. Variables of theirs win over these.
_RETRY_SETTINGS: Mapping[str, str] = {
    "npm_config_fetch_retries": "2",
    "npm_config_fetch_retry_mintimeout": "500",
    "npm_config_fetch_retry_maxtimeout": "2000",
    "npm_config_fetch_timeout": "60000",
}
_CONNECT_TIMEOUT = Path(__file__).with_name("npm_connect_timeout.cjs")
_VIEW_FIELDS = ("name", "version", "description", "license", "homepage", "engines", "deprecated")


class Npm(Struct, frozen=True):
    """npm for one directory, which holds a `package.json` and later `node_modules`."""

    client: PackageClient
    folder: Path

    def resolve(self, name: str, version: str | None) -> Lock:
        """Resolve the lock for a package at a version, a tag or a range.

        Raises:
            PaddockError: it cannot be resolved; see `classify_npm_failure`.
            Invalid: something cannot be pinned.
        """
        package_json = {"name": "paddock-environment", "version": "0.0.0", "private": True}
        self._write("package.json", json.dumps(package_json | {"dependencies": {name: version or "latest"}}))
        result = self._run("looking for packages", "install", "--package-lock-only")
        if result.status != 0:
            raise classify_npm_failure(result, name, version)
        try:
            text = (self.folder / "package-lock.json").read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            raise HostError("npm wrote no lock", code="environment.client_failed") from error
        return pin_npm_lock(text, name)

    def view(self, name: str, version: str) -> dict[str, Any]:
        """Return the registry's untrusted metadata of one version."""
        result = self._run("asking about the package", "view", f"{name}@{version}", *_VIEW_FIELDS)
        if result.status != 0:
            raise classify_npm_failure(result, name, version)
        try:
            value: Any = json.loads(result.output)
        except (ValueError, RecursionError):
            value = None
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def install(self, lock: Lock) -> None:
        """Install what the lock pins, and nothing else.

        Raises:
            PaddockError: it failed; an archive with another hash is rejected.
        """
        self._write("package.json", build_package_json(lock))
        self._write("package-lock.json", build_package_lock(lock))
        result = self._run(f"installing {len(lock.packages)} npm packages", "ci")
        if result.status != 0:
            raise classify_npm_failure(result, lock.packages[0].name, lock.packages[0].version)

    def _write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def _run(self, step: str, command: str, *arguments: str) -> BoundedRun:
        program = shutil.which("npm", path=self.client.environ.get("PATH"))
        if program is None:
            raise Unreachable(
                "npm is not installed, and it fetches the packages of Node.js plugins",
                code="environment.no_npm",
                hint="apt install npm",
            )
        theirs = {name.lower() for name in self.client.environ}
        retries = {name: value for name, value in _RETRY_SETTINGS.items() if name not in theirs}
        options = (f"--prefix={self.folder}", *_NPM_OPTIONS)
        variables = {**retries, "NODE_OPTIONS": f"--require={_CONNECT_TIMEOUT}"}
        return self.client.run(step, [program, command, *options, *arguments], variables)


_ERROR_CODE = re.compile(r"npm (?:error|ERR!) code (\w+)")
_PACKAGE_NOT_FOUND = re.compile(rf"'({NPM_NAME_PATTERN})@[^']*'[^\n]* (?:is not in this registry|could not be found)")
_VERSION_NOT_FOUND = re.compile(rf"No matching version found for ({NPM_NAME_PATTERN})@(\S+?)\.?(?:\s|$)")
_NETWORK_CODES = frozenset(
    {
        "ECONNREFUSED",
        "ECONNRESET",
        "ENOTFOUND",
        "EAI_AGAIN",
        "ETIMEDOUT",
        "ENETUNREACH",
        "EHOSTUNREACH",
        "ERR_SOCKET_TIMEOUT",
        "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
        "SELF_SIGNED_CERT_IN_CHAIN",
        "CERT_HAS_EXPIRED",
        "E500",
        "E502",
        "E503",
        "E504",
    }
)


def classify_npm_failure(result: BoundedRun, name: str, version: str | None) -> PaddockError:
    """Translate a failure of npm into an error of ours."""
    code, message = _parse_output(result)
    details = {"package": name, "code": code, "said": message}
    match code:
        case "E404":
            match = _PACKAGE_NOT_FOUND.search(result.errors + message)
            return NotFound(
                f"there is no npm package {printable(match[1] if match else name)}",
                code="environment.package_not_found",
                hint="is the name spelt right, and does npm ask the right registry?",
                details=details,
            )
        case "ETARGET" | "ENOVERSIONS":
            match = _VERSION_NOT_FOUND.search(message)
            missing, missing_version = (match[1], match[2]) if match else (name, version or "latest")
            return NotFound(
                f"{printable(missing)} has no version {printable(missing_version)}",
                code="environment.version_not_found",
                hint=f"list them: npm view {printable(missing)} versions",
                details=details,
            )
        case "EINTEGRITY":
            return PluginError(
                "a package is not the file that you consented to: its hash is another",
                code="environment.hash_mismatch",
                hint="nothing was installed; if the change is honest, install again to be asked again",
                details=details,
            )
        case "ERESOLVE":
            return OperatorError(
                f"what {name} needs contradicts itself: {message}",
                code="environment.contradiction",
                hint="ask for another version of it",
                details=details,
            )
        case _ if "git error" in message:
            return OperatorError(
                f"{name} needs a package from a repository, which cannot be pinned by hash",
                code="environment.elsewhere",
                hint="ask its author for a version that needs only packages of the registry",
                details=details,
            )
        case _ if code in _NETWORK_CODES:
            return Unreachable(
                f"the npm registry cannot be reached: {message or code}",
                code="environment.unreachable",
                hint="look at the network and at npm's settings (npm config list)",
                details=details,
            )
        case _:
            return Unreachable(
                f"npm failed for {name}: {message or f'exit {result.status}'}",
                code="environment.client_failed",
                details=details,
            )


def _parse_output(result: BoundedRun) -> tuple[str, str]:
    """Return npm's own error code and its message."""
    try:
        value: Any = json.loads(result.output)
        error = value["error"]
        code, summary = str(error["code"] or ""), " ".join(str(error.get("summary") or "").split())
    except (ValueError, KeyError, TypeError, RecursionError):
        match = _ERROR_CODE.search(result.errors)
        return (match[1] if match else ""), error_lines(result)
    return code, printable(summary, 400) or error_lines(result)
