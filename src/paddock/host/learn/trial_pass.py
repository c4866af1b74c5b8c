"""One pass of a trial: a plugin is started in its cage, answers or does not, and ends; what it tried is observed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from msgspec import Struct

from paddock.cage.errors import CageUnavailable
from paddock.cage.network.egress_proxy import CageNetwork
from paddock.cage.observe.observation import Observations
from paddock.cage.observe.observer import CageObserver, observe
from paddock.cage.spec import CageSpec, Learning
from paddock.cage.warden.client import CagedProcess, WardenClient
from paddock.capabilities.request import CapabilityRequest
from paddock.core.clock import Clock
from paddock.core.errors import CallerError, Denied, Invalid, PaddockError, PluginError
from paddock.core.events.event import EventSink
from paddock.gate.authorization import Authorizer
from paddock.host.learn.trial_call import TrialCall, TrialCallOutcome, make_trial_call
from paddock.host.learn.trial_run import TrialRun, open_trial_run
from paddock.manifest.model import Manifest
from paddock.plugins.tool_pinning.normalize import Definition
from paddock.rpc.errors import PeerLost, RpcError
from paddock.runtime.deployment import Deployment, StartSpec
from paddock.runtime.diagnosis import GrantAdvice, grant_advice
from paddock.runtime.errors import describe_error
from paddock.runtime.launcher import PluginLauncher

# Of a kernel that cannot lead every connection to the proxy: the plugin is then tried without a network.
_NO_REDIRECT_CODE = "cage.redirect_unsupported"
_MISSING_MODULE = re.compile(r"No module named '(\w{1,100})[.\w]*'")
_MAX_LOG_LINES = 50  # of a plugin that does not answer


class PassOutcome(Struct, frozen=True):
    """What came of one pass.

    Attributes:
        cage: The cage it ran in.
        seen: What it tried; empty where the cage was no learning cage.
        tools: How many tools it offers; None where it did not answer.
        failure: Why it did not answer.
        definitions: What it listed; None where it did not answer, or its manifest declares that.
        call: What came of the call that a person wanted, if it was made.
        missing_modules: Python modules that it could not import, as its log says.
    """

    cage: CageSpec
    seen: Observations
    tools: int | None
    failure: PaddockError | None = None
    definitions: tuple[Definition, ...] | None = None
    call: TrialCallOutcome | None = None
    missing_modules: tuple[str, ...] = ()

    @property
    def answered(self) -> bool:
        return self.tools is not None

    @property
    def succeeded(self) -> bool:
        """Whether it answered, and the call succeeded if one was made."""
        return self.answered and (self.call is None or self.call.failure is None)


class TrialRunner:
    """Runs passes.

    Args:
        warden: Launches cages.
        network: The network of the cages.
        clock: Measures the log's rate limit.
        authorizer: Decides about calls.
        answer_timeout_s: How long a plugin may take for each answer.
    """

    def __init__(
        self,
        warden: WardenClient,
        network: CageNetwork,
        clock: Clock,
        authorizer: Authorizer,
        answer_timeout_s: float,
    ) -> None:
        self._authorizer = authorizer
        self._warden = warden
        self._network = network
        self._clock = clock
        self._answer_timeout_s = answer_timeout_s

    async def run(
        self,
        deployment: Deployment,
        cage: CageSpec,
        config: Mapping[str, Any],
        publish: EventSink,
        advice: GrantAdvice | None = None,
        call: TrialCall | None = None,
    ) -> PassOutcome:
        """Start the plugin, wait until it says what it offers, make the call that a person wants, and end it.

        Args:
            deployment: The plugin.
            cage: Its cage.
            config: Its configuration.
            publish: Receives what it does wrong.
            advice: How it gets another capability; None for an installed plugin.
            call: The call to make, if any.

        Raises:
            CageUnavailable: no cage can be built.
            CallerError, Invalid: the call cannot be made; see `make_trial_call`.
        """
        advice = advice or grant_advice(deployment.manifest)
        try:
            return await self._run(deployment, cage, config, publish, advice, call)
        except CageUnavailable as error:
            if error.error_code != _NO_REDIRECT_CODE or cage.learning is None or not cage.learning.network:
                raise
            learning = dataclasses.replace(cage.learning, network=False)
            return await self._run(
                deployment, dataclasses.replace(cage, learning=learning), config, publish, advice, call
            )

    async def _run(
        self,
        deployment: Deployment,
        cage: CageSpec,
        config: Mapping[str, Any],
        publish: EventSink,
        advice: GrantAdvice,
        call: TrialCall | None,
    ) -> PassOutcome:
        observers: list[CageObserver] = []
        async with AsyncExitStack() as stack:

            async def launch(spec: CageSpec) -> CagedProcess:
                process = await self._warden.launch(spec)
                if isinstance(spec.learning, Learning):
                    observers.append(await stack.enter_async_context(observe(process, spec.cage_id, self._network)))
                return process

            launcher = PluginLauncher(launch, self._clock, self._network, connect_timeout_s=self._answer_timeout_s)
            tools, failure, definitions, called, log = None, None, None, None, list[str]()
            try:
                async with open_trial_run(
                    deployment,
                    StartSpec(cage, config),
                    launcher.launch,
                    _refuse_request,
                    mcp_timeout_s=self._answer_timeout_s,
                    publish=publish,
                    clock=self._clock,
                    advice=advice,
                ) as trial:
                    log = trial.log
                    definitions = await _list_definitions(trial)
                    tools = _count_tools(trial.manifest, definitions)
                    if call is not None:
                        called = await make_trial_call(trial, deployment, definitions, call, self._authorizer)
            except (CageUnavailable, CallerError, Invalid):
                raise
            except PaddockError as error:
                failure = error
            seen = await observers[0].finish() if observers else Observations()
        modules = tuple(dict.fromkeys(_MISSING_MODULE.findall("\n".join(log[-_MAX_LOG_LINES:]))))
        return PassOutcome(cage, seen, tools, failure, definitions, called, modules)


async def _list_definitions(trial: TrialRun) -> tuple[Definition, ...] | None:
    """Perform the handshake and return what it lists; None if its manifest declares that.

    Raises:
        PaddockError: it does not answer.
    """
    await trial.handshake()
    await trial.configure()
    try:
        return await trial.definitions()
    except (RpcError, PeerLost, TimeoutError) as error:
        message = f"it did not say what it offers: {describe_error(error)}"
        raise PluginError(message, code="plugin.crashed") from error


def _count_tools(manifest: Manifest, definitions: tuple[Definition, ...] | None) -> int:
    if definitions is None:
        return len(manifest.callables)
    return sum(definition.kind == "tool" for definition in definitions)


async def _refuse_request(request: CapabilityRequest, method: str, params: Mapping[str, Any]) -> Any:
    """Refuse every request to the host: a trial must change nothing."""
    del request, params
    raise Denied(f"{method} is not served while the plugin is tried", code="trial.not_served")
