"""Nothing is assigned to an object after it was built, except to records of state."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "paddock"

# By room: objects that are no dataclasses, and whose attributes other code sets.
EXCEPTIONS = {
    "authoring": {"self._reporter": "which parts of the output the author switched on"},
    "cage": {
        "sys": "a program's own view of its arguments, set before it is run",
        "logging": "the start time of a forked program",
        "module": "the module `__main__` of the program that is run",
        "error": "an exception, completed on its way up",
        "self._relay_scope": "a cancel scope of anyio, whose deadline is moved",
        "cage": "the state of a cage, kept by the warden's loop",
    },
    "capabilities": {
        "connection": "a connection of apsw, whose hooks are attributes",
        "database": "the state of an open database, kept by its pool",
    },
    "cli": {"error": "an exception, completed on its way up"},
    "core": {
        "current": "an exception, stripped of its frames",
        "event_class": "a class that its decorator names",
    },
    "daemon": {"root": "the root logger of the standard library"},
    "gate": {
        "invocation": "the state of one call on its way through the gate",
        "invocation.delivery": "how far a call got on its way to the plugin",
        "handle": "the state of one call, kept by the registry that made it",
        "filler": "what was filled in so far",
        "target": "a cache of the target's ledger template",
    },
    "host": {
        "job": "the state of an installation, kept by the service that runs it",
    },
    "ledger": {"writer": "why checkpoints cannot be signed, kept by the checkpointer"},
    "mcp_server": {
        "session": "when and as whom a session was last used",
        "reply": "a response that is being built",
        "call": "the state of a suspended call",
    },
    "plugins": {"sys": "pip's own view of its arguments, set before it is run"},
    "runtime": {
        "call": "the state of an active call",
        "status": "how far a call got on its way to the plugin",
        "instance": "the counters of an instance, kept by its supervisor",
        "result": "a tuple subclass, which has no constructor arguments of its own",
        "self._inbound": "the phase of a connection, kept by the connection that owns the handler",
    },
    "store": {
        "failure": "an exception, completed on its way up",
        "connection": "a connection of psycopg, whose options are attributes",
    },
    "web": {
        "head_response": "a response of starlette",
        "response": "a response of starlette",
        "cycle": "a request cycle of uvicorn",
        "self.active_cycle": "a request cycle of uvicorn",
        "self.server_state": "the state of a uvicorn server",
        "state": "the state of a uvicorn server",
    },
    "webhooks": {"channel": "how far a channel has read"},
}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def is_record(node: ast.ClassDef) -> bool:
    """Whether a class is a dataclass whose fields may change."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return any(one.startswith("dataclass") and "frozen=True" not in one for one in decorators)


def state_fields(trees: dict[Path, ast.Module]) -> dict[str, set[str]]:
    """The fields of mutable dataclasses by room; not those that hold a function, which would be a dependency."""
    fields: dict[str, set[str]] = defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and is_record(node):
                fields[room_of(path)] |= {
                    one.target.id
                    for one in node.body
                    if isinstance(one, ast.AnnAssign)
                    and isinstance(one.target, ast.Name)
                    and "Callable" not in ast.unparse(one.annotation)
                }
    return fields


def assigned(tree: ast.Module) -> Iterator[ast.Attribute]:
    """Every attribute that is assigned, of anything but `self` and `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            yield from () if own else (node,)


def test_nothing_is_assigned_to_an_object_after_it_was_built() -> None:
    trees = {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
        if "templates" not in path.parts
    }
    fields = state_fields(trees)
    found: dict[str, set[str]] = defaultdict(set)
    places: list[str] = []
    for path, tree in trees.items():
        room = room_of(path)
        for target in assigned(tree):
            if target.attr not in fields[room]:
                owner = ast.unparse(target.value)
                found[room].add(owner)
                if owner not in EXCEPTIONS.get(room, {}):
                    places.append(f"{path.relative_to(SOURCE)}:{target.lineno} {ast.unparse(target)}")

    assert places == [], "pass it to the constructor, pass a function, or let the object own the part"
    assert {room: set(owners) for room, owners in EXCEPTIONS.items()} == dict(found), "an exception is not needed"
