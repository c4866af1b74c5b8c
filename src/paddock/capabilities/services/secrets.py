"""The secrets service: values of the secrets that a plugin declares, for the person whose call it works on.

secrets.get {name} → {value, found}

A secret that the manifest binds to hosts is not returned as a value: the host writes it into headers of requests to
these hosts, and redacts it in every response to this plugin.
A person's own secret comes first, then the tenant's where the declaration allows it. A plugin that names no call works
for no person, and gets no person's secret.
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
from paddock.core.action import Action, with_sentence
from paddock.core.clock import Clock
from paddock.core.errors import Denied, HostError, OperatorError
from paddock.core.events.event import EventSink
from paddock.core.events.secrets import SecretUsed
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.core.secret import MAX_SECRET_NAME_CHARS
from paddock.manifest.capability import HostService
from paddock.net.egress import EgressGrant, EgressPolicy
from paddock.secrets.requirements import SecretScope, lookup_order
from paddock.secrets.vault import UNREADABLE_CODES, OpenedSecret, Vault

_MAX_REMEMBERED_USES = 4_096
_log = logging.getLogger("paddock.secrets")

_SecretUseKey: TypeAlias = tuple[str, str, str | None, str, str]


class PluginSecretService:
    """Returns secrets to plugins and records each use: once per call, and outside of calls once a second.

    Args:
        vault: Stores the secrets.
        publish_for: Returns the event sink of a tenant.
        clock: Measures the recording interval.
    """

    def __init__(self, vault: Vault, publish_for: Callable[[Tenant], EventSink], clock: Clock) -> None:
        self._vault = vault
        self._publish_for = publish_for
        self._clock = clock
        self._recorded: OrderedDict[_SecretUseKey, float] = OrderedDict()  # use → time of its last record

    def handlers(self) -> dict[str, ServiceHandler]:
        return {"secrets.get": self.get}

    async def get(self, request: CapabilityRequest, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return `{value, found}`; the value is null if the secret is not set.

        Raises:
            Denied: the plugin does not declare it, or its manifest binds it to other uses.
            HostError: it is set but cannot be decrypted.
        """
        name = text_param(params, "name", max_chars=MAX_SECRET_NAME_CHARS)
        order = lookup_order(request.manifest, name, request.operation)
        if order is None:
            raise Denied(
                f"{request.plugin} does not declare the secret {printable(name, MAX_SECRET_NAME_CHARS)}",
                code="capability_denied",
                hint="name it under 'secrets' in its manifest",
                details={"capability": "host:secrets", "method": "secrets.get"},
            )
        _require_allowed_recipient(request, name)
        person = request.call.principal.person if request.call is not None else None
        try:
            secret = await self._vault.get(request.tenant, person, name, order)
        except (HostError, OperatorError) as error:
            if error.error_code not in UNREADABLE_CODES:
                raise
            # The cause names paths of this machine, which a caged plugin must not learn.
            remedy = with_sentence(error.hint, error.action)
            _log.error("the secret %s of %s cannot be opened: %s (%s)", name, request.tenant, error.message, remedy)
            raise HostError(
                f"the secret {name} cannot be opened",
                code=error.error_code,
                hint="an operator of this host finds the cause in its log and its checks",
                action=Action.of("host.check"),
            ) from None
        if secret is None:
            return {"value": None, "found": False}
        self._record(request, name, secret)
        return {"value": secret.value.reveal(), "found": True}

    async def bound_values(self, request: CapabilityRequest) -> list[str]:
        """Return the secrets' values that the manifest binds to hosts: no response may contain them.

        One that cannot be decrypted is left out, because it was not sent either.
        """
        if HostService("secrets") not in request.granted:
            return []
        person = request.call.principal.person if request.call is not None else None
        values: list[str] = []
        for name in request.manifest.secret_hosts:
            for scope in SecretScope:
                try:
                    secret = await self._vault.get(request.tenant, person, name, (scope,))
                except (HostError, OperatorError) as error:
                    if error.error_code not in UNREADABLE_CODES:
                        raise
                else:
                    values.extend([secret.value.reveal()] if secret is not None else [])
        return values

    def _record(self, request: CapabilityRequest, name: str, secret: OpenedSecret) -> None:
        request_id = request.call.request if request.call is not None else None
        call, now = request.call_id or request_id, self._clock.monotonic()
        use = (request.tenant, request.plugin, call, name, secret.owner)
        last = self._recorded.get(use)
        if last is not None and (call is not None or now - last < RECORD_INTERVAL_S):
            self._recorded.move_to_end(use)
            return
        self._recorded[use] = now
        self._recorded.move_to_end(use)
        if len(self._recorded) > _MAX_REMEMBERED_USES:
            self._recorded.popitem(last=False)
        self._publish_for(request.tenant).publish(
            SecretUsed(
                plugin=request.plugin,
                secret=name,
                scope=secret.scope.value,
                request_id=request_id,
                owner=secret.owner or None,
                call_id=request.call_id,
            )
        )


def _require_allowed_recipient(request: CapabilityRequest, name: str) -> None:
    """Check that a secret bound to hosts is requested for a header of a request to one of them."""
    bindings, origin = request.manifest.secret_hosts.get(name), request.sends_to
    if bindings is None:
        return
    if origin is not None:
        matching = [
            binding
            for binding in bindings
            if EgressPolicy((EgressGrant(binding.to.host, binding.to.port),)).allows(origin.host, origin.port)
        ]
        if request.sends_in <= {binding.header for binding in matching}:
            return
    recipients = ", ".join(map(str, bindings))
    raise Denied(
        f"{request.plugin} declares the secret {printable(name, MAX_SECRET_NAME_CHARS)}"
        f" for headers of requests to {recipients} alone",
        code="secret.bound",
        hint="name it in a header of a request to one of these hosts: {'secret': NAME}; in Authorization, unless the"
        " manifest says HEADER@HOST:PORT",
        details={"capability": "host:secrets", "method": "secrets.get"},
    )
