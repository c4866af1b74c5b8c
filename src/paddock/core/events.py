"""Every audit event, in one place to import from; importing this makes `EVENT_TYPES` complete."""

# ruff: noqa: F403 - an index on purpose: each name is listed once, where its event is defined

from __future__ import annotations

from paddock.core.event import EVENT_TYPES as EVENT_TYPES
from paddock.core.event import Event as Event
from paddock.core.event import Publish as Publish
from paddock.core.event import to_record as to_record
from paddock.core.events_approvals import *
from paddock.core.events_calls import *
from paddock.core.events_capabilities import *
from paddock.core.events_contracts import *
from paddock.core.events_definitions import *
from paddock.core.events_effects import *
from paddock.core.events_host import *
from paddock.core.events_ledger import *
from paddock.core.events_lifecycle import *
from paddock.core.events_network import *
from paddock.core.events_policy import *
from paddock.core.events_principals import *
from paddock.core.events_queue import *
from paddock.core.events_repairs import *
from paddock.core.events_secrets import *
from paddock.core.events_webhooks import *
