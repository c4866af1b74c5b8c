"""The secrets family: the value of a secret that the plugin declares by name, for whoever it works for.

secrets.get {name} → {value, found}

One that the manifest binds to hosts is written by the host into headers of requests to these, and not given as a value;
what their answers, and all others to this plugin, repeat of it is blanked.
A person's own comes first, and the tenant's where the declaration allows it. A plugin that names no call works for
nobody, and gets no person's.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from paddock.capabilities.dispatcher import ServiceHandler
from paddock.capabilities.params import text_param
from paddock.capabilities.recording import RECORD_INTERVAL_S
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock
from paddock.core.errors import Denied, HostError, OperatorError
from paddock.core.events.event import EventSink
from paddock.core.events.secrets import SecretUsed
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.secret import MAX_SECRET_NAME_CHARS as LONGEST_NAME
from paddock.manifest.capability import HostService
from paddock.net.egress import EgressGrant, EgressPolicy
from paddock.secrets.requirements import SecretScope, lookup_order
from paddock.secrets.vault import UNREADABLE_CODES, OpenedSecret, Vault

_MAX_REMEMBERED_USES = 4_096
_log = logging.getLogger("paddock.secrets")

_SecretUseKey: TypeAlias = tuple[str, str, str | None, str, str]


class PluginSecretService:
    """Hands out secrets, and records that it did: once for each call, and outside of calls once a second.

    Args:
        vault: Where they are.
        publish_for: Where a tenant's events are recorded.
        clock: Says when a second is over.
    """

    def __init__(self, vault: Vault, publish_for: Callable[[Tenant], EventSink], clock: Clock) -> None:
        self._vault = vault
        self._publish_for = publish_for
        self._clock = clock
        self._recorded: OrderedDict[_SecretUseKey, float] = OrderedDict()  # and when

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"secrets.get": self.get}

    async def get(self, asking: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """`{value, found}`; the value is null where it is not set.

        Raises:
            Denied: the plugin does not declare it, or its manifest binds it to other uses.
            HostError: it is there and cannot be opened.
        """
        name = text_param(params, "name", longest=LONGEST_NAME)
        order = lookup_order(asking.manifest, name, asking.operation)
        if order is None:
            raise Denied(
                f"{asking.plugin} does not declare the secret {printable(name, LONGEST_NAME)}",
                code="capability_denied",
                hint="name it under 'secrets' in its manifest",
                details={"capability": "host:secrets", "method": "secrets.get"},
            )
        _require_allowed_recipient(asking, name)
        person = asking.call.principal.person if asking.call is not None else None
        try:
            given = await self._vault.get(asking.tenant, person, name, order)
        except (HostError, OperatorError) as error:
            if error.error_code not in UNREADABLE_CODES:
                raise
            # What is in the way names places of this machine, which are no business of whoever is in a cage.
            _log.error("the secret %s of %s cannot be opened: %s (%s)", name, asking.tenant, error.message, error.hint)
            hint = "whoever runs this host is told more: paddock doctor"
            raise HostError(f"the secret {name} cannot be opened", code=error.error_code, hint=hint) from None
        if given is None:
            return {"value": None, "found": False}
        self._record(asking, name, given)
        return {"value": given.value.reveal(), "found": True}

    async def bound_values(self, asking: CapabilityRequest) -> list[str]:
        """The values, for whoever the plugin works for, that its manifest binds to hosts: no answer may tell them.

        One that cannot be opened is left out: it was not sent either.
        """
        if HostService("secrets") not in asking.granted:
            return []
        person = asking.call.principal.person if asking.call is not None else None
        found: list[str] = []
        for name in asking.manifest.secret_hosts:
            for scope in SecretScope:
                try:
                    given = await self._vault.get(asking.tenant, person, name, (scope,))
                except (HostError, OperatorError) as error:
                    if error.error_code not in UNREADABLE_CODES:
                        raise
                else:
                    found.extend([given.value.reveal()] if given is not None else [])
        return found

    def _record(self, asking: CapabilityRequest, name: str, given: OpenedSecret) -> None:
        request = asking.call.request if asking.call is not None else None
        call, now = asking.call_id or request, self._clock.monotonic()
        use = (asking.tenant, asking.plugin, call, name, given.owner)
        last = self._recorded.get(use)
        if last is not None and (call is not None or now - last < RECORD_INTERVAL_S):
            self._recorded.move_to_end(use)
            return
        self._recorded[use] = now
        self._recorded.move_to_end(use)
        if len(self._recorded) > _MAX_REMEMBERED_USES:
            self._recorded.popitem(last=False)
        self._publish_for(asking.tenant).publish(
            SecretUsed(
                plugin=asking.plugin,
                secret=name,
                scope=given.scope.value,
                request_id=request,
                owner=given.owner or None,
                call_id=asking.call_id,
            )
        )


def _require_allowed_recipient(asking: CapabilityRequest, name: str) -> None:
    places, to = asking.manifest.secret_hosts.get(name), asking.sends_to
    if places is None:
        return
    if to is not None:
        here = [
            one for one in places if EgressPolicy((EgressGrant(one.to.host, one.to.port),)).allows(to.host, to.port)
        ]
        if asking.sends_in <= {one.header for one in here}:
            return
    where = ", ".join(map(str, places))
    raise Denied(
        f"{asking.plugin} declares the secret {printable(name, LONGEST_NAME)} for headers of requests to {where} alone",
        code="secret.bound",
        hint="name it in a header of a request to one of these hosts: {'secret': NAME}; in Authorization, unless the"
        " manifest says HEADER@HOST:PORT",
        details={"capability": "host:secrets", "method": "secrets.get"},
    )
