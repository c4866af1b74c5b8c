"""What somebody typed who wants a plugin, read into what is wanted, with every mistake at its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from paddock.console.forms.request_form import SubmittedForm
from paddock.core.errors import OperatorError, PaddockError, Problem
from paddock.manifest.capability import Capability, InvalidCapability, parse_capability
from paddock.plugins.environments.metadata import IndexOptions
from paddock.plugins.install.request import InstallRequest, parse_index_options
from paddock.plugins.package.source import PackageSource, parse_source

INSTALL_FIELDS: Final[tuple[str, ...]] = (
    "source", "ref", "name", "program", "arguments", "variables", "capabilities", "constraints", "downgrade",
)  # fmt: skip
_INDEX_ONLY_FIELDS: Final = ("name", "program", "arguments", "variables", "capabilities")
_MAX_LINES: Final = 100  # of one field
_SOURCE_EXAMPLES: Final = (
    "try /home/me/my-plugin, https://github.com/me/plugin.git, pypi:mcp-server-time or npm:some-server"
)


class ParsedInstallForm(NamedTuple):
    """The form: what it asks for, in words too, or what is wrong with it."""

    install_request: InstallRequest | None
    description: str
    problems: dict[str, Problem]


def typed_values(sent: SubmittedForm) -> dict[str, str]:
    """What was typed, by field."""
    return {name: sent.last_text(name).strip() for name in INSTALL_FIELDS}


def parse_install_form(
    typed: Mapping[str, str], upgrade: str | None = None, recorded: PackageSource | None = None
) -> ParsedInstallForm:
    """What is wanted. Looks at the disk, so call it where that may take a while.

    Args:
        typed: By field.
        upgrade: The plugin that is to be upgraded.
        recorded: Where that came from, which counts where no source is named.
    """
    problems: dict[str, Problem] = {}

    def noted(name: str, work: Callable[[], None]) -> None:
        try:
            work()
        except PaddockError as error:
            where = "ref" if error.error_code == "source.bad_ref" else name
            problems.setdefault(where, Problem(where, error.message, _page_hint(error), error.error_code))

    text, ref = typed["source"], typed["ref"] or None
    found: list[PackageSource] = []
    if text and _is_relative(text):
        hint = "start it with /, or write pypi:NAME or npm:NAME for a package"
        problems["source"] = Problem("source", "This is not a full path", hint)
    elif text:
        noted("source", lambda: found.append(parse_source(text, ref, Path("/"))))
        if found and (constraints := _split_lines(typed["constraints"])):
            noted("constraints", lambda: found.append(parse_source(text, ref, Path("/"), constraints)))
    elif upgrade is None:
        problems["source"] = Problem("source", "Name a source", _SOURCE_EXAMPLES)
    source = found[-1] if found else None
    capabilities = _parse_capabilities(typed["capabilities"], problems)
    choices: list[IndexOptions | None] = []
    known = source or (None if text else recorded)
    if known is not None and not known.kind.registry:
        for name in _INDEX_ONLY_FIELDS:
            if typed[name]:
                problems.setdefault(
                    name, Problem(name, "This is only for packages from PyPI and npm", "leave it empty")
                )
    elif known is not None:
        noted("variables", lambda: choices.append(_parse_index_options(known, typed, capabilities, upgrade or "")))
    if problems:
        return ParsedInstallForm(None, "", problems)
    wanted = InstallRequest(source, next(iter(choices), None), upgrade, ref, bool(typed["downgrade"]))
    return ParsedInstallForm(wanted, known.describe() if known else upgrade or "", {})


def _parse_index_options(
    source: PackageSource, typed: Mapping[str, str], capabilities: list[Capability], plugin: str
) -> IndexOptions | None:
    return parse_index_options(
        source,
        name=typed["name"] or None,
        program=typed["program"] or None,
        arguments=_split_lines(typed["arguments"]),
        capabilities=capabilities,
        variables=_split_lines(typed["variables"]),
        plugin=plugin,
    )


def _parse_capabilities(text: str, problems: dict[str, Problem]) -> list[Capability]:
    found: list[Capability] = []
    for line in _split_lines(text):
        try:
            found.append(parse_capability(line))
        except InvalidCapability as error:
            problems.setdefault("capabilities", Problem("capabilities", error.message, error.hint))
    return found


def _page_hint(error: PaddockError) -> str:
    """What helps on a page; what an error says of options is for the command line."""
    if error.error_code == "environment.secret_variable":
        return "write only its name, and set the value once the plugin is installed"
    return _SOURCE_EXAMPLES if isinstance(error, OperatorError) and "--" in error.hint else error.hint


def _is_relative(text: str) -> bool:
    """Whether it is a path from wherever the host was started, which nobody at a browser knows."""
    bare = text.removeprefix("git+").partition("#")[0]
    return not bare.startswith(("/", "-")) and ":" not in bare and bare.isprintable()


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[:_MAX_LINES] if line.strip()]
