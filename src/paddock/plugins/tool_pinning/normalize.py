"""One listing of a server, examined: each definition with its pin, or with what is wrong with it. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, TypeAlias, cast

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
MAX_DEFINITION_BYTES = 1 << 20  # bytes of one definition
MAX_LISTING_BYTES = 16 << 20  # of all that a plugin lists
MAX_DEFINITIONS = 5_000  # definitions that a plugin may list
MAX_NAME_CHARS = 500  # characters; an index of PostgreSQL holds no key beyond 2,700 bytes

_TIMESTAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.]{4,16}(Z|[+-][0-9:]{2,6})?)?")
_AUTHOR_MUST_FIX = "the server's author has to mend it"


class UnusableReason(Protocol):
    """Why a definition cannot be used, and what would mend it."""

    @property
    def reason(self) -> str: ...

    @property
    def repair(self) -> str: ...


# Whether the host could use a tool as it is described; None when it could.
ToolCheck: TypeAlias = Callable[[Any], UnusableReason | None]


class ListedDefinition(Protocol):
    """A definition as the server gave it."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def raw(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class InvalidDefinition:
    """Why a definition cannot be used, and what would mend it."""

    reason: str
    repair: str = _AUTHOR_MUST_FIX


@dataclass(frozen=True, slots=True)
class NormalizedDefinition:
    """A definition that was listed."""

    kind: str
    name: str  # fit to be kept and shown
    hash: str | None = None  # None: it has no form that could be hashed, or too large a one
    text: str = ""  # the canonical form, which the hash is of
    shape: str | None = None  # see `shape_of`
    hidden: str = ""  # what it hides
    bad: InvalidDefinition | None = None


def hash_definition(raw: Any) -> str:
    """What a definition is known by from now on: the hash of everything that the server says, as it says it.

    Raises:
        CallerError: the value has no canonical form.
    """
    return sha256_of(raw)


def normalize_definitions(listed: Sequence[ListedDefinition], judge: ToolCheck) -> tuple[NormalizedDefinition, ...]:
    """Every definition, each judged by itself: a bad one takes no other with it.

    Tools come first where a server lists more than is kept. A name that stands for two different things is bad.
    """
    found: dict[tuple[str, str], NormalizedDefinition] = {}
    together = 0
    for one in sorted(listed, key=lambda one: one.kind != TOOL)[:MAX_DEFINITIONS]:
        examined = _normalize_one(one, judge)
        size = len(examined.text.encode())
        if together + size > MAX_LISTING_BYTES:
            examined = replace(
                _without_content(examined), bad=InvalidDefinition(f"all it lists is over {MAX_LISTING_BYTES >> 20} MiB")
            )
        else:
            together += size
        key = (examined.kind, examined.name)
        if key in found and found[key].hash != examined.hash:
            examined = replace(
                _without_content(examined), bad=InvalidDefinition(f"two different {one.kind}s have this name")
            )
        found[key] = examined
    return tuple(found.values())


def _normalize_one(one: ListedDefinition, judge: ToolCheck) -> NormalizedDefinition:
    # A server has one set of instructions, which needs no name.
    bare = NormalizedDefinition(one.kind, one.kind if one.kind == INSTRUCTIONS else printable_name(one.name))
    try:
        form = canonical_bytes(one.raw)
    except CallerError as error:
        return replace(bare, bad=InvalidDefinition(error.message))
    if len(form) > MAX_DEFINITION_BYTES:
        return replace(bare, bad=InvalidDefinition(f"it has {len(form):,} bytes; {MAX_DEFINITION_BYTES:,} are allowed"))
    whole = replace(
        bare,
        hash=f"sha256:{hashlib.sha256(form).hexdigest()}",
        text=form.decode(),
        shape=stable_hash(one.kind, one.raw),
        hidden=describe_invisible(one.raw),
    )
    if one.kind != TOOL:
        return whole
    if not is_mcp_tool_name(one.name):
        # Not renamed: what a person allows, what a log says and what the server hears must be one name.
        repair = "the server's author has to rename it: letters, digits, '_', '-', '.' or '/', at most 128"
        return replace(
            whole, bad=InvalidDefinition(f"{bare.name!r} is not a name that a tool can be called by", repair)
        )
    unusable = judge(one.raw)
    return replace(whole, bad=InvalidDefinition(unusable.reason, unusable.repair)) if unusable is not None else whole


def _without_content(examined: NormalizedDefinition) -> NormalizedDefinition:
    return replace(examined, hash=None, text="", shape=None, hidden="")


def stable_hash(kind: str, raw: Any) -> str | None:
    """The hash of what stays when a definition changes as expected; None where there is nothing to tell it by.

    A tool or a prompt that is renamed takes what it took. A resource whose content changes keeps its words.
    """
    fields = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    if kind == RESOURCE:
        return sha256_of(_stable_resource_part(fields))
    schema: Any = fields.get("inputSchema")
    takes: Any = cast("dict[str, Any]", schema).get("properties") if isinstance(schema, dict) else None
    if takes or (takes := fields.get("arguments")):
        return sha256_of(takes)
    return None


def _stable_resource_part(resource: dict[str, Any]) -> dict[str, Any]:
    """A resource without its size and the time of its last change, as long as they are no more than that."""
    notes: Any = resource.get("annotations")
    if isinstance(notes, dict):
        changed = cast("dict[str, Any]", notes).get("lastModified")
        kept = {key: value for key, value in cast("dict[str, Any]", notes).items() if key != "lastModified"}
        if isinstance(changed, str) and _TIMESTAMP.fullmatch(changed):
            resource = {**resource, "annotations": kept}
    return {key: value for key, value in resource.items() if key != "size" or type(value) is not int}


def printable_name(name: str) -> str:
    """A server's name for something, as rows and people get it; two different names never become one."""
    shown = printable(name, MAX_NAME_CHARS) or "(no name)"
    if shown == name:
        return name
    tail = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{shown[: MAX_NAME_CHARS - 13]} {tail}"


class DefinitionStatus(StrEnum):
    """What may be done with a definition."""

    ACCEPTED = "accepted"  # it is the one that was accepted
    QUARANTINED = "quarantined"  # not used until a person accepts it
    BAD = "bad"  # it cannot be used, whoever accepts it
    GONE = "gone"  # accepted, and not listed any more
