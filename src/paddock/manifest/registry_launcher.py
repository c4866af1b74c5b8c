"""Commands that fetch a server from a package registry each time they start it: `npx -y NAME`, `uvx NAME`, …. Pure.

A cage has nothing to fetch with, so such a command never runs there. Nearly every one names a package that can be
pinned and installed beforehand instead, and then needs no launcher.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from paddock.core.printable import printable
from paddock.manifest.capability import NetworkAccess
from paddock.manifest.model import CommandRuntime, Manifest

_VERSION = r"[A-Za-z0-9][A-Za-z0-9.!+_-]{0,60}"
_NPM = re.compile(rf"(?:@[a-z0-9~-][a-z0-9._~-]{{0,100}}/)?[A-Za-z0-9~][A-Za-z0-9._~-]{{0,200}}(?:@[\^~]?{_VERSION})?")
_PYPI = re.compile(
    r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]{1,100}\])?"
    rf"(?:(?:(?:==|>=|<=|~=|<|>){_VERSION})(?:,(?:==|>=|<=|~=|!=|<|>){_VERSION}){{0,5}}|@{_VERSION})?"
)


@dataclass(frozen=True, slots=True)
class RegistryCommand:
    """The package that a launcher would fetch, and how it would start the server in it."""

    registry: Literal["npm", "pypi"]
    package: str  # with its version, where the command names one
    program: str | None  # None: the package's own
    arguments: tuple[str, ...]
    extra_packages: tuple[str, ...] = ()  # Python packages that are to come with it, `mcp<2`

    @property
    def source(self) -> str:
        """As `paddock plugin install` takes it."""
        return f"{self.registry}:{self.package}"

    @property
    def name(self) -> str:
        """Of an npm package, without its version."""
        return self.package[:1] + self.package[1:].partition("@")[0]


@dataclass(frozen=True, slots=True)
class UnsupportedLauncher:
    """A launcher's command that names no package we could install instead; says why, in words."""

    why: str


LauncherCommand: TypeAlias = RegistryCommand | UnsupportedLauncher


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The options of one program: those that change nothing here, and those that take a value."""

    registry: Literal["npm", "pypi"]
    ignored: frozenset[str] = frozenset()
    ignored_values: frozenset[str] = frozenset()
    package: frozenset[str] = frozenset()  # names the package; then the first word is a program
    along: frozenset[str] = frozenset()


_VERBOSITY_OPTIONS = {"-q", "--quiet", "-s", "--silent", "-v", "--verbose"}
_NODE = _Launcher(
    "npm",
    frozenset({"-y", "--yes", "--bun", "--prefer-online", "--prefer-offline", *_VERBOSITY_OPTIONS}),
    package=frozenset({"-p", "--package"}),
)
# Which Python it is stays ours to say: a package that does not run with it is refused before it is shown.
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
    """What a command would fetch and start; None for a command that is no launcher's."""
    words = _strip_shell(command)
    name = _program_base_name(words[0]) if words else ""
    if name in _CONTAINERS:
        return UnsupportedLauncher(f"{name} needs its own daemon, which no cage can reach")
    if name == "dnx":
        return UnsupportedLauncher("dnx fetches packages of a registry that Paddock does not install from")
    if name == "uv" and "run" in words and words[1:3] != ["tool", "run"]:
        return UnsupportedLauncher("uv prepares a project when it starts, and in a cage it can neither fetch nor write")
    for start, launcher in _LAUNCHERS.items():
        if (name, *words[1 : len(start)]) == start:
            return _parse_words(launcher, words[len(start) :])
    return None


def fetched_at_start(manifest: Manifest) -> LauncherCommand | None:
    """What a plugin's command would fetch in a cage that keeps it from doing so; None where nothing says it must fail.

    Who was granted the network by its author may know what it does there.
    """
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime):
        return None
    found = parse_launcher(runtime.command)
    connected = any(isinstance(one, NetworkAccess) for one in manifest.capabilities)
    return None if connected and _program_base_name(runtime.command[0]) not in _CONTAINERS else found


def _strip_shell(command: Sequence[str]) -> list[str]:
    """The words without the shell that settings made for Windows begin with."""
    words = list(command)
    if len(words) > 2 and _program_base_name(words[0]) == "cmd" and words[1].lower() == "/c":
        return words[2:]
    return words


def _program_base_name(program: str) -> str:
    name = re.split(r"[/\\]", program)[-1]
    return re.sub(r"\.(?:cmd|exe)\Z", "", name, flags=re.IGNORECASE)


def _parse_words(launcher: _Launcher, words: Sequence[str]) -> LauncherCommand:
    packages: list[str] = []
    along: list[str] = []
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
        if option not in launcher.package | launcher.along | launcher.ignored_values:
            return UnsupportedLauncher(
                f"what {printable(option, 80)} would change cannot be said of an installed package"
            )
        value = value if equals else next(rest, "")
        if option in launcher.package:
            packages.append(value)
        elif option in launcher.along:
            along += value.split(",")
    return _registry_command(launcher, packages, along, first, tuple(_strip_separator(launcher, rest)))


def _strip_separator(launcher: _Launcher, rest: Iterator[str]) -> list[str]:
    """What the server gets. `npm exec NAME -- ARGS` has a mark of npm's own before it."""
    words = list(rest)
    return words[1:] if launcher is _NODE and words[:1] == ["--"] else words


def _registry_command(
    launcher: _Launcher, packages: Sequence[str], along: Sequence[str], first: str | None, arguments: tuple[str, ...]
) -> LauncherCommand:
    if first is None:
        return UnsupportedLauncher("it names no package")
    if len(packages) > 1:
        return UnsupportedLauncher("it names several packages")
    package = packages[0] if packages else first
    form = _NPM if launcher.registry == "npm" else _PYPI
    if launcher.registry == "pypi":
        package = re.sub(r"\s+", "", package).removesuffix("@latest")
    for one in (package, *along):
        if not form.fullmatch(one):
            return UnsupportedLauncher(f"{printable(one, 120)} is not a package of a registry")
    return RegistryCommand(launcher.registry, package, first if packages else None, arguments, tuple(along))
