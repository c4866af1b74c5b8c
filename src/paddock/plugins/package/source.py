"""Package sources: a directory, an archive, a server file, a git repository at a ref, or a package registry.

`parse_source` turns what a person typed into a `PackageSource`; `SourceRecord` is what the store keeps once it was
fetched, with the commit that the ref meant at that time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import HostError, NotFound, OperatorError
from paddock.core.printable import printable
from paddock.manifest.registry_package import parse_npm_package, parse_python_requirement
from paddock.manifest.server_file.server_file import LANGUAGE_SUFFIXES

ARCHIVE_SUFFIXES = frozenset({".zip", ".mcpb", ".dxt"})
_COMPILED_SUFFIXES = frozenset({".ts", ".mts", ".cts"})

_SCP_FORM = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^:]+")
_HOST = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9.:\-\]]*")
_COMMIT = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")
_REF = re.compile(r"(?!-)[^\s\x00-\x20\x7f~^:?*\[\\]{1,255}")
_ACCEPTED_FORMS = (
    "give a directory, a .zip, .mcpb or .dxt file, an MCP server in a .py, .js or executable file, a git URL such as "
    "git+https://host/name.git#v1.0.0, or a package such as pypi:NAME or npm:NAME"
)


class SourceKind(StrEnum):
    """The kinds of package sources."""

    DIRECTORY = "directory"
    ARCHIVE = "archive"
    GIT = "git"
    CONFIGURATION = "configuration"  # a server known only from another program's settings
    PYPI = "pypi"  # the Python package index, or the one that pip's settings name
    NPM = "npm"  # the npm registry, likewise
    UPLOAD = "upload"  # a file sent by a browser; the location is its name there
    SERVER_FILE = "server_file"  # an MCP server that is one file

    @property
    def registry(self) -> bool:
        """Whether packages come from there by name."""
        return self in (SourceKind.PYPI, SourceKind.NPM)


class PackageSource(Struct, frozen=True):
    """A package source.

    `location` is an absolute path, for git a URL, for a registry the name of a package. `ref` is git's, or the version
    requested from a registry. `constraints` limit the dependencies of a registry package, and add to those of a server
    file.
    """

    kind: SourceKind
    location: str
    ref: str | None = None
    constraints: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Whether it is read from this machine's disk."""
        if self.kind is SourceKind.GIT:
            return self.location.startswith("file:")
        return self.kind in (
            SourceKind.DIRECTORY,
            SourceKind.ARCHIVE,
            SourceKind.CONFIGURATION,
            SourceKind.SERVER_FILE,
        )

    @property
    def server_file(self) -> bool:
        """Whether it is an MCP server in one file."""
        uploaded = self.kind is SourceKind.UPLOAD and Path(self.location).suffix.lower() in LANGUAGE_SUFFIXES
        return uploaded or self.kind is SourceKind.SERVER_FILE

    @property
    def without_manifest(self) -> bool:
        """Whether Paddock writes the manifest of what comes from there, and a person chooses the capabilities."""
        return self.kind.registry or self.kind is SourceKind.CONFIGURATION or self.server_file

    @property
    def text(self) -> str:
        """What `parse_source` reads as this source, without its constraints; empty for an upload."""
        if self.kind is SourceKind.UPLOAD:
            return ""
        if self.kind is SourceKind.GIT:
            return f"git+{self.location}" + (f"#{self.ref}" if self.ref else "")
        if not self.kind.registry:
            return self.location
        separator = "@" if self.kind is SourceKind.NPM and self.ref else ""
        return f"{self.kind}:{self.location}{separator}{self.ref or ''}"

    def grant_action(self, capability: str, *, server: str = "NAME") -> Action | None:
        """Return the action that gives the server from this source a capability; None if its manifest declares them.

        `server` is its name in another program's settings.
        """
        if self.kind is SourceKind.CONFIGURATION:
            return Action.of("plugin.import", file=self.location, only=server, capability=capability)
        if not self.without_manifest or not self.text:
            return None
        return Action.of("plugin.install", source=self.text, capability=capability)

    def describe(self) -> str:
        """Describe the source for the consent screen."""
        if self.kind is SourceKind.GIT:
            return f"git repository {printable(self.location)} at {printable(self.ref or 'its default branch')}"
        constraint_text = f" with {printable(', '.join(self.constraints))}" if self.constraints else ""
        if self.kind.registry:
            return f"{self.kind} package {printable(self.location)}{constraint_text}"
        if self.kind is SourceKind.SERVER_FILE:
            return f"file {printable(self.location)}{constraint_text}"
        if self.kind is SourceKind.UPLOAD:
            return f"uploaded file {printable(self.location)}"
        return f"{self.kind} {printable(self.location)}"


