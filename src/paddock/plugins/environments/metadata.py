"""Turns a registry's metadata about a package into a plugin manifest. Pure.

The metadata is untrusted: only short, plain text passes.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import OperatorError
from paddock.core.ids import PluginName
from paddock.core.printable import printable
from paddock.core.semver import Version
from paddock.manifest.capability import Capability
from paddock.manifest.command import ENVIRONMENT_PREFIX
from paddock.manifest.dialects.mcp_user_config import find_references
from paddock.manifest.model import CommandRuntime, Dialect, JsonObject, Manifest
from paddock.manifest.names import choose_plugin_name, slug
from paddock.manifest.native_writer import to_yaml
from paddock.plugins.environments.lock import Lock

_MAX_DESCRIPTION_CHARS = 300
_MAX_FIELD_CHARS = 100
_URL = re.compile(r"https?://[A-Za-z0-9.-]+(?::\d+)?(?:/[\x21-\x7e]*)?")
# PEP 440: epoch, release, pre-release, post-release, development release, local label.
_PYTHON_VERSION = re.compile(
    r"(?:(?P<epoch>\d+)!)?(?P<release>\d+(?:\.\d+)*)(?:(?P<pre>a|b|rc)(?P<pre_number>\d+))?"
    r"(?:\.post(?P<post>\d+))?(?:\.dev(?P<dev>\d+))?(?:\+(?P<local>[a-z0-9]+(?:[._-][a-z0-9]+)*))?"
)


class PackageMetadata(Struct, frozen=True):
    """The sanitised metadata of a package."""

    package: str
    version: str
    description: str = ""
    license: str = ""
    homepage: str = ""
    warnings: tuple[str, ...] = ()


class IndexOptions(Struct, frozen=True):
    """A person's options for a server without a manifest: one from a registry package, or in one file."""

    name: str | None = None  # the plugin's name
    program: str | None = None
    arguments: tuple[str, ...] = ()
    capabilities: tuple[Capability, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    prompted_variables: tuple[str, ...] = ()  # variables whose values each machine sets itself, above all secrets
    title: str = ""
    configuration: JsonObject | None = None  # the schema of an imported server, which may have more fields


def python_metadata(headers: Mapping[str, Sequence[str]], *, yanked: bool) -> PackageMetadata:
    """Extract the metadata from the headers of a wheel's `METADATA`, by their names in lower case."""

    def first(name: str) -> str:
        return next(iter(headers.get(name, ())), "")

    links = dict(_links(headers.get("project-url", ())))
    homepage = next((links[key] for key in ("homepage", "home", "repository", "source") if key in links), "")
    return PackageMetadata(
        package=_single_line(first("name"), _MAX_FIELD_CHARS),
        version=_single_line(first("version"), _MAX_FIELD_CHARS),
        description=_single_line(first("summary"), _MAX_DESCRIPTION_CHARS),
        license=_single_line(first("license-expression") or _first_line(first("license")), _MAX_FIELD_CHARS),
        homepage=_http_url(first("home-page")) or homepage,
        warnings=("its author has withdrawn this version",) if yanked else (),
    )


def npm_metadata(view: Mapping[str, Any], name: str, version: str) -> PackageMetadata:
    """Extract the metadata from npm's view of one version."""
    deprecated = _single_line(view.get("deprecated"), _MAX_DESCRIPTION_CHARS)
    return PackageMetadata(
        package=name,
        version=version,
        description=_single_line(view.get("description"), _MAX_DESCRIPTION_CHARS),
        license=_single_line(view.get("license"), _MAX_FIELD_CHARS),
        homepage=_http_url(view.get("homepage")),
        warnings=(f"its author says not to use it any more: {deprecated}",) if deprecated else (),
    )


def build_mcp_manifest(
    facts: PackageMetadata, programs: Iterable[str], choices: IndexOptions, *, source: str
) -> Manifest:
    """Build the manifest of the MCP server in a package, which a person named by the text `source`.

    Raises:
        OperatorError: the package has no program, or several and none was chosen; or its name is not valid for a
            plugin.
    """
    program = _pick_program(facts, sorted(programs), choices.program, source)
    base = Manifest(
        name=_plugin_name(facts, choices.name, source),
        version=semantic_version(facts.version),
        dialect=Dialect.MCP,
        description=facts.description or f"The MCP server in the package {facts.package}",
        license=facts.license,
        homepage=facts.homepage,
    )
    return with_index_options(base, (f"{ENVIRONMENT_PREFIX}{program}",), choices)


def with_index_options(base: Manifest, command: tuple[str, ...], choices: IndexOptions) -> Manifest:
    """Complete the manifest of an MCP server by the command that starts it, and by a person's options."""
    env = {**choices.variables, **{name: _variable_reference(name) for name in choices.prompted_variables}}
    return replace(
        base,
        title=choices.title,
        runtime=CommandRuntime((*command, *choices.arguments), protocol="mcp", env=env),
        capabilities=choices.capabilities,
        system_config_schema=_config_schema(choices, find_references([*choices.arguments, *env.values()])),
    )


def index_options_of(manifest: Manifest) -> IndexOptions:
    """Return the options that a plugin was installed with; an upgrade keeps them."""
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime):
        return IndexOptions(manifest.name, capabilities=manifest.capabilities, title=manifest.title)
    command, env = runtime.command, runtime.env
    return IndexOptions(
        name=manifest.name,
        program=command[0].removeprefix(ENVIRONMENT_PREFIX) or None,
        arguments=command[1:],
        capabilities=manifest.capabilities,
        variables={name: value for name, value in env.items() if value != _variable_reference(name)},
        prompted_variables=tuple(name for name, value in env.items() if value == _variable_reference(name)),
        title=manifest.title,
        configuration=manifest.system_config_schema,
    )


