"""Reads OSQR's manifest: behaviour changes of the assistant, data access, and MCP tools."""

from __future__ import annotations

import re

from paddock.core.errors import PaddockError
from paddock.core.ids import PluginName
from paddock.core.semver import Version
from paddock.manifest import capability as capabilities
from paddock.manifest.capability import Capability, HostService, InvalidCapability
from paddock.manifest.dialects.mcp_callables import read_prompts, read_resources, read_tools
from paddock.manifest.model import Behaviour, DataAccess, Dialect, Manifest
from paddock.manifest.names import slug
from paddock.manifest.rules.field_rules import check_plugin_name, check_slug, read_display_text
from paddock.manifest.syntax.fields import Fields, ProblemReport

SCHEMA = "osqr"


def read(fields: Fields, report: ProblemReport) -> Manifest:
    """Map a parsed OSQR manifest onto the model, reporting every broken rule."""
    plugin = fields.within("plugin")
    title = read_display_text(report, plugin, "name")
    name = slug(title)
    check_slug(report, plugin.at("name"), title, name)
    check_plugin_name(report, plugin.at("name"), name)
    offered = fields.within("capabilities")
    data_access = _data_access(fields.within("data_access"))
    return Manifest(
        name=PluginName(name),
        version=_version(report, plugin),
        dialect=Dialect.OSQR,
        description=plugin.text("description"),
        title=title,
        author=read_display_text(report, plugin, "creator"),
        icon=plugin.text("icon_uri"),
        trust_claim=plugin.optional_text("trust_tier"),
        capabilities=_capabilities(report, fields.within("data_access"), data_access),
        callables=tuple(read_tools(report, offered)),
        behaviour=_behaviour(report, fields.within("behavioral_modifications")),
        data_access=data_access,
        resources=tuple(read_resources(offered)),
        prompts=tuple(read_prompts(offered)),
    )


def _version(report: ProblemReport, plugin: Fields) -> str:
    """Read the version. OSQR only warns about one that is not semantic; the store needs one, so it is completed."""
    text = plugin.text("version")
    if not text:
        return ""
    try:
        Version.parse(text)
    except PaddockError:
        numbers = re.match(r"^v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?$", text)
        complete = (
            ".".join(str(int(part or 0)) for part in numbers.groups())
            if numbers
            else f"0.0.0-{slug(text) or 'unknown'}"
        )
        report.warn(
            plugin.at("version"),
            f"Version should follow semantic versioning; {text[:40]!r} is read as {complete}",
            "write e.g. '1.0.0'",
            "version",
        )
        return complete
    return text


def _behaviour(report: ProblemReport, fields: Fields) -> Behaviour | None:
    if not fields.value:
        return None
    style = fields.within("communication_style")
    honesty = fields.within("honesty_tier_override")
    engagement = fields.within("proactive_engagement")
    formatting = fields.within("response_formatting")
    topics = engagement.texts("trigger_topics")
    if engagement.flag("can_initiate") and not topics:
        report.warn(
            engagement.at("trigger_topics"),
            "can_initiate is true but no trigger_topics are defined",
            "list topics, or it will never speak up",
            "no_topics",
        )
    return Behaviour(
        style=style.text("description"),
        intensity=style.text("intensity", "subtle"),
        honesty_override=honesty.flag("enabled"),
        honesty_mode=honesty.text("default_mode"),
        direct_feedback_kept=honesty.flag("supreme_court_accessible", True),
        can_initiate=engagement.flag("can_initiate"),
        trigger_topics=topics,
        confidence_threshold=engagement.number("confidence_threshold", 0.5),
        synonyms={topic: engagement.within("synonyms").texts(topic) for topic in engagement.within("synonyms").value},
        response_length=formatting.optional_text("default_length"),
        emoji_usage=formatting.optional_text("emoji_usage"),
    )


def _data_access(fields: Fields) -> DataAccess:
    return DataAccess(
        vault_read=fields.flag("pkv_read"),
        vault_write=fields.flag("pkv_write"),
        memory=fields.text("memory_integration", "none"),
        external_apis=fields.texts("external_apis"),
    )


def _capabilities(report: ProblemReport, fields: Fields, access: DataAccess) -> tuple[Capability, ...]:
    """Translate the declared data access into capabilities."""
    granted: list[Capability] = []
    if access.vault_read:
        granted.append(HostService("vault", "read"))
    if access.vault_write:
        granted.append(HostService("vault", "write"))
    if access.memory in ("reference_only", "full"):
        granted.append(HostService("memory", access.memory))
    for index, domain in fields.numbered_texts("external_apis"):
        try:
            granted.append(capabilities.parse_capability(f"net:{domain}" if ":" in domain else f"net:{domain}:443"))
        except InvalidCapability as error:
            report.error(
                fields.at("external_apis", index),
                error.message,
                "write a domain such as 'api.example.com'",
                "capability",
            )
    return tuple(dict.fromkeys(granted))
