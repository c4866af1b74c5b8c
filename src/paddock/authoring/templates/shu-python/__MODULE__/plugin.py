"""The class that is made once and called often."""

from __future__ import annotations

from typing import Any


class Plugin:
    """Greets people. What changes something would be an action, and wait for approval."""

    name = "__NAME__"
    version = "0.1.0"

    def get_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["name"],
            "additionalProperties": False,
            "properties": {"name": {"type": "string", "minLength": 1}},
            "examples": [{"name": "Ann"}],
        }

    def get_output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["text", "again"],
            "properties": {"text": {"type": "string"}, "again": {"type": "boolean"}},
        }

    async def execute(self, params: dict[str, Any], context: dict[str, Any], host: Any) -> dict[str, Any]:
        name = params["name"]
        again = await host.cache.get(f"greeted/{name}") is not None
        await host.cache.set(f"greeted/{name}", True, 3600)
        text = f"Hello again, {name}!" if again else f"Hello, {name}!"
        return {"status": "success", "data": {"text": text, "again": again}}
