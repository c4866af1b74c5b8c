"""The page about hooks: which there are is said by the manifests' schemas, what each is for by a table beside this."""

from __future__ import annotations

import ast
import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import paddock
from documented.events import event_rows
from paddock.manifest.model import Timing
from paddock.manifest.read import SCHEMA_DIRECTORY

SOURCE = Path(paddock.__file__).parent
TABLE = Path(__file__).with_name("hooks.toml")
SUPERVISION = SOURCE / "runtime"
DIALECTS = {"paddock": ("paddock.yaml", "timing.hook_sec"), "kaged": ("kaged-plugin.yaml", "hook_timeout_sec")}

NOT_FIRED = """\
!!! warning "No session fires them yet"

    Manifests with hooks are validated and shown on the consent screen, and the supervisor can fire hooks by the rules
    below. Agent sessions, which would fire them, do not exist yet: until then a plugin that subscribes runs like any
    other, and its hooks are never called. Parameters and results are final, so you can write and test hooks today.
"""
FIRED = "Sessions of agents fire them, by the rules below.\n"

INTRODUCTION = """\
# Hooks

A hook notifies a plugin of a point in an agent's session. A plugin subscribes in its manifest, and may return something
for the conversation:

```yaml
hooks: [on_session_start, post_compact]
```
"""

WRITING = """\
## Write one

In Python a hook is a decorated function. This one is from `examples/memory-markdown`:

```python title="examples/memory-markdown/main.py"
@plugin.hook("on_session_start")
def greet(_params: JsonObject, context: Context) -> JsonObject | None:
    return _reminder(context)
```

In TypeScript it is `plugin.hook("on_session_start", (params, call) => …)`. In the protocol it is a method:
`paddock.hook.NAME`, or `kaged.hook.NAME` for a plugin with a `kaged-plugin.yaml`. A hook has no caller,
so it cannot require scopes.

You can fire one in a test, without a session:

```python
from paddock_sdk import Context, JsonObject, Plugin
from paddock_sdk.testing import PluginTester

plugin = Plugin("reminder", "1.0.0")


@plugin.hook("on_session_start")
def remind(params: JsonObject, context: Context) -> JsonObject:
    return {"inject": "The deploy window is on Tuesdays."}


assert PluginTester(plugin).fire("on_session_start") == {"inject": "The deploy window is on Tuesdays."}
```
"""


def hooks_of_manifests() -> dict[str, tuple[str, ...]]:
    """By dialect: the hooks that a manifest may name, in the order in which its schema has them."""
    return {dialect: tuple(_fields_of(dialect)["hooks"]["items"]["enum"]) for dialect in DIALECTS}


def hook_words() -> dict[str, dict[str, Any]]:
    """What the documentation says of each hook."""
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def fired() -> bool:
    """Does anything outside the supervisor fire hooks?"""
    files = (file for file in SOURCE.rglob("*.py") if SUPERVISION not in file.parents)
    calls = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    return any(isinstance(one, ast.Call) and getattr(one.func, "attr", "") == "fire" for one in calls)


def hook_reference() -> str:
    """Every hook with what goes with it and what comes back."""
    return "\n".join(
        [
            INTRODUCTION,
            FIRED if fired() else NOT_FIRED,
            *_sections(),
            *_rules(),
            WRITING,
            "## What is recorded\n",
            event_rows("plugin.hook."),
        ]
    )


def _sections() -> Iterator[str]:
    yield "Every hook receives the `_context` of calls: `operator_id`, `project_id`, `agent_path`, `session_id`"
    yield "and `request_id`. Returning nothing, or `null`, is always valid.\n"
    for name, words in hook_words().items():
        yield f"## `{name}`\n"
        yield f"Fires {words['when']}. For {words['agents']}.\n"
        yield from _fields("receives", words["gets"], "It has no other parameters.\n")
        yield from _fields("may return", words["returns"], "Its result is ignored.\n")


def _fields(title: str, fields: Mapping[str, str], none: str) -> Iterator[str]:
    if not fields:
        yield none
        return
    rows = "\n".join(f"| `{name}` | {words} |" for name, words in fields.items())
    yield f"| {title} | |\n|---|---|\n{rows}\n"


def _rules() -> Iterator[str]:
    default = Timing().hook
    most = _fields_of("paddock")["timing"]["properties"]["hook_sec"]["maximum"]
    assert _fields_of("kaged")["hook_timeout_sec"]["maximum"] == most
    names = " and ".join(f"`{field}` in a `{file}`" for file, field in DIALECTS.values())
    yield "## The rules\n"
    yield "- **One at a time.** A plugin gets its next hook when it has answered the last one, or its time is up."
    yield f"- **{default} seconds**, or what the manifest says, at most {most}:"
    yield f"  {names}."
    yield "- **A hook never stalls a session.** No answer in time, an error, or a crash counts as no answer."
    yield "- **Roles.** A plugin that subscribes is an `observer`. One that rewrites the conversation itself says"
    yield "  `roles: [compactor]`, must subscribe to `pre_compact`, and is the only one of its agent. It answers with"
    yield "  `role` (`compactor`), `messages` (all that is left), `superseded` (the ids of those that went) and, if it"
    yield "  likes, a `summary`.\n"


def _fields_of(dialect: str) -> dict[str, Any]:
    """The fields of a manifest, as its published schema has them."""
    return json.loads((SCHEMA_DIRECTORY / f"{dialect}.schema.json").read_text(encoding="utf-8"))["properties"]
