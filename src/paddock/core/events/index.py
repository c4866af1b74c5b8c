"""Every audit event, in one place to import from; importing this makes `EVENT_TYPES` complete."""

# ruff: noqa: F403 - an index on purpose: each name is listed once, where its event is defined

from __future__ import annotations

from paddock.core.events.approvals import *
from paddock.core.events.calls import *
from paddock.core.events.capabilities import *
from paddock.core.events.contracts import *
from paddock.core.events.event import EVENT_TYPES as EVENT_TYPES
from paddock.core.events.event import Event as Event
from paddock.core.events.event import EventSink as EventSink
from paddock.core.events.event import to_record as to_record
from paddock.core.events.plugin_management import *
from paddock.core.events.plugin_runtime import *
from paddock.core.events.principals import *
from paddock.core.events.secrets import *
from paddock.core.events.system import *
from paddock.core.events.tool_definitions import *
from paddock.core.events.webhooks import *
