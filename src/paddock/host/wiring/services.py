"""Builds the services of a host from its parts, one function for each subject that needs more than one step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anyio.abc import TaskGroup

from paddock.config.oidc_settings import OidcSettings
from paddock.core.clock import Clock, Random
from paddock.core.ids import Tenant
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.host.identity.api_keys import ApiKeyService
from paddock.host.identity.console_sessions import ConsoleSessions
from paddock.host.identity.credentials import CredentialVerifier
from paddock.host.identity.groups import GroupService
from paddock.host.identity.oidc import OidcIdentities
from paddock.host.identity.people import ConsentService, PeopleService
from paddock.host.identity.principal_transactions import PrincipalTransactions
from paddock.host.identity.tenants import TenantService
from paddock.host.inbox.approval_source import ApprovalSource
from paddock.host.inbox.definition_source import definition_source
from paddock.host.inbox.inbox import InboxService
from paddock.host.inbox.outcome_source import UnknownOutcomeSource
from paddock.host.inbox.repair_source import repair_source
from paddock.host.ledger.webhooks import WebhookService
from paddock.host.observability.health import HostHealth
from paddock.host.repairs.fact_collector import FactCollector
from paddock.host.repairs.host_probe import HostProbe
from paddock.host.repairs.repair_actions import RepairActions
from paddock.host.repairs.repair_service import RepairService
from paddock.host.secrets.secret_service import SecretService
from paddock.host.services import IdentityServices, PluginServices
from paddock.plugins.store.thread import StoreThread
from paddock.principals.display_name_cache import DisplayNameCache
from paddock.secrets.vault import Vault
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import Database
from paddock.webhooks.live_events import LiveEvents


def build_identity_services(
    database: Database,
    store: StoreThread,
    vault: Vault,
    oidc: OidcSettings,
    tasks: TaskGroup,
    clock: Clock,
    random: Random,
) -> IdentityServices:
    """Build the services for principals and their credentials."""
    credentials = CredentialVerifier(database, clock, tasks)
    transactions = PrincipalTransactions(database, store, credentials, clock, random)
    return IdentityServices(
        tenants=TenantService(transactions),
        people=PeopleService(transactions),
        names=DisplayNameCache(database, clock, lambda: credentials.revision),
        groups=GroupService(transactions),
        api_keys=ApiKeyService(transactions),
        consents=ConsentService(transactions),
        credentials=credentials,
        console_sessions=ConsoleSessions(database, credentials, clock, random),
        oidc=OidcIdentities(database, vault, credentials, oidc, clock, random),
    )


def build_repairs(
    plugins: PluginServices,
    webhooks: WebhookService,
    secrets: SecretService,
    health: HostHealth,
    host_probe: HostProbe,
    catalogue: Callable[[Tenant], Catalogue],
    *,
    views: StoreThread,
    keys: WrappingKeys,
    environ: Mapping[str, str],
    clock: Clock,
) -> RepairService:
    """Build the detection of repairs and the actions behind them."""
    facts = FactCollector(views, plugins.processes, catalogue, health, host_probe, keys, environ, clock)
    actions = RepairActions(plugins.lifecycle, plugins.versions, webhooks, secrets)
    return RepairService(facts, actions, views, clock.monotonic)


def build_inbox(
    database: Database, views: StoreThread, repairs: RepairService, live_events: LiveEvents, clock: Clock
) -> InboxService:
    """Build the inbox. A room with something that needs a person adds its source here."""
    sources = (
        ApprovalSource(database, clock),
        UnknownOutcomeSource(database),
        definition_source(views),
        repair_source(repairs),
    )
    return InboxService(sources, live_events)
