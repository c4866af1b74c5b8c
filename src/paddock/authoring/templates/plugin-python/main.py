"""The tools of __NAME__, declared once: `paddock plugin sync` copies them into the manifest."""

from __future__ import annotations

from typing import Annotated, TypedDict

from paddock_sdk import Plugin

plugin = Plugin("__NAME__", "0.1.0")


class Greeting(TypedDict):
    text: str


@plugin.tool
def greet(name: Annotated[str, "Whom to greet", {"minLength": 1, "examples": ["Ann"]}]) -> Greeting:
    """Greet a person."""
    plugin.log.info("greeting", name=name)
    return {"text": f"{plugin.config.get('greeting', 'Hello')}, {name}!"}


if __name__ == "__main__":
    plugin.run()
