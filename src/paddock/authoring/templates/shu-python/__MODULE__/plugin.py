"""The class that is made once and called often."""

from __future__ import annotations

from typing import Any


class Plugin:
    """Greets people, and counts how often."""

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
            "required": ["text", "times"],
            "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
        }

    async def execute(self, params: dict[str, Any], context: dict[str, Any], host: Any) -> dict[str, Any]:
        name = params["name"]
        times = (await host.storage.get(f"greeted/{name}") or 0) + 1
        await host.storage.put(f"greeted/{name}", times)
        return {"status": "success", "data": {"text": f"Hello, {name}!", "times": times}}