class SourceRecord(Struct, frozen=True):
    """A fetched source, with the commit that a git ref meant at that time."""

    source: PackageSource
    commit: str | None = None

    def describe(self) -> str:
        """Describe the source with its commit."""
        return self.source.describe() + (f" (commit {self.commit[:12]})" if self.commit else "")

    def to_value(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "kind": str(self.source.kind),
            "location": self.source.location,
            "ref": self.source.ref,
            "commit": self.commit,
        } | ({"constraints": list(self.source.constraints)} if self.source.constraints else {})

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> SourceRecord:
        """Parse the form that `to_value` returned.

        Raises:
            HostError: it is malformed.
        """
        try:
            source = PackageSource(
                SourceKind(value["kind"]), str(value["location"]), value["ref"], tuple(value.get("constraints", ()))
            )
            return cls(source, value["commit"])
        except (KeyError, ValueError) as error:
            raise HostError("the stored source of a plugin is damaged", code="store.damaged") from error


def is_commit(ref: str) -> bool:
    """Whether the ref is a full commit id."""
    return _COMMIT.fullmatch(ref) is not None


def parse_source(
    text: str, ref: str | None = None, base: Path | None = None, constraints: Sequence[str] = ()
) -> PackageSource:
    """Parse the source that a person typed. Relative paths start at `base`, or at the working directory.

    Git is meant by `git+URL`, `git+PATH`, `https://….git`, `ssh://…`, `git@host:path`, and by a local path with a ref
    (`PATH#v1.0.0`, or `ref`). A registry is meant by `pypi:NAME`, `pypi:NAME==1.2.3`, `npm:NAME` and `npm:NAME@1.2.3`.

    Raises:
        NotFound: it is a path that does not exist.
        OperatorError: it is not a source we can fetch; the hint says what would be right.
    """
    if not text or len(text) > 4_096 or not text.isprintable():
        raise _bad_source_error("the source is empty, too long, or holds characters that do not print")
    if text.startswith("-"):
        raise _bad_source_error(f"{printable(text)} begins with '-'", f"write ./{printable(text)} if it is a path")
    if text.startswith(("pypi:", "npm:")):
        return _registry_source(text, ref, constraints)
    source = _other_source(text, ref, base or _working_directory(text.removeprefix("git+")))
    if not constraints:
        return source
    if source.kind is not SourceKind.SERVER_FILE:
        raise _bad_source_error(f"constraints are for Python packages, and {printable(text)} is none", "leave it out")
    return replace(source, constraints=tuple(check_constraint(one) for one in constraints))


def _other_source(text: str, ref: str | None, directory: Path) -> PackageSource:
    """Parse a source that is no registry package."""
    if text.startswith("git+"):
        return _git_source(*_split_ref(text.removeprefix("git+"), ref), directory)
    if not text.startswith("/") and ("://" in text or "::" in text):
        address, parsed_ref = _split_ref(text, ref)
        if address.startswith("ssh://") or (address.startswith(("https://", "file://")) and address.endswith(".git")):
            return _git_source(address, parsed_ref, directory)
        if address.partition("?")[0].lower().endswith(tuple(ARCHIVE_SUFFIXES)):
            raise _bad_source_error(
                f"{printable(text)} is not fetched from the network", "download it, then install the file"
            )
        raise _bad_source_error(
            f"{printable(text)} is not a source we know", f"for a git repository write git+{printable(text)}"
        )
    if _SCP_FORM.fullmatch(text) and not (directory / text).exists():
        return _git_source(*_split_ref(text, ref), directory)
    return _local_source(text, ref, directory)


def names_network_source(text: str) -> bool:
    """Whether a source names a registry or a remote git repository, judged by the text alone."""
    address = text.removeprefix("git+").partition("#")[0]
    return (
        text.startswith(("pypi:", "npm:"))
        or address.startswith(("https://", "ssh://"))
        or bool(_SCP_FORM.fullmatch(address))
    )


