"""Types for the members of JSON objects whose schema says more than the Python type does.

The objects that the API answers are TypedDicts, and their OpenAPI schemas are generated from them
(`web/routing/schema_from_types.py`). In `Annotated` a text is the member's description, and a MemberConstraint narrows
its values:

    version: Annotated[str, MemberConstraint(max_length=256), "The version in use."]
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Struct


class MemberConstraint(Struct, frozen=True, kw_only=True):
    """Limits the values of a member. Hashable, as `X | None` requires of the parts of X.

    A member that is `write_only` is a secret. It must have no constraint whose violation quotes the value.
    """

    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    max_items: int | None = None
    format: str | None = None
    write_only: bool | None = None

    def keywords(self) -> dict[str, Any]:
        """Return the JSON Schema keywords that are set."""
        keywords = {
            "minimum": self.minimum,
            "maximum": self.maximum,
            "minLength": self.min_length,
            "maxLength": self.max_length,
            "maxItems": self.max_items,
            "format": self.format,
            "writeOnly": self.write_only,
        }
        return {name: value for name, value in keywords.items() if value is not None}


NonNegativeInt: TypeAlias = Annotated[int, MemberConstraint(minimum=0)]
DateTime: TypeAlias = Annotated[str, MemberConstraint(format="date-time")]
"""A time as text, as RFC 3339 writes it."""
