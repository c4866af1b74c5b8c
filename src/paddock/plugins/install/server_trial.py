"""The trial of a server before anyone has consented to it: what is tried, and what came of it. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from paddock.cage.learn.proposal import GrantProposal, Obstacle
from paddock.core.errors import PaddockError
from paddock.core.ids import Digest, PrincipalId
from paddock.core.printable import printable
from paddock.manifest.capability import Capability
from paddock.manifest.consent_text import ConsentSection
from paddock.manifest.effects import CLAIM_TEXT, claim_of
from paddock.manifest.model import CallableSpec, Manifest
from paddock.plugins.tool_pinning.mcp_tool import parse_tools
from paddock.plugins.tool_pinning.normalize import INSTRUCTIONS, PROMPT, RESOURCE, TEMPLATE, TOOL, Definition

if TYPE_CHECKING:
    from paddock.plugins.environments.store import Environment

_MAX_TOOLS_SHOWN = 40
_MAX_SUMMARY_CHARS = 120
_COUNTED_KINDS = ((PROMPT, "prompt"), (RESOURCE, "resource"), (TEMPLATE, "resource template"))


class TrialSubject(Struct, frozen=True):
    """A server to try.

    Attributes:
        manifest: Its manifest so far.
        granted: What a person names for it now.
        root: The directory of its files.
        digest: Of these files.
        environment: Its packages, if it has any.
    """

    manifest: Manifest
    granted: tuple[Capability, ...]
    root: Path
    digest: Digest
    environment: Environment | None


class ServerTrial(Struct, frozen=True):
    """What came of trying a server in a learning cage.

    Attributes:
        granted: What it was tried with.
        definitions: What it listed; None if it did not answer, even where things were stood in for.
        proposals: The grants that would have let it do what it tried.
        obstacles: What it tried and no grant allows.
        failure: Why it did not answer with what is granted; None if it did.
    """

    granted: tuple[Capability, ...]
    definitions: tuple[Definition, ...] | None
    proposals: tuple[GrantProposal, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    failure: PaddockError | None = None

    @property
    def offers_something(self) -> bool:
        return any(one.kind != INSTRUCTIONS for one in self.definitions or ())

    @property
    def chosen(self) -> tuple[Capability, ...]:
        """The capabilities that its manifest requests: those that are ticked."""
        return tuple(one.capability for one in self.proposals if one.selected)

    def sections(self) -> list[ConsentSection]:
        """Return what a person is shown of it before they consent."""
        needs = tuple(f"{one.capability}: {one.reason}" for one in self.proposals if one.selected)
        others = tuple(
            f"{one.capability}: {one.reason}" + (f". DANGEROUS: {one.warning}" if one.warning else "")
            for one in self.proposals
            if not one.selected
        )
        sections = [
            ConsentSection("What it offers, in its own words", tuple(self._offer_lines())),
            ConsentSection("Why it asks for capabilities", needs),
            ConsentSection("What it also tried, and is not given", others, others),
        ]
        return [section for section in sections if section.lines]

    def _offer_lines(self) -> list[str]:
        given = ", ".join(map(str, self.granted)) or "nothing"
        tried = f"It was started in a cage with {printable(given, 200)} granted"
        if self.definitions is None:
            reason = f": {printable(self.failure.message, 300)}" if self.failure else ""
            return [
                f"{tried}, and did not answer{reason}",
                "Its tools are listed once it is enabled with what it needs",
            ]
        tools = [one for one in self.definitions if one.kind == TOOL]
        parsed = zip(tools, parse_tools(one.raw for one in tools), strict=True)
        lines = [
            _tool_line(spec)
            if isinstance(spec, CallableSpec)
            else f"{printable(listed.name, 100)} cannot be used: {spec.reason}"
            for listed, spec in parsed
        ]
        if len(lines) > _MAX_TOOLS_SHOWN:
            lines = [*lines[:_MAX_TOOLS_SHOWN], f"and {len(lines) - _MAX_TOOLS_SHOWN} more tools"]
        for kind, noun in _COUNTED_KINDS:
            count = sum(one.kind == kind for one in self.definitions)
            lines += [f"{count} {noun}{'s' if count > 1 else ''}"] if count else []
        return [*lines, tried + (", and answered there" if self.failure is None else "")]


TryServer: TypeAlias = Callable[[TrialSubject, PrincipalId], Coroutine[Any, Any, ServerTrial]]
"""Tries a server on behalf of a person."""


def _tool_line(spec: CallableSpec) -> str:
    summary = printable(spec.description.strip().partition("\n")[0], _MAX_SUMMARY_CHARS)
    return f"{spec.name}: {CLAIM_TEXT[claim_of(spec.annotations)]}" + (f' — "{summary}"' if summary else "")
