"""What a learning cage proposes: grants with their reasons, and obstacles that no grant removes. Plain values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from paddock.cage.spec import StandIn
from paddock.core.printable import printable
from paddock.manifest.capability import (
    RUN_OUTSIDE_TEXT,
    Capability,
    FileAccess,
    covers,
    describe_capability,
    is_dangerous,
)
from paddock.manifest.credential_paths import credentials_at, is_whole_home, runs_outside

MAX_PROPOSALS = 20


@dataclass(frozen=True, slots=True)
class GrantProposal:
    """A grant that would have let the plugin do what it tried.

    Attributes:
        capability: The grant.
        reason: Why it is proposed, as in "reads /srv/docs, named in its arguments".
        named: Whether its settings name what it grants.
        selected: Whether it is ticked before a person has looked at it.
        warning: Why it is dangerous; empty where it is not. A dangerous one is never ticked.
        stand_in: What stands in for it in the next pass.
        write_path: The path to grant for writing instead, if a person may want that.
    """

    capability: Capability
    reason: str
    named: bool
    selected: bool
    warning: str = ""
    stand_in: StandIn | None = None
    write_path: str = ""

    @property
    def writable(self) -> FileAccess | None:
        """What to grant for writing, where a person may want that instead."""
        match self.capability:
            case FileAccess("read", _, root) if self.write_path:
                return FileAccess("write", self.write_path, root)
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that the plugin tried and that no grant allows, or that has to be put right first.

    `saves` is for a file that it wants to write where it cannot: its calls would fail, whatever a person grants.
    """

    message: str
    hint: str = ""
    saves: bool = False


@dataclass(slots=True)
class Learned:
    """What was learned so far. Proposals that another one covers are left out, unless only the narrower one is ticked.

    Attributes:
        granted: What the plugin may do already.
        answered: Whether it answers without any of it. Then only what its settings name is ticked.
        homes: Home directories beside the usual ones. A whole home is never proposed.
        widenable: Places that its settings name and that it may read, which a person may let it change too.
    """

    granted: tuple[Capability, ...]
    answered: bool = False
    homes: frozenset[str] = frozenset()
    widenable: list[FileAccess] = field(default_factory=list[FileAccess])
    proposals: list[GrantProposal] = field(default_factory=list[GrantProposal])
    obstacles: list[Obstacle] = field(default_factory=list[Obstacle])

    def note_answer(self, *, answered: bool) -> None:
        """Note whether the plugin answers as it is granted, before anything is proposed."""
        self.answered = answered

    def propose(
        self,
        capability: Capability,
        reason: str,
        *,
        named: bool = False,
        own_idea: bool = False,
        warning: str = "",
        stand_in: StandIn | None = None,
        write_path: str = "",
    ) -> None:
        """Add a proposal; for a whole home, an obstacle in its place.

        Args:
            capability: The grant.
            reason: Why.
            named: Whether the settings name it.
            own_idea: Whether it is a person's data that nothing in the settings names. It is not ticked.
            warning: Why it is dangerous, beside what its capability says.
            stand_in, write_path: See `GrantProposal`.
        """
        if isinstance(capability, FileAccess) and not capability.root and self.is_whole_home(capability.path):
            if named or not (self.answered or own_idea):
                message = f"it {reason}; all of {capability.path} is never proposed"
                self.object(message, "name a folder inside it in the settings")
            return
        danger = warning or _danger(capability)
        selected = not danger and (named or not (self.answered or own_idea))
        # What is not ticked takes the place of nothing that is: a person could then only choose the wider one.
        known = [*self.granted, *(one.capability for one in self.proposals if one.selected or not selected)]
        if any(covers(one, capability) for one in known) or len(self.proposals) >= MAX_PROPOSALS:
            return
        reason = reason if named or not self.answered else f"{reason}; it answers without"
        self.proposals = [
            one for one in self.proposals if (one.selected and not selected) or not covers(capability, one.capability)
        ]
        reason = printable(reason, 300)
        if stand_in is not None and self._shows(stand_in.path):
            stand_in = None  # it would hide what was granted
        self.proposals.append(GrantProposal(capability, reason, named, selected, danger, stand_in, write_path))

    def note_widenable(self, access: FileAccess) -> None:
        """Note a place that may be changed too, if a person wants that."""
        if access not in self.widenable and not self.is_whole_home(access.path) and not _danger(access):
            self.widenable.append(access)

    def is_whole_home(self, path: str) -> bool:
        return is_whole_home(path) or path in self.homes

    def _shows(self, path: str) -> bool:
        reading = FileAccess("read", path)
        return any(isinstance(one, FileAccess) and covers(one, reading) for one in self.granted)

    def object(self, message: str, hint: str = "", *, saves: bool = False) -> None:
        """Add an obstacle."""
        obstacle = Obstacle(printable(message, 300), hint, saves)
        if obstacle not in self.obstacles and len(self.obstacles) < MAX_PROPOSALS:
            self.obstacles.append(obstacle)

    def stand_ins(self) -> Iterable[StandIn]:
        """What stands in for the proposals, outer before inner; nothing inside another."""
        chosen: list[StandIn] = []
        for one in sorted((one.stand_in for one in self.proposals if one.stand_in), key=lambda one: one.path):
            if not any(one.path == outer.path or one.path.startswith(f"{outer.path}/") for outer in chosen):
                chosen.append(one)
        return chosen


def _danger(capability: Capability) -> str:
    if isinstance(capability, FileAccess) and not capability.root:
        credentials = credentials_at(capability.path)
        if credentials:
            return f"it holds {credentials}"
        if capability.mode == "write" and runs_outside(capability.path):
            return RUN_OUTSIDE_TEXT
    return f"it lets the plugin {describe_capability(capability)}" if is_dangerous(capability) else ""
