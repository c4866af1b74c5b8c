"""Which fields of an event are facts and which are personal, and how they become canonical JSON. Pure.

Facts are hashed as they are and are kept for ever. Personal data can be erased later, so everything that may describe a
person, or was written by one, belongs there. A field that is in neither table below counts as personal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, cast

import orjson

from paddock.core.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonical_bytes
from paddock.core.errors import CallerError
from paddock.core.events.event import Event, to_json_value
from paddock.ledger.stored_row import (
    GAP_TEXT,
    SHARED_FACTS,
    SplitFacts,
    Template,
    listed_facts,
    select_listed,
    split_facts,
)

PERSONAL_FIELDS: Final = frozenset(
    """
    principal operator_id user_id accepted_by by answered_by requester person owner
    project_id session_id agent_path message_ids user_choice
    payload_hash result_hash events_hash plugin_metrics nondeterminism model artifacts artifact_uri source label
    explanation line last_stderr detail details action sql error_message errors
    approved_by comment holder given_by revoked_by ended_why operator proposed secret repair
    """.split()  # noqa: SIM905 - a table of words
)
FACT_FIELDS: Final = frozenset(
    """
    name would plugin plugin_id plugins first second version old_version new_version local capability_diff
    method capability capabilities_count methods_count tools_count tool tools tool_name word tables hook knob side
    request_id call_id expected received extra missing found claimed allowed kind definition definitions standing
    difference old_hash new_hash accepted answered kept_back kept left_out key_id
    pid cage_id exit_code signal consecutive_failures total_failures timeout_sec limit_bytes limit_per_second rate
    notification_type violation_type duration_ms session_duration_seconds success has_result error error_code metrics
    host port address bytes_up bytes_down times artifact_type size_bytes
    reason strategy message_count messages_before messages_after conflict_type resolution
    entries rows tenant callable group roles scopes change expires_at
    digest effects status error_category decision policies policy_version approval stands_for
    binding approved state scope count underway capabilities work replay_of undisclosed recovery resolution until
    accepted_dangers webhook types event_id link session via occasion flags hints issuer fields forgotten background
    file
    """.split()  # noqa: SIM905
)

_PLAIN_TYPES: Final = ("str", "str | None", "bool", "bool | None", "tuple[str, ...]")
"""Types that orjson encodes canonically, whatever the value."""
_MAX_KNOWN_SHAPES: Final = 1_000
_REQUEST_FIELD, _CALL_FIELD = "request_id", "call_id"


class EncodedFacts(NamedTuple):
    """The facts of an event as they are hashed and as they are stored, and the columns that they give."""

    plugin: str | None
    call: str | None
    request: str | None
    text: bytes
    stored: SplitFacts
    listed: str
    """The facts by which the entry is listed."""


class _Shape(NamedTuple):
    """What entries with the same shared facts have in common."""

    template: bytes
    filler: Template | None
    """None where there is no template: such entries are encoded one by one."""
    listed: str


_NO_TEMPLATE: Final = _Shape(b"", None, "")


class _Gap(NamedTuple):
    """What stands in a shape in the place of a fact that differs from entry to entry."""

    of: str


_CONTAINERS: Final = (dict, list, tuple)
_FILLED, _REQUEST, _CALL, _NO_ITEMS, _NO_FIELDS = map(_Gap, ("value", "request", "call", "[]", "{}"))


class SplitPlan:
    """How to split events of one type. Made once, since some types occur thousands of times a second."""

    def __init__(self, kind: type[Event]) -> None:
        names = kind.__struct_fields__
        facts = sorted(name for name in names if name in FACT_FIELDS)
        personal = sorted(name for name in names if name not in FACT_FIELDS)
        annotations = inspect.get_annotations(kind)
        unsure = frozenset(name for name in names if annotations[name] not in _PLAIN_TYPES)
        # In other event types `name` is not the name of a plugin.
        about_plugin = kind.type.startswith(("plugin.", "protocol.", "compact", "approval.", "call."))
        candidates = ("name", "plugin", "plugin_id") if about_plugin else ("plugin",)
        self.type = kind.type
        self.values: Callable[[Event], tuple[Any, ...]] = attrgetter(*facts, *personal, "type", "type")
        """All values, facts first. attrgetter returns a tuple only for two names or more, so two are appended."""
        self.unsure_personal = tuple(name for name in personal if name in unsure)
        self._facts = tuple(facts)
        self._personal = tuple(personal)
        self._unsure_facts = tuple(name for name in facts if name in unsure)
        self._plugin = next((candidate for candidate in candidates if candidate in facts), None)
        self._plugin_at, self._call_at, self._request_at = (
            facts.index(name) if name in facts else None for name in (self._plugin, _CALL_FIELD, _REQUEST_FIELD)
        )
        shared = [at for at, name in enumerate(facts) if name in SHARED_FACTS]
        self._shared_values = itemgetter(*shared, -1, -1)  # as above
        self._gaps = tuple((at, name, name in unsure) for at, name in enumerate(facts) if name not in SHARED_FACTS)
        # A shared value of another type could equal one that is encoded differently, as 1 and True are equal.
        self._has_shapes = not any(facts[at] in unsure for at in shared)
        self._shapes: dict[tuple[Any, ...], _Shape] = {}

    def personal_of(self, values: tuple[Any, ...]) -> dict[str, Any]:
        """Return the personal data of an event with these values; those that are unknown are left out."""
        of_person = values[len(self._facts) :]
        return {name: value for name, value in zip(self._personal, of_person, strict=False) if value is not None}

    def encode(self, values: tuple[Any, ...], call: str | None, request: str | None) -> EncodedFacts:
        """Encode the facts of an event with these values."""
        return self._encode_known(values, call, request) or self.encode_facts(self._facts_of(values), call, request)

    def encode_facts(self, facts: dict[str, Any], call: str | None, request: str | None) -> EncodedFacts:
        """Encode facts, whatever they are."""
        call, request = call or facts.get(_CALL_FIELD), request or facts.get(_REQUEST_FIELD)
        text, plain = _encode_facts(facts, self._unsure_facts)
        stored = split_facts(facts, text, call, request) if plain else SplitFacts(None, text)
        if stored.template is not None:
            listed = listed_facts(self.type, stored.template)
        else:
            listed = select_listed(self.type, facts)
        return EncodedFacts(facts.get(self._plugin) if self._plugin else None, call, request, text, stored, listed)

    def _facts_of(self, values: tuple[Any, ...]) -> dict[str, Any]:
        # Unknown values are left out: they take space in every row and carry no information.
        return {name: value for name, value in zip(self._facts, values, strict=False) if value is not None}

    def _encode_known(self, values: tuple[Any, ...], call: str | None, request: str | None) -> EncodedFacts | None:
        """As `encode_facts` for events whose template is known, in a third of the time; None for others."""
        if not self._has_shapes:
            return None
        if self._call_at is not None:
            call = call or values[self._call_at]
        if self._request_at is not None:
            request = request or values[self._request_at]
        shape_key: list[Any] = [self._shared_values(values)]
        texts: list[str] = []
        try:
            for at, name, is_unsure in self._gaps:
                value = values[at]
                if value is None:
                    shape_key.append(None)
                elif name == _REQUEST_FIELD and value == request:
                    shape_key.append(_REQUEST)
                elif name == _CALL_FIELD and value == call:
                    shape_key.append(_CALL)
                elif not value and type(value) in _CONTAINERS:
                    shape_key.append(_NO_FIELDS if type(value) is dict else _NO_ITEMS)
                elif is_unsure and not _is_plain_json(value):
                    return None
                else:
                    shape_key.append(_FILLED)
                    texts.append(orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode())
            key = tuple(shape_key)
            shape = self._shapes.get(key)
            if shape is None:
                shape = self._learn_shape(key, values, call, request)
            if shape.filler is None:
                return None
            text = shape.filler.join(texts.copy(), call, request)
        except (TypeError, ValueError):  # a lone surrogate, or a value that is not what its field says
            return None
        stored = SplitFacts(shape.template, GAP_TEXT.join(texts).encode())
        plugin = None if self._plugin_at is None else values[self._plugin_at]
        return EncodedFacts(plugin, call, request, text.encode(), stored, shape.listed)

    def _learn_shape(
        self, key: tuple[Any, ...], values: tuple[Any, ...], call: str | None, request: str | None
    ) -> _Shape:
        stored = self.encode_facts(self._facts_of(values), call, request).stored
        if len(self._shapes) >= _MAX_KNOWN_SHAPES:
            self._shapes.clear()
        if stored.template is None:
            shape = _NO_TEMPLATE
        else:
            filler = Template(stored.template.decode())
            shape = _Shape(stored.template, filler, listed_facts(self.type, stored.template))
        self._shapes[key] = shape
        return shape


@cache
def split_plan(kind: type[Event]) -> SplitPlan:
    """Return the plan of an event type."""
    return SplitPlan(kind)


def encode_fields(fields: dict[str, Any], unsure: Iterable[str]) -> bytes:
    """Encode fields as canonical JSON. Values without such a form become text, so plugins cannot stop the ledger."""
    return _encode_facts(fields, unsure)[0]


def _encode_facts(fields: dict[str, Any], unsure: Iterable[str]) -> tuple[bytes, bool]:
    """Encode fields as `encode_fields` does, and tell whether orjson encodes each of them canonically."""
    for name in unsure:
        if name in fields and not _is_plain_json(fields[name]):
            break
    else:
        try:
            return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), True
        except TypeError:
            pass  # a lone surrogate
    try:
        value = to_json_value(fields)
    except (TypeError, RecursionError):  # a set of unorderable values; nested too deeply
        value = fields
    try:
        return canonical_bytes(value), False
    except CallerError:
        return canonical_bytes(_sanitize_value(value, MAX_DEPTH // 2)), False


def _is_plain_json(value: Any, depth: int = 3) -> bool:
    """Whether orjson encodes the value canonically; the fast path for most values."""
    kind = cast("type[Any]", type(value))
    if kind is float:
        return 1e-5 <= abs(value) <= MAX_SAFE_INTEGER and not value.is_integer()
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    if kind is dict:
        return not value or (
            depth > 0
            and all(type(key) is str and key.isascii() for key in value)
            and all(_is_plain_json(inner, depth - 1) for inner in value.values())
        )
    return (kind is tuple or kind is list) and depth > 0 and all(_is_plain_json(inner, depth - 1) for inner in value)


def _sanitize_value(value: Any, depth: int) -> Any:
    """Replace values that JSON cannot represent by text."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict) and depth:
        pairs = cast("dict[Any, Any]", value).items()
        return {_sanitize_value(str(key), 0): _sanitize_value(inner, depth - 1) for key, inner in pairs}
    if isinstance(value, (list, tuple)) and depth:
        return [_sanitize_value(inner, depth - 1) for inner in cast("list[Any]", value)]
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    try:
        return _sanitize_value(str(cast("object", value))[:1000], 0)
    except (ValueError, RecursionError):  # an integer with thousands of digits; nested too deeply
        return f"<{type(cast('object', value)).__name__}>"