def absolute_source(text: str, ref: str | None = None) -> tuple[str, str | None]:
    """Return a typed source and its ref for a host with another working directory: a path becomes absolute.

    Raises:
        PaddockError: see `parse_source`.
    """
    source = parse_source(text, ref)
    if not source.local:
        return text, ref
    return (f"git+{source.location}" if source.kind is SourceKind.GIT else source.location), source.ref


def _registry_source(text: str, ref: str | None, constraints: Sequence[str]) -> PackageSource:
    kind, _, rest = text.partition(":")
    if kind == "npm":
        if constraints:
            raise _bad_source_error("constraints are for Python packages", "leave it out")
        name, version = parse_npm_requirement(rest, ref)
        return PackageSource(SourceKind.NPM, name, version)
    name, version = parse_pypi_requirement(rest, ref)
    return PackageSource(SourceKind.PYPI, name, version, tuple(check_constraint(one) for one in constraints))


def with_ref(source: PackageSource, ref: str) -> PackageSource:
    """Return the source at another ref or version.

    Raises:
        OperatorError: the ref is invalid.
    """
    if source.kind is SourceKind.NPM:
        return replace(source, ref=parse_npm_requirement(source.location, ref)[1])
    if source.kind is SourceKind.PYPI:
        return replace(source, ref=parse_pypi_requirement(source.location, ref)[1])
    return replace(source, ref=check_ref(ref))


def check_ref(ref: str) -> str:
    """Return the ref if it can safely be passed to git.

    Raises:
        OperatorError: it is not the name of a tag or branch, nor a commit.
    """
    if not _REF.fullmatch(ref) or ".." in ref or "@{" in ref or not ref.isprintable():
        raise OperatorError(
            f"{printable(ref)} is not a git ref", code="source.bad_ref", hint="give a tag, a branch or a commit"
        )
    return ref


def _bad_source_error(message: str, hint: str = _ACCEPTED_FORMS) -> OperatorError:
    return OperatorError(message, code="source.unknown", hint=hint)


def _split_ref(text: str, ref: str | None) -> tuple[str, str | None]:
    address, separator, own_ref = text.partition("#")
    if separator and ref is not None and own_ref != ref:
        raise _bad_source_error(f"two refs: {printable(own_ref)} and {printable(ref)}", "give one of them")
    chosen = own_ref if separator else ref
    return address, None if chosen is None else check_ref(chosen)


def _local_source(text: str, ref: str | None, base: Path) -> PackageSource:
    path = base / text
    if "#" in text and not path.exists():
        address, ref = _split_ref(text, ref)
        return _git_source(address, ref, base)
    if ref is not None:
        return _git_source(text, check_ref(ref), base)
    path = path.resolve()
    if path.is_dir():
        return PackageSource(SourceKind.DIRECTORY, str(path))
    if not path.exists():
        raise _path_not_found_error(path)
    if path.is_file() and path.suffix.lower() in ARCHIVE_SUFFIXES:
        return PackageSource(SourceKind.ARCHIVE, str(path))
    if path.is_file() and (path.suffix.lower() in LANGUAGE_SUFFIXES or path.stat().st_mode & 0o111):
        return PackageSource(SourceKind.SERVER_FILE, str(path))
    if path.suffix.lower() in _COMPILED_SUFFIXES:
        raise _bad_source_error(
            f"{printable(str(path))} is TypeScript, which a cage does not run", "compile it, then install the .js file"
        )
    raise _bad_source_error(
        f"{printable(str(path))} is neither a directory nor a .zip, .mcpb or .dxt file, nor a program"
    )


