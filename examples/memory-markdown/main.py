"""Memory as Markdown files: the tools and hooks, and which shelf a call belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from memory.remarks import worth_keeping
from memory.shelf import Memory, Shelf, shelf_name

from paddock_sdk import ConfigInvalid, Context, InvalidParams, JsonObject, NotApplicable, Plugin

plugin = Plugin(
    "memory-markdown",
    "0.1.0",
    namespace="kaged",
    notifications=["memory.retained"],
    capabilities_used=["read:fs:config:/memory", "write:fs:config:/memory"],
)


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
def retain(params: JsonObject, context: Context) -> JsonObject:
    memory, new = _keep(context, _text(params, "content"), str(params.get("context", "")), _tags(params))
    return {"id": memory.id, "new": new}


@plugin.tool
def recall(params: JsonObject, context: Context) -> JsonObject:
    found = _shelf(context).search(_text(params, "query"), _tags(params))
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


def _text(params: JsonObject, key: str) -> str:
    value: Any = params.get(key)
    if not isinstance(value, str) or not value.strip():
        raise InvalidParams(f"{key} must be text")
    return value


def _tags(params: JsonObject) -> tuple[str, ...]:
    given: Any = params.get("tags", [])
    tags: list[Any] = cast("list[Any]", given) if isinstance(given, list) else [None]
    if not all(isinstance(tag, str) and tag.isprintable() for tag in tags):
        raise InvalidParams("tags must be a list of words")
    return tuple(tags)


def _first_line(memory: Memory) -> str:
    return memory.content.strip().splitlines()[0][:200]


if __name__ == "__main__":
    plugin.run()
