"""Translates failures of uv into errors of ours. Pure."""

from __future__ import annotations

import re
from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.errors import NotFound, OperatorError, PaddockError, PluginError, Unreachable
from paddock.core.printable import printable

_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_UNKNOWN_PACKAGE = re.compile(rf"({_NAME}) was not found in the (?:package registry|provided package locations)")
_NO_VERSION = re.compile(rf"there (?:is|are) no versions? of ({_NAME})(?:\[[^\]]*\])?([^\s,]*)")
_OTHER_PYTHON = re.compile(rf"does not satisfy Python([^\s,]+) and ({_NAME})[^\s,]* depends on Python")
_NO_WHEEL = re.compile(
    rf"Wheels are (?:required|available) for `({_NAME})`|({_NAME})[^\s,]* has no (?:usable )?wheels|"
    rf"(?:Building|building) source distributions? (?:for|of) `?({_NAME})"
)
_URL_DEPENDENCY = re.compile(rf"Package `({_NAME})` (?:was included as a URL|attempted to resolve via URL)")
_RESERVED_SCRIPT = re.compile(r"Scripts must not use the reserved name `([^`]+)`")
_NETWORK_ERRORS = (
    "Failed to fetch:",
    "error sending request",
    "tcp connect error",
    "dns error",
    "operation timed out",
    "invalid peer certificate",
    "lack of valid authentication credentials",
    "network connectivity is disabled",
)


class UvFailureKind(Enum):
    """The kinds of failure that a person can act on."""

    NO_SUCH_PACKAGE = auto()
    NO_SUCH_VERSION = auto()
    PYTHON_MISMATCH = auto()
    NO_WHEEL = auto()
    URL_DEPENDENCY = auto()
    DEPENDENCY_CONFLICT = auto()
    HASH_MISMATCH = auto()
    RESERVED_SCRIPT = auto()
    NETWORK = auto()
    UNKNOWN = auto()


class UvFailure(Struct, frozen=True):
    """One failure: of which package, and what uv says."""

    kind: UvFailureKind
    name: str
    message: str
    required: str = ""
    newest: str = ""

    def with_newest(self, version: str) -> UvFailure:
        """Add the newest version that can be installed."""
        return replace(self, newest=version)

    def error(self) -> PaddockError:
        details = {"package": self.name, "said": self.message}
        match self.kind:
            case UvFailureKind.NO_SUCH_PACKAGE:
                return NotFound(
                    f"there is no Python package {self.name}",
                    code="environment.package_not_found",
                    hint="is the name spelt right, and do pip's settings name the right index?",
                    details=details,
                )
            case UvFailureKind.NO_SUCH_VERSION:
                return NotFound(
                    f"{self.name} has no version {self.required} that can be installed here",
                    code="environment.version_not_found",
                    hint=f"the newest is {self.newest}" if self.newest else "leave the version out for the newest",
                    details=details,
                )
            case UvFailureKind.PYTHON_MISMATCH:
                return OperatorError(
                    f"{self.name} needs another Python than the one Paddock runs on ({self.required})",
                    code="environment.other_python",
                    hint="ask for an older version of it, or run Paddock on a newer Python",
                    details=details,
                )
            case UvFailureKind.NO_WHEEL:
                return OperatorError(
                    f"{self.name} has no wheel for this machine, and building it from source would run its code before "
                    "you agreed",
                    code="environment.source_only",
                    hint="build it yourself where you trust it (pip wheel), and name its folder in pip's find-links",
                    details=details,
                )
            case UvFailureKind.URL_DEPENDENCY:
                return OperatorError(
                    f"{self.name} would come from an address of its own, not from the index",
                    code="environment.elsewhere",
                    hint="ask the author for a version that needs only packages of the index",
                    details=details,
                )
            case UvFailureKind.DEPENDENCY_CONFLICT:
                return OperatorError(
                    f"what {self.name} needs contradicts itself: {self.message}",
                    code="environment.contradiction",
                    hint="ask for another version of it, or fewer packages beside it",
                    details=details,
                )
            case UvFailureKind.HASH_MISMATCH:
                return PluginError(
                    "a package is not the file that you consented to: its hash is another",
                    code="environment.hash_mismatch",
                    hint="nothing was installed; if the change is honest, install again to be asked again",
                    details=details,
                )
            case UvFailureKind.RESERVED_SCRIPT:
                return PluginError(
                    f"a package brings bin/{self.name}, which belongs to the environment itself",
                    code="environment.strange_file",
                    hint="nothing was installed and nothing of it ran; do not trust it before its author explains that",
                    details=details,
                )
            case UvFailureKind.NETWORK:
                return Unreachable(
                    f"the Python package index cannot be reached: {self.message}",
                    code="environment.unreachable",
                    hint="look at the network and at pip's settings (pip config list)",
                    details=details,
                )
            case UvFailureKind.UNKNOWN:
                return Unreachable(
                    f"uv failed for {self.name}: {self.message}", code="environment.client_failed", details=details
                )


def classify_uv_failure(output: str, requirement: str) -> UvFailure:
    """Classify a failure from all that uv printed."""
    name = printable(re.split(r"[=<>!~\[ ;@]", requirement, maxsplit=1)[0])
    said = " ".join(output.split())  # uv wraps its sentences
    message = _shorten(output)
    if "Hash mismatch for" in said:
        return UvFailure(UvFailureKind.HASH_MISMATCH, name, message)
    if match := _RESERVED_SCRIPT.search(said):
        return UvFailure(UvFailureKind.RESERVED_SCRIPT, printable(match[1], 60), message)
    if match := _URL_DEPENDENCY.search(said):
        return UvFailure(UvFailureKind.URL_DEPENDENCY, printable(match[1]), message)
    if any(sign in said for sign in _NETWORK_ERRORS):
        return UvFailure(UvFailureKind.NETWORK, name, message)
    if match := _UNKNOWN_PACKAGE.search(said):
        return UvFailure(UvFailureKind.NO_SUCH_PACKAGE, printable(match[1]), message)
    if match := _NO_WHEEL.search(said):
        return UvFailure(UvFailureKind.NO_WHEEL, printable(match[1] or match[2] or match[3]), message)
    if match := _NO_VERSION.search(said):
        return UvFailure(
            UvFailureKind.NO_SUCH_VERSION, printable(match[1]), message, printable(match[2].lstrip("="), 60)
        )
    if match := _OTHER_PYTHON.search(said):
        wanted = printable(f"it wants {match[1]}", 80)
        return UvFailure(UvFailureKind.PYTHON_MISMATCH, printable(match[2]), message, wanted)
    if "No solution found" in said:
        return UvFailure(UvFailureKind.DEPENDENCY_CONFLICT, name, message)
    return UvFailure(UvFailureKind.UNKNOWN, name, message)


def _shorten(output: str) -> str:
    """Return the reasons that uv gives, or else its last lines."""
    lines = [printable(line.strip(), 300) for line in output.splitlines() if line.strip()]
    first = next((number for number, line in enumerate(lines) if line.startswith("error:")), None)
    reasons = lines[first:] if first is not None else lines[-4:]
    reasons = [line.removeprefix("error:").removeprefix("cause:").strip() for line in reasons]
    if len(reasons) > 1 and reasons[0].startswith("No solution found"):
        del reasons[0]
    return printable("; ".join(reasons), 600)
