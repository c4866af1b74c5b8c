"""All pages of the console."""

from __future__ import annotations

import asyncio

from paddock.host.host import Host
from paddock.http.console.accounts import AccountPages
from paddock.http.console.activation import ActivationPages
from paddock.http.console.api_keys import KeyPages
from paddock.http.console.approvals import ApprovalPages
from paddock.http.console.configuration import ConfigurationPages
from paddock.http.console.doubts import DoubtPages
from paddock.http.console.explain import ExplainPages
from paddock.http.console.home import HomePage
from paddock.http.console.installing import InstallPages
from paddock.http.console.knobs import KnobPages
from paddock.http.console.ledger import LedgerPages
from paddock.http.console.page import Page
from paddock.http.console.people import PeoplePages
from paddock.http.console.plugin_logs import PluginLogPages
from paddock.http.console.plugins import PluginPages
from paddock.http.console.policy import PolicyPages
from paddock.http.console.policy_try import PolicyTryPages
from paddock.http.console.repairs import RepairPages
from paddock.http.console.running import RunningPages
from paddock.http.console.secrets import SecretPages
from paddock.http.console.settings import SettingsPages
from paddock.http.console.settings_host import HostPages
from paddock.http.console.static_files import PREFIX, serve_file
from paddock.http.console.touring import Touring
from paddock.http.console.verifying import VerifyPages
from paddock.http.console.versions import VersionPages
from paddock.http.console.webhooks import WebhookPages
from paddock.http.endpoint import ANYBODY


def pages_of(host: Host, closing: asyncio.Event) -> list[Page]:
    """Every address of the console. `closing` is set once whoever still follows something must go."""
    rows = [
        Page("GET", f"{PREFIX}/{{digest}}/{{name:path}}", serve_file, ANYBODY),
        *HomePage(host, closing).rows(),
        *PluginPages(host).rows(),
        *InstallPages(host, closing).rows(),
        *VersionPages(host).rows(),
        *ActivationPages(host).rows(),
        *KnobPages(host).rows(),
        *ConfigurationPages(host).rows(),
        *PluginLogPages(host, closing).rows(),
        *RunningPages(host, closing).rows(),
        *ApprovalPages(host).rows(),
        *VerifyPages(host, closing).rows(),
        *LedgerPages(host, closing).rows(),
        *PolicyPages(host).rows(),
        *PolicyTryPages(host).rows(),
        *ExplainPages(host).rows(),
        *SecretPages(host).rows(),
        *AccountPages(host).rows(),
        *DoubtPages(host).rows(),
        *RepairPages(host).rows(),
        *SettingsPages(host).rows(),
        *KeyPages(host).rows(),
        *PeoplePages(host).rows(),
        *WebhookPages(host).rows(),
        *HostPages(host).rows(),
    ]
    touring = Touring(host)
    return [*map(touring.guided, rows), *touring.rows()]
