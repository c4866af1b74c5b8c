"""Memory as Markdown files: the tools and hooks, and which shelf a call belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias, TypedDict

from memory.remarks import worth_keeping
from memory.shelf import Memory, Shelf, shelf_name

from paddock_sdk import ConfigInvalid, Context, JsonObject, NotApplicable, Plugin

plugin = Plugin("memory-markdown", "0.1.0", namespace="kaged", notifications=["memory.retained"])

NEW_TAG = "^[a-z0-9][a-z0-9-]{0,39}$"
Content: TypeAlias = Annotated[str, {"minLength": 1, "maxLength": 20000, "pattern": r"\S"}]
Query: TypeAlias = Annotated[str, {"minLength": 1, "maxLength": 2000, "pattern": r"\S"}]


class Retained(TypedDict):
    id: str
    new: bool


class Recalled(TypedDict):
    memories: list[JsonObject]


@plugin.on_config
def check(config: JsonObject) -> None:
    """The host resolves `config:` and `project:` before it hands the path over."""
    if not isinstance(config.get("store"), str) or not Path(config["store"]).is_absolute():
        raise ConfigInvalid("store must be an absolute path")
    if config.get("isolation", "agent") not in ("agent", "project"):
        raise ConfigInvalid("isolation must be agent or project")
    count = config.get("inject_count", 5)
    if not isinstance(count, int) or not 0 <= count <= 20:
        raise ConfigInvalid("inject_count must be a whole number from 0 to 20")


@plugin.tool
def retain(
    content: Content,
    caller: Context,
    context: Annotated[str, {"maxLength": 2000}] = "",
    tags: Annotated[Sequence[Annotated[str, {"pattern": NEW_TAG}]], {"maxItems": 20}] = (),
) -> Retained:
    """Store something in long-term memory."""
    memory, new = _keep(caller, content, context, tuple(tags))
    return {"id": memory.id, "new": new}


@plugin.tool
def recall(query: Query, context: Context, tags: Annotated[Sequence[str], {"maxItems": 20}] = ()) -> Recalled:
    """Search long-term memory."""
    found = _shelf(context).search(query, tuple(tags))
    return {"memories": [memory._asdict() for memory in found]}


@plugin.hook("on_session_start")
def greet(_params: JsonObject, context: Context) -> JsonObject | None:
    return _reminder(context)


@plugin.hook("on_session_idle")
def listen(params: JsonObject, context: Context) -> None:
    """Keep what the person asked to remember. The same sentence is kept once, however often the session idles."""
    for remark in worth_keeping(params.get("transcript")):
        _keep(context, remark, "said in a session", ())


@plugin.hook("pre_compact")
def before_compaction(params: JsonObject, context: Context) -> JsonObject | None:
    """What is about to be cut from the conversation goes on the shelf, and is named to the host."""
    remarks = worth_keeping(params.get("messages_being_compacted"))
    for remark in remarks:
        _keep(context, remark, "said before a compaction", ())
    return {"retain": remarks} if remarks else None


@plugin.hook("post_compact")
def after_compaction(_params: JsonObject, context: Context) -> JsonObject | None:
    return _reminder(context)


def _reminder(context: Context) -> JsonObject | None:
    newest = _shelf(context).newest(int(plugin.config.get("inject_count", 5)))
    if not newest:
        return None
    return {"inject": "Known from earlier sessions:\n" + "\n".join(f"- {_first_line(item)}" for item in newest)}


def _keep(context: Context, content: str, about: str, tags: tuple[str, ...]) -> tuple[Memory, bool]:
    memory, new = _shelf(context).put(content, about, tags)
    if new:
        plugin.notify("memory.retained", {"id": memory.id})
    return memory, new


def _shelf(context: Context) -> Shelf:
    if "store" not in plugin.config:
        raise NotApplicable("there is no store yet; a configuration comes first")
    if context.project_id is None or context.agent_path is None:
        raise NotApplicable("memory belongs to a project's agent, and this call has none")
    shared = plugin.config.get("isolation", "agent") == "project"
    owner = (context.project_id,) if shared else (context.project_id, context.agent_path)
    return Shelf(Path(plugin.config["store"]) / shelf_name(owner))


def _first_line(memory: Memory) -> str:
    return memory.content.strip().splitlines()[0][:200]


if __name__ == "__main__":
    plugin.run()
