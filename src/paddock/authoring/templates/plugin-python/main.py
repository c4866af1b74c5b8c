"""The tools of __NAME__. The manifest beside this file says the same to the host."""

from __future__ import annotations

from typing import Annotated, Any

from paddock_sdk import Plugin

plugin = Plugin("__NAME__", "0.1.0")


@plugin.tool
def greet(name: Annotated[str, "Whom to greet", {"minLength": 1}]) -> dict[str, Any]:
    """Greet somebody."""
    plugin.log.info("greeting", name=name)
    return {"text": f"{plugin.config.get('greeting', 'Hello')}, {name}!"}


if __name__ == "__main__":
    plugin.run()