def _git_source(address: str, ref: str | None, base: Path) -> PackageSource:
    if _SCP_FORM.fullmatch(address):
        return PackageSource(SourceKind.GIT, address, ref)
    if "::" in address:
        raise _bad_source_error(f"{printable(address)} would run a program to fetch", "use https or ssh")
    if "://" not in address:
        return PackageSource(SourceKind.GIT, _file_url(base / address), ref)
    try:
        parts = urlsplit(address)
        host, password = parts.hostname or "", parts.password
    except ValueError as error:
        raise _bad_source_error(f"{printable(address)} is not a URL") from error
    if parts.scheme == "file":
        if host:
            raise _bad_source_error(
                f"{printable(address)} names a host", "file URLs have three slashes: git+file:///path"
            )
        return PackageSource(SourceKind.GIT, _file_url(Path(unquote(parts.path))), ref)
    if parts.scheme not in ("https", "ssh"):
        raise _bad_source_error(f"{printable(parts.scheme)}:// does not protect what it carries", "use https or ssh")
    # The URL is shown and recorded, so it must not hold a secret.
    if password is not None or (parts.scheme == "https" and parts.username is not None):
        raise OperatorError(
            "the URL holds a user name or password, which would be recorded",
            code="source.secret_in_url",
            hint="use an ssh URL, or clone it yourself and install the directory",
        )
    if not _HOST.fullmatch(host) or (parts.username or "").startswith("-") or parts.query:
        raise _bad_source_error(f"{printable(address)} is not the address of a git repository")
    return PackageSource(SourceKind.GIT, address, ref)


def _file_url(path: Path) -> str:
    path = path.resolve()
    if not path.exists():
        raise _path_not_found_error(path)
    is_repository = (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())
    if not is_repository:
        raise OperatorError(f"{printable(str(path))} is not a git repository", code="source.not_a_repository")
    return "file://" + quote(str(path))


def _path_not_found_error(path: Path) -> NotFound:
    return NotFound(f"{printable(str(path))} does not exist", code="source.not_found", hint=_ACCEPTED_FORMS)


def _working_directory(text: str) -> Path:
    """Return where a relative path starts. A removed working directory matters only to those."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        if Path(text).is_absolute() or ":" in text:
            return Path("/")
        raise NotFound(
            "the working directory is gone", code="source.not_found", hint="cd somewhere else, or give an absolute path"
        ) from error


def parse_pypi_requirement(text: str, ref: str | None = None) -> tuple[str, str | None]:
    """Parse a Python package and its versions: `NAME`, `NAME[EXTRA]`, `NAME==1.2`, `NAME>=1,<2`, `NAME@1.2`.

    Raises:
        OperatorError: it is none of these.
    """
    requirement = parse_python_requirement(text)
    if requirement is None or requirement.marker is not None:
        raise _bad_python_package_error(text)
    name = requirement.name + (f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else "")
    versions = str(requirement.specifier)
    if ref:
        chosen = parse_python_requirement(f"{name}@{ref}") or parse_python_requirement(f"{name} {ref}")
        if chosen is None or not chosen.specifier or chosen.marker is not None:
            raise _bad_python_package_error(f"{text} {ref}")
        _check_single_version(versions, str(chosen.specifier))
        versions = str(chosen.specifier)
    return name, versions or None


def check_constraint(text: str) -> str:
    """Parse a Python package with the versions that are meant, as in `mcp<2`, and return it normalised.

    Raises:
        OperatorError: it is not one.
    """
    name, version = parse_pypi_requirement(text)
    return name + (version or "")


def parse_npm_requirement(text: str, ref: str | None = None) -> tuple[str, str | None]:
    """Parse an npm package and its version: `NAME`, `@SCOPE/NAME`, `NAME@1.2.3`, `NAME@latest`, `NAME@^1.2`.

    Raises:
        OperatorError: it is none of these.
    """
    package = parse_npm_package(text)
    if package is not None and ref:
        _check_single_version(package.version or "", ref)
        package = parse_npm_package(f"{package.name}@{ref}")
    if package is None:
        raise _bad_package_error(f"npm:{text}", "write npm:NAME, npm:@SCOPE/NAME or npm:NAME@1.2.3")
    return package


def _check_single_version(version: str, ref: str) -> None:
    if version and version != ref:
        raise OperatorError(
            f"two versions: {printable(version)} and {printable(ref)}", code="source.unknown", hint="give one of them"
        )


def _bad_python_package_error(text: str) -> OperatorError:
    return _bad_package_error(f"pypi:{text}", "write pypi:NAME, pypi:NAME==1.2.3 or pypi:NAME>=1,<2")


def _bad_package_error(text: str, hint: str) -> OperatorError:
    return OperatorError(f"{printable(text)} is not the name of a package", code="source.unknown", hint=hint)
