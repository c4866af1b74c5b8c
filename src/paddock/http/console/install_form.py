"""What somebody typed who wants a plugin, read into what is wanted, with every mistake at its field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from paddock.core.errors import OperatorError, PaddockError, Problem
from paddock.http.console.form_body import Sent
from paddock.manifest.capability import BadCapability, Capability, parse
from paddock.plugins.environments.describing import Choices
from paddock.plugins.registry_choices import choices_made
from paddock.plugins.sources import Source, parse_source
from paddock.plugins.wanted import Wanted

FIELDS: Final[tuple[str, ...]] = (
    "source", "ref", "name", "program", "arguments", "variables", "capabilities", "constraints", "downgrade",
)  # fmt: skip
_OF_A_REGISTRY: Final = ("name", "program", "arguments", "variables", "capabilities")
_LINES: Final = 100  # of one field
_EXAMPLES: Final = "try /home/me/my-plugin, https://github.com/me/plugin.git, pypi:mcp-server-time or npm:some-server"


class Read(NamedTuple):
    """The form: what it asks for, in words too, or what is wrong with it."""

    wanted: Wanted | None
    what: str
    problems: dict[str, Problem]


def typed_in(sent: Sent) -> dict[str, str]:
    """What was typed, by field."""
    return {name: sent.one(name).strip() for name in FIELDS}


def read(typed: Mapping[str, str], upgrade: str | None = None, recorded: Source | None = None) -> Read:
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
            problems.setdefault(where, Problem(where, error.message, _hint(error), error.error_code))

    text, ref = typed["source"], typed["ref"] or None
    found: list[Source] = []
    if text and _relative(text):
        hint = "start it with /, or write pypi:NAME or npm:NAME for a package"
        problems["source"] = Problem("source", "This is not a full path", hint)
    elif text:
        noted("source", lambda: found.append(parse_source(text, ref, Path("/"))))
        if found and (constraints := _lines(typed["constraints"])):
            noted("constraints", lambda: found.append(parse_source(text, ref, Path("/"), constraints)))
    elif upgrade is None:
        problems["source"] = Problem("source", "Name a source", _EXAMPLES)
    source = found[-1] if found else None
    capabilities = _capabilities(typed["capabilities"], problems)
    choices: list[Choices | None] = []
    known = source or (None if text else recorded)
    if known is not None and not known.kind.registry:
        for name in _OF_A_REGISTRY:
            if typed[name]:
                problems.setdefault(
                    name, Problem(name, "This is only for packages from PyPI and npm", "leave it empty")
                )
    elif known is not None:
        noted("variables", lambda: choices.append(_choices(known, typed, capabilities, upgrade or "")))
    if problems:
        return Read(None, "", problems)
    wanted = Wanted(source, next(iter(choices), None), upgrade, ref, bool(typed["downgrade"]))
    return Read(wanted, known.describe() if known else upgrade or "", {})


def _choices(source: Source, typed: Mapping[str, str], capabilities: list[Capability], plugin: str) -> Choices | None:
    return choices_made(
        source,
        name=typed["name"] or None,
        program=typed["program"] or None,
        arguments=_lines(typed["arguments"]),
        capabilities=capabilities,
        variables=_lines(typed["variables"]),
        plugin=plugin,
    )


def _capabilities(text: str, problems: dict[str, Problem]) -> list[Capability]:
    found: list[Capability] = []
    for line in _lines(text):
        try:
            found.append(parse(line))
        except BadCapability as error:
            problems.setdefault("capabilities", Problem("capabilities", error.message, error.hint))
    return found


def _hint(error: PaddockError) -> str:
    """What helps on a page; what an error says of options is for the command line."""
    if error.error_code == "environment.secret_variable":
        return "write only its name, and set the value once the plugin is installed"
    return _EXAMPLES if isinstance(error, OperatorError) and "--" in error.hint else error.hint


def _relative(text: str) -> bool:
    """Whether it is a path from wherever the host was started, which nobody at a browser knows."""
    bare = text.removeprefix("git+").partition("#")[0]
    return not bare.startswith(("/", "-")) and ":" not in bare and bare.isprintable()


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines()[:_LINES] if line.strip()]
