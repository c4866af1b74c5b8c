"""The services of a host, by subject: `host.plugins.lifecycle`, `host.ledger.reader`. Built in `wiring/services.py`."""

from __future__ import annotations

from msgspec import Struct

from paddock.capabilities.artifacts.service import ArtifactService
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.calls.waiting_calls import WaitingCalls
from paddock.host.calls.call_history import CallHistory
from paddock.host.calls.call_record import CallRecords
from paddock.host.calls.caller_view import CallableAccess, PermittedPlugins
from paddock.host.calls.last_day import LastDayReader
from paddock.host.calls.osqr_activation import OsqrActivation
from paddock.host.calls.shu_actions import ShuActions
from paddock.host.calls.unknown_outcomes import UnknownOutcomes
from paddock.host.explain.explain_service import ExplainService
from paddock.host.identity.api_keys import ApiKeyService
from paddock.host.identity.console_sessions import ConsoleSessions
from paddock.host.identity.credentials import CredentialVerifier
from paddock.host.identity.groups import GroupService
from paddock.host.identity.oidc import OidcIdentities
from paddock.host.identity.people import ConsentService, PeopleService
from paddock.host.identity.tenants import TenantService
from paddock.host.learn.learn_service import LearnService
from paddock.host.learn.trial_job import TrialJobs
from paddock.host.ledger.erasure import ErasureService
from paddock.host.ledger.reader import LedgerReader
from paddock.host.ledger.verification import VerificationService
from paddock.host.ledger.webhooks import WebhookService
from paddock.host.observability.health import HostHealth
from paddock.host.observability.metrics import Metrics
from paddock.host.plugins.activity import ActivityReader
from paddock.host.plugins.aliases import AliasService
from paddock.host.plugins.config_service import ConfigService
from paddock.host.plugins.discovery import DefinitionService
from paddock.host.plugins.embedded_plugin import EmbeddedPlugins
from paddock.host.plugins.features import PluginFeatures
from paddock.host.plugins.install import InstallService
from paddock.host.plugins.inventory import PluginInventory
from paddock.host.plugins.knob_service import KnobService
from paddock.host.plugins.lifecycle import PluginLifecycle
from paddock.host.plugins.logs.log_reader import PluginLogReader
from paddock.host.plugins.processes import PluginProcesses
from paddock.host.plugins.uninstall import UninstallService
from paddock.host.plugins.versions import VersionService
from paddock.host.policy.active_policy import ActivePolicy
from paddock.host.policy.policy_service import PolicyService
from paddock.host.policy.rule_editor import RuleEditor
from paddock.host.secrets.secret_service import SecretService
from paddock.host.secrets.usage import SecretUsageService
from paddock.host.secrets.user_requirements import UserRequirements
from paddock.principals.display_name_cache import DisplayNameCache
from paddock.webhooks.live_events import LiveEvents


class PluginServices(Struct, frozen=True):
    """What operators do with plugins, and what plugins offer and leave."""

    inventory: PluginInventory  # list, show
    lifecycle: PluginLifecycle  # enable, disable, reconcile
    processes: PluginProcesses  # states and notifications
    logs: PluginLogReader
    installer: InstallService
    learning: LearnService  # whether a plugin answers, and the grants that it needs
    trials: TrialJobs  # the same for pages, which follow it
    uninstaller: UninstallService
    versions: VersionService  # pin, roll back, repair
    aliases: AliasService
    config: ConfigService
    knobs: KnobService
    definitions: DefinitionService  # the pinned definitions of servers' tools
    features: PluginFeatures  # tools, resources and prompts
    activity: ActivityReader
    artifacts: ArtifactService
    embedded: EmbeddedPlugins


class CallServices(Struct, frozen=True):
    """What callers do: call, follow their calls, and see what they may use."""

    registry: CallRegistry
    waiting: WaitingCalls  # finds those too that wait for a person
    actions: ShuActions
    activation: OsqrActivation
    callable_access: CallableAccess
    permitted_plugins: PermittedPlugins
    unknown_outcomes: UnknownOutcomes
    records: CallRecords  # everything that is known of one call
    history: CallHistory  # the calls of a tenant, newest first
    last_day: LastDayReader  # their numbers, for home


class IdentityServices(Struct, frozen=True):
    """Who may act, and how they prove who they are."""

    tenants: TenantService
    people: PeopleService
    names: DisplayNameCache
    groups: GroupService
    api_keys: ApiKeyService
    consents: ConsentService
    credentials: CredentialVerifier
    console_sessions: ConsoleSessions
    oidc: OidcIdentities


class PolicyServices(Struct, frozen=True):
    """The policy in force, its rules, and explanations of its decisions."""

    active: ActivePolicy
    rules: PolicyService
    editor: RuleEditor  # the files of custom rules
    explanations: ExplainService


class SecretServices(Struct, frozen=True):
    """Secrets: the stored ones, where they are used, and those that people have to set for themselves."""

    store: SecretService
    usage: SecretUsageService
    user_requirements: UserRequirements


class LedgerServices(Struct, frozen=True):
    """The ledger: its entries, their verification and erasure, and the events that webhooks and live followers get."""

    reader: LedgerReader
    verification: VerificationService
    erasure: ErasureService
    webhooks: WebhookService
    live_events: LiveEvents


class ObservabilityServices(Struct, frozen=True):
    """How the host is doing."""

    health: HostHealth
    metrics: Metrics
