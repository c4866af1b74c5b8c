"""Names and versions of packages in registries, as a person types them.

What passes here may be handed to pip or npm.
"""

from __future__ import annotations

import re

from paddock.core.errors import OperatorError
from paddock.core.printable import printable

_EXTRA = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,60}[A-Za-z0-9])?"
_PYPI_NAME = rf"[A-Za-z0-9](?:[A-Za-z0-9._-]{{0,126}}[A-Za-z0-9])?(?:\[{_EXTRA}(?:,{_EXTRA})*\])?"
_CLAUSE = r"(?:===|==|>=|<=|~=|!=|<|>)\s*[A-Za-z0-9][A-Za-z0-9.!+*_-]{0,60}"
_SPECIFIER = re.compile(rf"{_CLAUSE}(?:\s*,\s*{_CLAUSE}){{0,9}}")
_PYPI = re.compile(rf"({_PYPI_NAME})\s*(.*)", re.DOTALL)
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,60}")
_NPM = re.compile(r"((?:@[a-z0-9~-][a-z0-9._~-]{0,100}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{0,200})(?:@(.*))?", re.DOTALL)
_RANGE = re.compile(r"[A-Za-z0-9^~<>=*][A-Za-z0-9^~<>=*|.+ -]{0,100}")


def split_pypi(text: str, ref: str | None = None) -> tuple[str, str | None]:
    """A Python package and which versions of it: `NAME`, `NAME[EXTRA]`, `NAME==1.2`, `NAME>=1,<2`, `NAME@1.2`.

    Raises:
        OperatorError: it is neither.
    """
    found = _PYPI.fullmatch(text)
    name, written = (found[1], found[2].strip()) if found else ("", "")
    version = _one(written.removeprefix("@").strip() if written.startswith("@") else written, ref)
    if version and _VERSION.fullmatch(version):
        version = f"=={version}"
    if not name or (version and not _SPECIFIER.fullmatch(version)):
        raise _refused(f"pypi:{text}", "write pypi:NAME, pypi:NAME==1.2.3 or pypi:NAME>=1,<2")
    return name, "".join(version.split()) if version else None


def check_constraint(text: str) -> str:
    """A Python package with the versions of it that may come along: `mcp<2`.

    Raises:
        OperatorError: it is not one.
    """
    name, version = split_pypi(text)
    return name + (version or "")


def split_npm(text: str, ref: str | None = None) -> tuple[str, str | None]:
    """An npm package and which version of it: `NAME`, `@SCOPE/NAME`, `NAME@1.2.3`, `NAME@latest`, `NAME@^1.2`.

    Raises:
        OperatorError: it is neither.
    """
    found = _NPM.fullmatch(text)
    version = _one(found[2] or "", ref) if found else ""
    if found is None or (version and not _RANGE.fullmatch(version)) or found[2] == "":
        raise _refused(f"npm:{text}", "write npm:NAME, npm:@SCOPE/NAME or npm:NAME@1.2.3")
    return found[1], version or None


def _one(written: str, ref: str | None) -> str:
    if written and ref and written not in (ref, f"=={ref}"):
        raise OperatorError(
            f"two versions: {printable(written)} and {printable(ref)}", code="source.unknown", hint="give one of them"
        )
    return written or ref or ""


def _refused(text: str, hint: str) -> OperatorError:
    return OperatorError(f"{printable(text)} is not the name of a package", code="source.unknown", hint=hint)
