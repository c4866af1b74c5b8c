"""Normalises a server's listing: each definition with its canonical form and hash, or with what is wrong with
it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.canonical import canonical_bytes, sha256_of
from paddock.core.errors import CallerError
from paddock.core.printable import printable
from paddock.manifest.names import is_mcp_tool_name
from paddock.plugins.tool_pinning.invisible_text import describe_invisible

TOOL = "tool"
INSTRUCTIONS = "instructions"
PROMPT = "prompt"
RESOURCE = "resource"
TEMPLATE = "resource_template"
MAX_DEFINITION_BYTES = 1 << 20  # of one definition
MAX_LISTING_BYTES = 16 << 20  # of all definitions of a plugin
MAX_DEFINITIONS = 5_000  # that a plugin may list
MAX_NAME_CHARS = 500  # an index of PostgreSQL holds no key beyond 2,700 bytes

_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]{4,16}(Z|[+-][0-9:]{2,6})?)?")
_AUTHOR_MUST_FIX = "the server's author has to fix it"


class DefinitionStatus(StrEnum):
    """Whether a definition may be used."""

    ACCEPTED = "accepted"  # identical to the accepted one
    QUARANTINED = "quarantined"  # not used until a person accepts it
    BAD = "bad"  # cannot be used, even if accepted
    GONE = "gone"  # accepted, and not listed any more


class Definition(Struct, frozen=True):
    """A tool, prompt, resource or instruction text that a server declares for people and models to read.

    It is kept as received: a person accepts exactly this value.
    """

    kind: str
    name: str
    raw: Any


class UnusableReason(Struct, frozen=True):
    """Why a definition cannot be used, and what would fix it."""

    reason: str
    repair: str = _AUTHOR_MUST_FIX


# Checks whether the host can use a tool as described; None if it can.
ToolCheck: TypeAlias = Callable[[Any], UnusableReason | None]


class NormalizedDefinition(Struct, frozen=True):
    """A listed definition in canonical form."""

    kind: str
    name: str  # made printable
    hash: str | None = None  # None if it has no canonical form, or too large a one
    text: str = ""  # the canonical form that is hashed
    shape: str | None = None  # see `stable_hash`
    hidden: str = ""  # a description of its invisible text
    bad: UnusableReason | None = None


def normalize_definitions(listed: Sequence[Definition], check_tool: ToolCheck) -> tuple[NormalizedDefinition, ...]:
    """Normalise every definition, each judged by itself: a bad one does not affect the others.

    Tools come first if a server lists more than is kept. A name that stands for two different definitions is bad.
    """
    by_key: dict[tuple[str, str], NormalizedDefinition] = {}
    total_bytes = 0
    for definition in sorted(listed, key=lambda candidate: candidate.kind != TOOL)[:MAX_DEFINITIONS]:
        normalized = _normalize_one(definition, check_tool)
        size = len(normalized.text.encode())
        if total_bytes + size > MAX_LISTING_BYTES:
            normalized = replace(
                _without_content(normalized),
                bad=UnusableReason(f"all it lists is over {MAX_LISTING_BYTES >> 20} MiB"),
            )
        else:
            total_bytes += size
        key = (normalized.kind, normalized.name)
        if key in by_key and by_key[key].hash != normalized.hash:
            normalized = replace(
                _without_content(normalized), bad=UnusableReason(f"two different {definition.kind}s have this name")
            )
        by_key[key] = normalized
    return tuple(by_key.values())


def _normalize_one(definition: Definition, check_tool: ToolCheck) -> NormalizedDefinition:
    # A server has one set of instructions, which needs no name.
    unhashed = NormalizedDefinition(
        definition.kind, definition.kind if definition.kind == INSTRUCTIONS else printable_name(definition.name)
    )
    try:
        canonical = canonical_bytes(definition.raw)
    except CallerError as error:
        return replace(unhashed, bad=UnusableReason(error.message))
    if len(canonical) > MAX_DEFINITION_BYTES:
        return replace(
            unhashed, bad=UnusableReason(f"it has {len(canonical):,} bytes; {MAX_DEFINITION_BYTES:,} are allowed")
        )
    normalized = replace(
        unhashed,
        hash=f"sha256:{hashlib.sha256(canonical).hexdigest()}",
        text=canonical.decode(),
        shape=stable_hash(definition.kind, definition.raw),
        hidden=describe_invisible(definition.raw),
    )
    if definition.kind == INSTRUCTIONS:
        return normalized
    raw: Any = definition.raw
    if not isinstance(raw, dict):
        # Lists merge the definitions of all plugins of a tenant: one bad entry must not break the others.
        return replace(_without_content(normalized), bad=UnusableReason("it is not an object"))
    if definition.kind != TOOL:
        return normalized
    if not is_mcp_tool_name(definition.name):
        # Not renamed: a person, a log and the server must all see the same name.
        repair = "the server's author has to rename it: letters, digits, '_', '-', '.' or '/', at most 128"
        return replace(
            normalized, bad=UnusableReason(f"{unhashed.name!r} is not a name that a tool can be called by", repair)
        )
    return replace(normalized, bad=check_tool(raw))


def _without_content(definition: NormalizedDefinition) -> NormalizedDefinition:
    return replace(definition, hash=None, text="", shape=None, hidden="")


def stable_hash(kind: str, raw: Any) -> str | None:
    """Hash the part that stays the same when a definition changes as expected; None if there is none.

    A renamed tool or prompt keeps its parameters. A resource whose content changes keeps its description.
    """
    fields = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    if kind == RESOURCE:
        return sha256_of(_stable_resource_part(fields))
    schema: Any = fields.get("inputSchema")
    parameters: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    if parameters or (parameters := fields.get("arguments")):
        return sha256_of(parameters)
    return None


def _stable_resource_part(resource: dict[str, Any]) -> dict[str, Any]:
    """Return a resource without its size and modification time, if these are well-formed."""
    annotations: Any = resource.get("annotations")
    if isinstance(annotations, dict):
        last_modified = cast("dict[str, Any]", annotations).get("lastModified")
        stable_annotations = {
            key: value for key, value in cast("dict[str, Any]", annotations).items() if key != "lastModified"
        }
        if isinstance(last_modified, str) and _TIMESTAMP.fullmatch(last_modified):
            resource = {**resource, "annotations": stable_annotations}
    return {key: value for key, value in resource.items() if key != "size" or type(value) is not int}


def printable_name(name: str) -> str:
    """Return a server's name in printable form for rows and people; two different names stay different."""
    shown = printable(name, MAX_NAME_CHARS) or "(no name)"
    if shown == name:
        return name
    suffix = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{shown[: MAX_NAME_CHARS - 13]} {suffix}"
