"""The codes that the program can give: those it has, found in its source, and what the documentation says of them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import paddock
from paddock.core.action import SENTENCES

SOURCE = Path(paddock.__file__).parent
TABLE = Path(__file__).with_name("error_codes.toml")

# What is given to these is the code of one mistake in a document, which stands in its list with place and words.
ONE_MISTAKE = {"Problem", "add_problem", "error", "invalid_file_error"}
# These take the code as their first word.
CODE_FIRST = {"HandshakeRejection", "PermanentFailure"}
# Also kept in tables and constants, so every text that begins like this is one.
ALWAYS_CODES = ("cage.", "daemon.", "initialize.")
# Those who plan a cage give the second half of the code as their second word.
OF_A_PLAN = {"_add_problem", "_rejected"}
# What no rule above finds: put together at run time, or noted with a plugin's state.
BESIDES = {
    "approval.consumed": "approvals/access.py",
    "approval.voided": "approvals/access.py",
    "approval.withdrawn": "approvals/access.py",
    "cage.no_config": "cage/plan/granted_paths.py",
    "cage.no_project": "cage/plan/granted_paths.py",
    "config.secret_unset": "config/variables.py",
    "effect.not_happened": "gate/idempotency/manual_resolution.py",
    "plugin.crashed": "runtime/instance.py",
    "queue.interrupted": "queue/worker.py",
    "queue.timeout": "queue/worker.py",
}
SHAPE = re.compile(r"[a-z_]+(\.[a-z_]+)?")


def meanings() -> dict[str, dict[str, tuple[str, str]]]:
    """By heading and code: what it means, and what to do."""
    return {
        heading: {code: (means, do) for code, (means, do) in codes.items()}
        for heading, codes in tomllib.loads(TABLE.read_text(encoding="utf-8")).items()
    }


def codes_of_the_program() -> dict[str, str]:
    """Every code with a place where it is given."""
    found = dict(BESIDES)
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for code in filter(SHAPE.fullmatch, _codes(node)):
                found.setdefault(code, f"{file.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}")
    return found


def _codes(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name not in ONE_MISTAKE:
            for keyword in node.keywords:
                if keyword.arg == "code":
                    yield from _results(keyword.value)
            if name in OF_A_PLAN and len(node.args) == 4:
                yield from (f"cage.{half}" for half in _results(node.args[1]))
            if name in CODE_FIRST and node.args:
                yield from _results(node.args[0])
        case ast.Assign(targets=[ast.Name(id="code")], value=value):
            yield from _results(value)
        case ast.Constant(value=str(text)) if text.startswith(ALWAYS_CODES) and text not in SENTENCES:
            yield text
        case _:
            pass


def _results(value: ast.expr) -> Iterator[str]:
    """The texts that an expression can give, not those that it asks about."""
    match value:
        case ast.IfExp(body=body, orelse=otherwise):
            yield from _results(body)
            yield from _results(otherwise)
        case ast.BoolOp(values=values):
            for one in values:
                yield from _results(one)
        case _:
            yield from _texts(value)


def _texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value:
        yield node.value
