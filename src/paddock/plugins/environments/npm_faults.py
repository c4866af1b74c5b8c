"""Why npm did not do it, read from what it printed, as an error that says what to do. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from paddock.core.errors import NotFound, OperatorError, PaddockError, PluginError, Unreachable
from paddock.core.printable import printable
from paddock.plugins.environments.clients import Finished

_CODE = re.compile(r"npm (?:error|ERR!) code (\w+)")
_MISSING = re.compile(r"'((?:@[\w.~-]+/)?[\w.~-]+)@[^']*'[^\n]* (?:is not in this registry|could not be found)")
_NO_TARGET = re.compile(r"No matching version found for ((?:@[\w.~-]+/)?[\w.~-]+)@(\S+?)\.?(?:\s|$)")
_NETWORK = frozenset(
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


def npm_error(done: Finished, name: str, version: str | None) -> PaddockError:
    """What went wrong, as an error of ours."""
    code, said = _told(done)
    details = {"package": name, "code": code, "said": said}
    match code:
        case "E404":
            found = _MISSING.search(done.err + said)
            return NotFound(
                f"there is no npm package {printable(found[1] if found else name)}",
                code="environment.package_not_found",
                hint="is the name spelt right, and does npm ask the right registry?",
                details=details,
            )
        case "ETARGET" | "ENOVERSIONS":
            found = _NO_TARGET.search(said)
            missing, wanted = (found[1], found[2]) if found else (name, version or "latest")
            return NotFound(
                f"{printable(missing)} has no version {printable(wanted)}",
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
                f"what {name} needs contradicts itself: {said}",
                code="environment.contradiction",
                hint="ask for another version of it",
                details=details,
            )
        case _ if "git error" in said:
            return OperatorError(
                f"{name} needs a package from a repository, which cannot be pinned by hash",
                code="environment.elsewhere",
                hint="ask its author for a version that needs only packages of the registry",
                details=details,
            )
        case _ if code in _NETWORK:
            return Unreachable(
                f"the npm registry cannot be reached: {said or code}",
                code="environment.unreachable",
                hint="look at the network and at npm's settings (npm config list)",
                details=details,
            )
        case _:
            return Unreachable(
                f"npm failed for {name}: {said or f'exit {done.code}'}",
                code="environment.client_failed",
                details=details,
            )


def _told(done: Finished) -> tuple[str, str]:
    """npm's own code for it, and its words."""
    try:
        value: Any = json.loads(done.out)
        error = value["error"]
        code, summary = str(error["code"] or ""), " ".join(str(error.get("summary") or "").split())
    except (ValueError, KeyError, TypeError, RecursionError):
        found = _CODE.search(done.err)
        return (found[1] if found else ""), done.lines()
    return code, printable(summary, 400) or done.lines()
