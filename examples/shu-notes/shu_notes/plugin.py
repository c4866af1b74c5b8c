"""Reading notes is `execute`; adding one is an action, because it changes something."""

from __future__ import annotations

import hashlib
from typing import Any

INDEX = "notes/index"


class Plugin:
    """Notes in the host's object storage."""

    name = "shu_notes"
    version = "1.0.0"

    def get_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "contains": {
                    "type": ["string", "null"],
                    "x-ui": {"help": "Only notes with this text.", "placeholder": "All"},
                },
            },
        }

    def get_output_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["notes"],
            "properties": {
                "notes": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["id", "text"],
                        "properties": {"id": {"type": "string"}, "text": {"type": "string"}},
                    },
                },
            },
        }

    def requires_permission(self) -> str:
        return "plugin:shu_notes"

    async def execute(self, params: dict[str, Any], context: dict[str, Any], host: Any) -> dict[str, Any]:  # noqa: ARG002
        notes: list[dict[str, str]] = await host.storage.get(INDEX) or []
        wanted = (params.get("contains") or "").casefold()
        return {"status": "success", "data": {"notes": [note for note in notes if wanted in note["text"].casefold()]}}

    async def list_actions(self) -> list[dict[str, Any]]:
        return [
            {
                "name": "add_note",
                "description": "Add a note",
                "params_schema": {
                    "type": "object",
                    "required": ["text"],
                    "additionalProperties": False,
                    "properties": {"text": {"type": "string", "minLength": 1, "maxLength": 2000}},
                },
                "required_scopes": ["notes:write"],
                "requires_approval": True,
            }
        ]

    async def perform_action(
        self, name: str, args: dict[str, Any], context: dict[str, Any], host: Any
    ) -> dict[str, Any]:
        """Add a note after approval; the same idempotency key adds it once however often it comes."""
        if name != "add_note":
            return {"status": "error", "error": {"code": "unknown_action", "message": f"there is no action {name!r}"}}
        note_id = hashlib.sha256(context["idempotency_key"].encode()).hexdigest()[:16]
        if not context.get("approved"):
            return {"status": "pending_approval", "action_id": note_id, "preview": {"add": args["text"]}}
        notes: list[dict[str, str]] = await host.storage.get(INDEX) or []
        note = {"id": note_id, "text": args["text"]}
        if note_id not in {kept["id"] for kept in notes}:
            await host.storage.put(INDEX, [*notes, note])
        return {"status": "ok", "action_id": note_id, "result": note}
