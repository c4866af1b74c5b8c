"""A chain to tamper with, and both verifiers to hold against it."""

from __future__ import annotations

import importlib.util
import sqlite3
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import psycopg
import pytest

from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.events.event import Event
from paddock.core.events.plugin_runtime import PluginCrashed, PluginMethodCalled
from paddock.core.ids import new_id
from paddock.ledger.chain.checkpoint import checkpoint_file, read_checkpoint_lines
from paddock.ledger.chain.checkpointer import Checkpointer
from paddock.ledger.chain.export import export_chain
from paddock.ledger.chain.signing_key import public_key_file
from paddock.ledger.chain.verifier import EXIT_CODES, ChainFinding
from paddock.ledger.chain.verify import verify_ledger
from paddock.ledger.entry import EntryDraft, IdentifiedDraft
from paddock.ledger.erase import erase
from paddock.ledger.write.append import append_entries
from paddock.store.database import Transaction, open_database, open_direct

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "verify_ledger.py"
CLOCK, RANDOM = SystemClock(), SystemRandom()


def called(number: int, who: str | None = "bob") -> PluginMethodCalled:
    return PluginMethodCalled("notes", "notes.ädd", f"req_{number}", who, None)


def drafts(events: Iterable[Event], tenant: str = "default") -> list[IdentifiedDraft]:
    return [
        (new_id("evt", CLOCK, RANDOM), EntryDraft(event, tenant, CLOCK.now(), call=f"call_{number}"))
        for number, event in enumerate(events, 1)
    ]


@dataclass(frozen=True)
class Chain:
    """Thirty rows of the tenant `default`: two checkpoints up to row 20, alice erased from row 5 by row 21."""

    address: str
    state: Path

    def change(self, *statements: str) -> None:
        def unit(tx: Transaction) -> None:
            for statement in statements:
                tx.execute(statement)

        with open_direct(self.address) as database:
            database.write(unit)

    def change_as_owner(self, *statements: str) -> None:
        """The same with the tools of the database itself, for whoever owns it: our own rules do not bind them."""
        if not self.embedded:
            with psycopg.connect(self.address) as server:
                for statement in statements:
                    server.execute(statement.encode())
            return
        with closing(sqlite3.connect(self.file)) as file:
            for statement in statements:
                file.execute(statement)
            file.commit()

    def add(self, *events: Event, tenant: str = "default") -> None:
        with open_direct(self.address) as database:
            database.write(lambda tx: append_entries(tx, drafts(events, tenant), RANDOM))

    def erase(self, who: str, tenant: str = "default") -> int:
        with open_direct(self.address) as database:
            return database.write(
                lambda tx: erase(tx, tenant, who, by="local:root", explanation="asked", clock=CLOCK, random=RANDOM)
            )

    async def checkpoint(self) -> None:
        async with open_database(self.address, role="command") as database:
            checkpointer = Checkpointer(database, CLOCK, self.state)
            await checkpointer.checkpoint_due_chains()
            if checkpointer.failing is not None:
                raise checkpointer.failing

    @property
    def checkpoints(self) -> Path:
        return checkpoint_file(self.state, "default")

    @property
    def key(self) -> Path:
        return public_key_file(self.state)

    def verify(
        self, tenant: str = "default", *, anchors: Iterable[Path] = (), keys: Iterable[Path] = ()
    ) -> ChainFinding:
        with open_direct(self.address) as database:
            (finding,) = verify_ledger(
                database, self.state, tenant=tenant, anchor_files=list(anchors), key_files=list(keys)
            )
        return finding

    def verify_all(self, *, anchors: Iterable[Path] = (), keys: Iterable[Path] = ()) -> list[ChainFinding]:
        with open_direct(self.address) as database:
            return verify_ledger(database, self.state, anchor_files=list(anchors), key_files=list(keys))

    def code(self) -> int:
        return EXIT_CODES[self.verify().verdict]

    def export(self) -> Path:
        file = self.state / "export.jsonl"
        with open_direct(self.address) as database:
            lines = list(export_chain(database, "default", read_checkpoint_lines(self.checkpoints)))
        file.write_bytes(b"".join(line + b"\n" for line in lines))
        return file

    def example(self, *words: object) -> int:
        """What the other verifier says of the export."""
        return run_example(self.export(), "--key", self.key, *words)

    def example_on_file(self) -> int:
        """What it says of the database itself."""
        return run_example(self.file, "--key", self.key, "--checkpoints", self.checkpoints)

    @property
    def file(self) -> Path:
        return Path(self.address.removeprefix("sqlite://"))

    @property
    def embedded(self) -> bool:
        return self.address.startswith("sqlite")


async def new_chain(address: str, state: Path) -> Chain:
    chain = Chain(address, state)
    chain.add(*(called(number, "alice" if number == 5 else "bob") for number in range(1, 11)))
    await chain.checkpoint()
    chain.add(
        *(called(number, None) for number in range(11, 20)),
        PluginCrashed("notes", 1, None, ("no", "☃ 𝄞", "no \u2028 line \x85 ends")),
    )
    await chain.checkpoint()
    assert chain.erase("alice") == 1
    chain.add(*(called(number) for number in range(22, 31)))
    return chain


def run_example(*words: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["verify_ledger.py", *map(str, words)])
        return example().main()


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("verify_ledger", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
