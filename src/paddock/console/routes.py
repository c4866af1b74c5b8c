"""All routes of the console."""

from __future__ import annotations

import asyncio

from paddock.console.inbox_badge import InboxBadges
from paddock.console.page import Page
from paddock.console.page_names import PageNames
from paddock.console.pages.approvals.approvals import ApprovalPages
from paddock.console.pages.approvals.unknown_outcomes import UnknownOutcomePages
from paddock.console.pages.calls.activity import ActivityPages
from paddock.console.pages.calls.calls import CallPages
from paddock.console.pages.home.find import FindPages
from paddock.console.pages.home.home import HomePages
from paddock.console.pages.home.repairs import RepairPages
from paddock.console.pages.home.tour import TourGuide
from paddock.console.pages.inbox.inbox import InboxPages
from paddock.console.pages.ledger.ledger import LedgerPages
from paddock.console.pages.ledger.verify import VerifyPages
from paddock.console.pages.people.groups import GroupPages
from paddock.console.pages.people.people import PeoplePages
from paddock.console.pages.people.person import PersonPages
from paddock.console.pages.plugins.activation import ActivationPages
from paddock.console.pages.plugins.install import InstallPages
from paddock.console.pages.plugins.logs import PluginLogPages
from paddock.console.pages.plugins.map import MapPages
from paddock.console.pages.plugins.plugin_calls import PluginCallPages
from paddock.console.pages.plugins.plugin_live import PluginLivePages
from paddock.console.pages.plugins.plugin_settings import PluginSettingsPages
from paddock.console.pages.plugins.plugins import PluginPages
from paddock.console.pages.plugins.tool_runs import ToolRunPages
from paddock.console.pages.plugins.trial import TrialPages
from paddock.console.pages.plugins.trust import TrustPages
from paddock.console.pages.plugins.versions import VersionPages
from paddock.console.pages.policy.explain import ExplainPages, PolicySimulationPages
from paddock.console.pages.policy.rule_files import RuleFilePages
from paddock.console.pages.policy.rules import PolicyPages
from paddock.console.pages.settings.accounts import AccountPages
from paddock.console.pages.settings.api_keys import ApiKeyPages
from paddock.console.pages.settings.host import HostSettingsPages
from paddock.console.pages.settings.secrets import SecretPages
from paddock.console.pages.settings.settings import PersonalSettingsPages
from paddock.console.pages.settings.webhooks import WebhookPages
from paddock.console.static_files import STATIC_PREFIX, serve_file
from paddock.console.tenant_changes import TenantChanges, watch_calls
from paddock.host.host import Host
from paddock.web.routing.route import PUBLIC


def console_pages(host: Host, closing: asyncio.Event) -> list[Page]:
    """Return every route of the console. `closing` is set when open streams must end."""
    inbox_changes, call_changes = TenantChanges(host.inbox.changes), TenantChanges(watch_calls(host))
    pages = [
        Page("GET", f"{STATIC_PREFIX}/{{digest}}/{{name:path}}", serve_file, PUBLIC),
        *HomePages(host, closing, call_changes).routes(),
        *FindPages(host).routes(),
        *MapPages(host).routes(),
        *PluginPages(host).routes(),
        *PluginLivePages(host, closing, call_changes).routes(),
        *PluginCallPages(host).routes(),
        *TrialPages(host, closing).routes(),
        *TrustPages(host).routes(),
        *InstallPages(host, closing).routes(),
        *VersionPages(host).routes(),
        *ActivationPages(host).routes(),
        *PluginSettingsPages(host).routes(),
        *PluginLogPages(host, closing).routes(),
        *ToolRunPages(host).routes(),
        *ActivityPages(host, closing, call_changes).routes(),
        *CallPages(host, closing).routes(),
        *InboxPages(host, closing, inbox_changes).routes(),
        *ApprovalPages(host, closing).routes(),
        *VerifyPages(host, closing).routes(),
        *LedgerPages(host, closing).routes(),
        *PolicyPages(host).routes(),
        *RuleFilePages(host).routes(),
        *PolicySimulationPages(host).routes(),
        *ExplainPages(host).routes(),
        *SecretPages(host).routes(),
        *AccountPages(host).routes(),
        *UnknownOutcomePages(host).routes(),
        *RepairPages(host).routes(),
        *PersonalSettingsPages(host).routes(),
        *ApiKeyPages(host).routes(),
        *PeoplePages(host).routes(),
        *PersonPages(host).routes(),
        *GroupPages(host).routes(),
        *WebhookPages(host).routes(),
        *HostSettingsPages(host).routes(),
    ]
    tour, badges, names = TourGuide(host), InboxBadges(host, closing, inbox_changes), PageNames(host)
    return [
        *map(names.with_names, map(badges.with_badge, map(tour.with_tour, pages))),
        *tour.routes(),
        *badges.routes(),
    ]
