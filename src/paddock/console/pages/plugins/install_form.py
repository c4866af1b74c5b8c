"""Parses the install form into an install request, with every problem at its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from paddock.console.forms.request_form import SubmittedForm
from paddock.core.errors import OperatorError, PaddockError, Problem
from paddock.manifest.capability import Capability, InvalidCapability, parse_capability
from paddock.plugins.environments.metadata import IndexOptions
from paddock.plugins.install.request import InstallRequest, parse_index_options
from paddock.plugins.package.source import PackageSource, SourceKind, parse_source

INSTALL_FIELDS: Final[tuple[str, ...]] = (
    "source", "ref", "name", "program", "arguments", "variables", "capabilities", "constraints", "downgrade",
)  # fmt: skip
_INDEX_ONLY_FIELDS: Final = ("name", "program", "arguments", "variables", "capabilities")
_MAX_LINES: Final = 100  # per field
_SOURCE_EXAMPLES: Final = (
    "try /home/me/my-plugin, /home/me/server.py, https://github.com/me/plugin.git, pypi:mcp-server-time or "
    "npm:some-server"
)
_FIELDS_OF_ERRORS: Final = {"source.bad_ref": "ref", "source.not_a_registry": "program"}


class ParsedInstallForm(NamedTuple):
    """The install request with its description, or the problems of the form."""

    install_request: InstallRequest | None
    description: str
    problems: dict[str, Problem]


def typed_values(form: SubmittedForm) -> dict[str, str]:
    """Return the typed text by field."""
    return {name: form.last_text(name).strip() for name in INSTALL_FIELDS}


def parse_install_form(
    typed: Mapping[str, str], upgrade: str | None = None, recorded: PackageSource | None = None
) -> ParsedInstallForm:
    """Parse the form. Reads the disk, so do not call it on the event loop.

    Args:
        typed: Texts by field.
        upgrade: The plugin to upgrade.
        recorded: Its recorded source, used if no other is named.
    """
    problems: dict[str, Problem] = {}

    def try_field(name: str, parse: Callable[[], None]) -> None:
        try:
            parse()
        except PaddockError as error:
            field = _FIELDS_OF_ERRORS.get(error.error_code, name)
            problems.setdefault(field, Problem(field, error.message, _page_hint(error), error.error_code))

    text, ref = typed["source"], typed["ref"] or None
    sources: list[PackageSource] = []
    if text and _is_relative(text):
        hint = "start it with /, or write pypi:NAME or npm:NAME for a package"
        problems["source"] = Problem("source", "This is not a full path", hint)
    elif text:
        try_field("source", lambda: sources.append(parse_source(text, ref, Path("/"))))
        if sources and (constraints := _split_lines(typed["constraints"])):
            try_field("constraints", lambda: sources.append(parse_source(text, ref, Path("/"), constraints)))
    elif upgrade is None:
        problems["source"] = Problem("source", "Name a source", _SOURCE_EXAMPLES)
    source = sources[-1] if sources else None
    capabilities = _parse_capabilities(typed["capabilities"], problems)
    options: list[IndexOptions | None] = []
    effective_source = source or (None if text else recorded)
    server_file = effective_source is not None and effective_source.kind is SourceKind.SERVER_FILE
    if effective_source is not None and not effective_source.kind.registry and not server_file:
        for name in _INDEX_ONLY_FIELDS:
            if typed[name]:
                problems.setdefault(
                    name, Problem(name, "This is only for servers without a manifest", "leave it empty")
                )
    elif effective_source is not None:
        try_field(
            "variables",
            lambda: options.append(_parse_index_options(effective_source, typed, capabilities, upgrade or "")),
        )
    if problems:
        return ParsedInstallForm(None, "", problems)
    install_request = InstallRequest(source, next(iter(options), None), upgrade, ref, bool(typed["downgrade"]))
    return ParsedInstallForm(install_request, effective_source.describe() if effective_source else upgrade or "", {})


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
    capabilities: list[Capability] = []
    for line in _split_lines(text):
        try:
            capabilities.append(parse_capability(line))
        except InvalidCapability as error:
            problems.setdefault("capabilities", Problem("capabilities", error.message, error.hint))
    return capabilities


def _page_hint(error: PaddockError) -> str:
    """Return a hint that fits a page; hints about options are for the command line."""
    if error.error_code == "environment.secret_variable":
        return "write only its name, and set the value once the plugin is installed"
    return _SOURCE_EXAMPLES if isinstance(error, OperatorError) and "--" in error.hint else error.hint


def _is_relative(text: str) -> bool:
    """Return whether a path is relative to the host's working directory, which a browser user cannot know."""
    path = text.removeprefix("git+").partition("#")[0]
    return not path.startswith(("/", "-")) and ":" not in path and path.isprintable()


def _split_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[:_MAX_LINES] if line.strip()]