def _variable_reference(name: str) -> str:
    return f"${{user_config.{name}}}"


def _config_schema(choices: IndexOptions, used: Container[str]) -> JsonObject | None:
    """Build the configuration schema: the previous fields that are still used, and a secret for each new variable."""
    previous: Mapping[str, Any] = choices.configuration or {"type": "object", "additionalProperties": False}
    previous_fields: Mapping[str, Any] = previous.get("properties", {})
    new = [name for name in choices.prompted_variables if name not in previous_fields]
    properties = {name: field for name, field in previous_fields.items() if name in used}
    properties |= {name: {"type": "string", "x-secret": True} for name in new}
    required = [*(name for name in previous.get("required", []) if name in properties), *new]
    if not properties:
        return None
    schema = {**previous, "properties": properties, "required": required}
    return schema if required else {key: value for key, value in schema.items() if key != "required"}


def with_distinct_version(manifest: Manifest, lock: Lock) -> Manifest:
    """Append a hash to the version, for a package whose own version is installed with other dependencies or options."""
    suffix = hashlib.sha256(f"{to_yaml(manifest)}\n{lock.digest}".encode()).hexdigest()[:8]
    separator = "." if "+" in manifest.version else "+"
    return replace(manifest, version=f"{manifest.version}{separator}{suffix}")


def semantic_version(text: str) -> str:
    """Convert a registry's version to a semantic one: unchanged if it is one, else the nearest that sorts alike.

    Raises:
        OperatorError: it cannot be converted.
    """
    try:
        return str(Version.parse(text))
    except OperatorError:
        pass
    match = _PYTHON_VERSION.fullmatch(text)
    if match is None:
        raise OperatorError(f"{printable(text)} is not a version", code="version.invalid")
    numbers = [str(int(part)) for part in match["release"].split(".")]
    release = ".".join([*numbers, "0", "0"][:3])
    prerelease = [
        *((match["pre"], str(int(match["pre_number"]))) if match["pre"] else ()),
        *(("dev", str(int(match["dev"]))) if match["dev"] is not None else ()),
    ]
    build = [
        *(("epoch", match["epoch"]) if match["epoch"] else ()),
        *numbers[3:],
        *(("post", match["post"]) if match["post"] is not None else ()),
        *(re.split(r"[._-]", match["local"]) if match["local"] else ()),
    ]
    version = release + ("-" + ".".join(prerelease) if prerelease else "") + ("+" + ".".join(build) if build else "")
    return str(Version.parse(version))


def _plugin_name(facts: PackageMetadata, chosen: str | None, source: str) -> PluginName:
    install = Action.of("plugin.install", source=source, name="NAME")
    return choose_plugin_name(chosen, slug(facts.package.rpartition("/")[2]), source=facts.package, install=install)


def _pick_program(facts: PackageMetadata, programs: list[str], wanted: str | None, source: str) -> str:
    listed = printable(", ".join(programs), 300)
    if not programs:
        raise OperatorError(
            f"{facts.package} {facts.version} is a library: it brings no program to run",
            code="environment.no_program",
            hint="install the package of a server; what it needs comes with it",
        )
    if wanted is not None:
        if wanted not in programs:
            raise OperatorError(
                f"{facts.package} has no program {printable(wanted)}",
                code="environment.no_such_program",
                hint=f"it has: {listed}",
            )
        return wanted
    default_name = facts.package.rpartition("/")[2]
    if len(programs) > 1 and default_name not in programs:
        raise OperatorError(
            f"{facts.package} brings several programs",
            code="environment.several_programs",
            hint=f"choose one of {listed}",
            action=Action.of("plugin.install", source=source, program="NAME"),
        )
    return default_name if default_name in programs else programs[0]


def _single_line(value: Any, max_chars: int) -> str:
    """Return one line of text without characters that could control a display."""
    if not isinstance(value, str):
        return ""
    characters = (
        " " if _is_line_break(character) else character
        for character in value[: max_chars * 20]
        if character.isprintable() or _is_line_break(character)
    )
    line = " ".join("".join(characters).split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def _is_line_break(character: str) -> bool:
    return character.isspace() or unicodedata.category(character) == "Cc"


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _http_url(value: Any) -> str:
    return value if isinstance(value, str) and len(value) <= 500 and _URL.fullmatch(value) else ""


def _links(entries: Iterable[str]) -> Iterable[tuple[str, str]]:
    for entry in entries:
        label, _, address = entry.partition(",")
        if _http_url(address.strip()):
            yield label.strip().lower(), address.strip()
