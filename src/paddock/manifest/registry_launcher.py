"""Recognises commands that fetch a server from a package registry at start: `npx -y NAME`, `uvx NAME`, …. Pure.

A cage has no network to fetch with, so such a command never runs there. Nearly every one names a package that can be
pinned and installed beforehand instead, and then needs no launcher.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from paddock.core.printable import printable
from paddock.manifest.capability import NetworkAccess
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.manifest.registry_package import parse_npm_package, parse_python_requirement


class RegistryCommand(Struct, frozen=True):
    """The package that a launcher would fetch, and how it would start the server in it."""

    registry: Literal["npm", "pypi"]
    package: str  # with its version, if the command names one
    program: str | None  # None: the package's default program
    arguments: tuple[str, ...]
    extra_packages: tuple[str, ...] = ()  # Python packages to install with it, e.g. `mcp<2`

    @property
    def source(self) -> str:
        """The package as `paddock plugin install` accepts it."""
        return f"{self.registry}:{self.package}"

    @property
    def name(self) -> str:
        """The name of an npm package, without its version."""
        return self.package[:1] + self.package[1:].partition("@")[0]


class UnsupportedLauncher(Struct, frozen=True):
    """A launcher command that names no package we could install instead, with the reason."""

    why: str


LauncherCommand: TypeAlias = RegistryCommand | UnsupportedLauncher


class _Launcher(Struct, frozen=True):
    """The options of one launcher: those that change nothing here, and those that take a value."""

    registry: Literal["npm", "pypi"]
    ignored: frozenset[str] = frozenset()
    ignored_values: frozenset[str] = frozenset()
    package: frozenset[str] = frozenset()  # options that name the package; the first word is then a program
    extra_packages: frozenset[str] = frozenset()


_VERBOSITY_OPTIONS = {"-q", "--quiet", "-s", "--silent", "-v", "--verbose"}
_NODE = _Launcher(
    "npm",
    frozenset({"-y", "--yes", "--bun", "--prefer-online", "--prefer-offline", *_VERBOSITY_OPTIONS}),
    package=frozenset({"-p", "--package"}),
)
# The host chooses the Python version: a package that does not support it is refused before it is shown.
_UV = _Launcher(
    "pypi",
    frozenset({"-n", "--no-cache", "--refresh", "--isolated", "--no-progress", "-U", "--upgrade", *_VERBOSITY_OPTIONS}),
    frozenset({"-p", "--python"}),
    frozenset({"--from"}),
    frozenset({"-w", "--with"}),
)
_PIPX = _Launcher(
    "pypi", frozenset({"--no-cache", *_VERBOSITY_OPTIONS}), frozenset({"--python"}), frozenset({"--spec"})
)
_LAUNCHERS: dict[tuple[str, ...], _Launcher] = {
    ("npx",): _NODE,
    ("bunx",): _NODE,
    ("pnpx",): _NODE,
    ("npm", "exec"): _NODE,
    ("bun", "x"): _NODE,
    ("pnpm", "dlx"): _NODE,
    ("yarn", "dlx"): _NODE,
    ("uvx",): _UV,
    ("uv", "tool", "run"): _UV,
    ("pipx", "run"): _PIPX,
}
_CONTAINERS = frozenset({"docker", "podman", "nerdctl"})


def parse_launcher(command: Sequence[str]) -> LauncherCommand | None:
    """Return what a command would fetch and start; None if it is not a launcher command."""
    words = _strip_shell(command)
    name = _program_base_name(words[0]) if words else ""
    if name in _CONTAINERS:
        return UnsupportedLauncher(f"{name} needs its own daemon, which no cage can reach")
    if name == "dnx":
        return UnsupportedLauncher("dnx fetches packages of a registry that Paddock does not install from")
    if name == "uv" and "run" in words and words[1:3] != ["tool", "run"]:
        return UnsupportedLauncher("uv prepares a project when it starts, and in a cage it can neither fetch nor write")
    for prefix, launcher in _LAUNCHERS.items():
        if (name, *words[1 : len(prefix)]) == prefix:
            return _parse_words(launcher, words[len(prefix) :])
    return None


def fetched_at_start(manifest: Manifest) -> LauncherCommand | None:
    """Return what a plugin's command would fetch in a cage without network; None where it need not fail.

    A plugin that requests network access may be able to fetch.
    """
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime):
        return None
    launcher_command = parse_launcher(runtime.command)
    connected = any(isinstance(one, NetworkAccess) for one in manifest.capabilities)
    return None if connected and _program_base_name(runtime.command[0]) not in _CONTAINERS else launcher_command


def _strip_shell(command: Sequence[str]) -> list[str]:
    """Return the words without the shell prefix of Windows settings (`cmd /c`)."""
    words = list(command)
    if len(words) > 2 and _program_base_name(words[0]) == "cmd" and words[1].lower() == "/c":
        return words[2:]
    return words


def _program_base_name(program: str) -> str:
    name = re.split(r"[/\\]", program)[-1]
    return re.sub(r"\.(?:cmd|exe)\Z", "", name, flags=re.IGNORECASE)


def _parse_words(launcher: _Launcher, words: Sequence[str]) -> LauncherCommand:
    packages: list[str] = []
    extra_packages: list[str] = []
    rest = iter(words)
    first: str | None = None
    for word in rest:
        if word == "--":
            first = next(rest, None)
            break
        if not word.startswith("-"):
            first = word
            break
        option, equals, value = word.partition("=")
        if option in launcher.ignored and not equals:
            continue
        if option not in launcher.package | launcher.extra_packages | launcher.ignored_values:
            return UnsupportedLauncher(
                f"what {printable(option, 80)} would change cannot be said of an installed package"
            )
        value = value if equals else next(rest, "")
        if option in launcher.package:
            packages.append(value)
        elif option in launcher.extra_packages:
            extra_packages += value.split(",")
    return _registry_command(launcher, packages, extra_packages, first, tuple(_strip_separator(launcher, rest)))


def _strip_separator(launcher: _Launcher, rest: Iterator[str]) -> list[str]:
    """Return the server's arguments, without npm's own `--` of `npm exec NAME -- ARGS`."""
    words = list(rest)
    return words[1:] if launcher is _NODE and words[:1] == ["--"] else words


def _is_package(launcher: _Launcher, text: str) -> bool:
    if launcher.registry == "npm":
        return parse_npm_package(text) is not None
    requirement = parse_python_requirement(text)
    return requirement is not None and requirement.marker is None


def _registry_command(
    launcher: _Launcher,
    packages: Sequence[str],
    extra_packages: Sequence[str],
    first: str | None,
    arguments: tuple[str, ...],
) -> LauncherCommand:
    if first is None:
        return UnsupportedLauncher("it names no package")
    if len(packages) > 1:
        return UnsupportedLauncher("it names several packages")
    package = packages[0] if packages else first
    if launcher.registry == "pypi":
        package = re.sub(r"\s+", "", package).removesuffix("@latest")
    for requirement in (package, *extra_packages):
        if not _is_package(launcher, requirement):
            return UnsupportedLauncher(f"{printable(requirement, 120)} is not a package of a registry")
    return RegistryCommand(launcher.registry, package, first if packages else None, arguments, tuple(extra_packages))
