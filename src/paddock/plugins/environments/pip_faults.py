"""Why pip did not do it, read from what it printed, as an error that says what to do. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum, auto

from paddock.core.errors import NotFound, OperatorError, PaddockError, PluginError, Unreachable
from paddock.core.printable import printable
from paddock.plugins.environments.pip_alone import REFUSAL

_NO_MATCH = re.compile(r"No matching distribution found for ([A-Za-z0-9][A-Za-z0-9._-]*)(\S*)")
_OFFERED = re.compile(r"\(from versions: ([^)\n]*)\)")
_OTHER_PYTHON = re.compile(r"Requires-Python ([^;\n]+)")
_NETWORK = (
    "connection broken by",
    "Failed to establish a new connection",
    "Connection refused",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Read timed out",
    "Network is unreachable",
    ": connection error:",
    "Max retries exceeded",
    "SSLError",
)


class Fault(Enum):
    """The kinds of failure that a person can do something about."""

    NOTHING_FITS = auto()  # the package is unknown, or there is nothing built of it for this machine
    NO_SUCH_VERSION = auto()
    OTHER_PYTHON = auto()
    SOURCE_ONLY = auto()
    CONTRADICTION = auto()
    OTHER_HASH = auto()
    NETWORK = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class PipFault:
    """One failure: of which package, and what pip said."""

    kind: Fault
    name: str
    said: str
    wanted: str = ""
    offered: str = ""

    def after_listing(self, known: bool, output: str) -> PipFault:
        """The fault once its versions were asked for: `known` where the index has any, of whatever kind."""
        if known:
            return replace(self, kind=Fault.SOURCE_ONLY)
        return replace(self, kind=Fault.NETWORK) if _unreached(output) else self

    def error(self) -> PaddockError:
        details = {"package": self.name, "said": self.said}
        match self.kind:
            case Fault.NOTHING_FITS:
                return NotFound(
                    f"there is no Python package {self.name}",
                    code="environment.package_not_found",
                    hint="is the name spelt right, and does pip look at the right index?",
                    details=details,
                )
            case Fault.NO_SUCH_VERSION:
                return NotFound(
                    f"{self.name} has no version {self.wanted} that can be installed here",
                    code="environment.version_not_found",
                    hint=f"there is: {self.offered}",
                    details=details,
                )
            case Fault.OTHER_PYTHON:
                return OperatorError(
                    f"{self.name} needs another Python than the one Paddock runs on ({self.wanted})",
                    code="environment.other_python",
                    hint="ask for an older version of it, or run Paddock on a newer Python",
                    details=details,
                )
            case Fault.SOURCE_ONLY:
                return OperatorError(
                    f"{self.name} is offered as source only, and building it would run its code before you agreed",
                    code="environment.source_only",
                    hint="build it yourself where you trust it (pip wheel), and let pip find the wheel (find-links)",
                    details=details,
                )
            case Fault.CONTRADICTION:
                return OperatorError(
                    f"what {self.name} needs contradicts itself: {self.said}",
                    code="environment.contradiction",
                    hint="ask for another version of it, or leave out a --with",
                    details=details,
                )
            case Fault.OTHER_HASH:
                return PluginError(
                    "a package is not the file that you consented to: its hash is another",
                    code="environment.hash_mismatch",
                    hint="nothing was installed; if the change is honest, install again to be asked again",
                    details=details,
                )
            case Fault.NETWORK:
                return Unreachable(
                    f"the Python package index cannot be reached: {self.said}",
                    code="environment.unreachable",
                    hint="look at the network and at pip's settings (pip config list)",
                    details=details,
                )
            case _:
                return Unreachable(
                    f"pip failed for {self.name}: {self.said}", code="environment.client_failed", details=details
                )


def fault_of(output: str, said: str, wanted: str) -> PipFault:
    """What went wrong, from all that pip printed and the lines worth showing."""
    name = printable(re.split(r"[=<>!~\[ ]", wanted, maxsplit=1)[0])
    if "DO NOT MATCH THE HASHES" in output:
        return PipFault(Fault.OTHER_HASH, name, said)
    if REFUSAL in output:
        return PipFault(Fault.SOURCE_ONLY, _building(output) or name, said)
    match = _NO_MATCH.search(output)
    if match is not None and not _unreached(output):
        return _unmatched(match[1], match[2], output, said)
    if _unreached(output):
        return PipFault(Fault.NETWORK, name, said)
    if "ResolutionImpossible" in output or "conflicting dependencies" in output:
        return PipFault(Fault.CONTRADICTION, name, said)
    return PipFault(Fault.UNKNOWN, name, said)


def _unmatched(name: str, version: str, output: str, said: str) -> PipFault:
    offered = _OFFERED.search(output)
    versions = [one.strip() for one in offered[1].split(",")] if offered and offered[1] != "none" else []
    needs = _OTHER_PYTHON.findall(output)
    if versions:
        shown = printable(", ".join(versions[-8:]), 200)
        return PipFault(Fault.NO_SUCH_VERSION, name, said, printable(version.lstrip("="), 60), shown)
    if needs:
        return PipFault(Fault.OTHER_PYTHON, name, said, printable(f"it wants {needs[-1].strip()}", 80))
    return PipFault(Fault.NOTHING_FITS, name, said)


def _unreached(output: str) -> bool:
    return any(sign in output for sign in _NETWORK)


def _building(output: str) -> str | None:
    """The package that pip was about to build: the last that it began to look at."""
    found = re.findall(r"^Collecting ([A-Za-z0-9][A-Za-z0-9._-]*)", output, re.MULTILINE)
    return found[-1] if found else None
