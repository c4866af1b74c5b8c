"""Index of a plugin's accepted resources, by URI, and prompts, by name. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from msgspec import Struct, field

from paddock.core.action import Action
from paddock.core.errors import NotFound, PluginError
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.gate.catalogue.uri_template import UriTemplate, parse_uri_template
from paddock.manifest.model import CallableForm, CallableSpec, Manifest, Prompt, PromptArgument
from paddock.plugins.tool_pinning.normalize import PROMPT, RESOURCE, TEMPLATE, printable_name
from paddock.plugins.tool_pinning.offer import WithheldDefinition

MAX_TEMPLATES: Final = 200
MAX_PROMPT_ARGUMENTS: Final = 100
# No tool name contains a colon, so records can tell these from tools.
READ_RESOURCE: Final = CallableSpec(
    "resource:read",
    CallableForm.RESOURCE,
    input_schema={"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]},
)
_SUBSCRIPTION_SCHEMA: Final = {"type": "object", "properties": {"uri": {"type": "string"}}, "required": ["uri"]}
SUBSCRIBE_RESOURCE: Final = CallableSpec(
    "resource:subscribe", CallableForm.SUBSCRIPTION, input_schema=_SUBSCRIPTION_SCHEMA
)
UNSUBSCRIBE_RESOURCE: Final = CallableSpec(
    "resource:unsubscribe", CallableForm.SUBSCRIPTION, input_schema=_SUBSCRIPTION_SCHEMA
)
COMPLETE_ARGUMENT: Final = CallableSpec(
    "completion:complete",
    CallableForm.COMPLETION,
    input_schema={
        "type": "object",
        "properties": {"ref": {"type": "object"}, "argument": {"type": "object"}, "context": {"type": "object"}},
        "required": ["ref", "argument"],
    },
)
_ARGUMENT_PLACEHOLDER: Final = re.compile(r"\$\{arguments\.([^{}]+)\}|\{\{\s*([^{}]+?)\s*\}\}")


class PromptOffer(Struct, frozen=True):
    """A prompt on offer; the host renders it if it has a text, otherwise its server does."""

    spec: CallableSpec
    text: str | None = None

    def render(self, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Render the prompt as a server would: one user message with the arguments filled in."""
        text = _ARGUMENT_PLACEHOLDER.sub(lambda match: arguments.get(match[1] or match[2], ""), self.text or "")
        content = {"type": "text", "text": text}
        return {"description": self.spec.description, "messages": [{"role": "user", "content": content}]}


class DocumentIndex(Struct, frozen=True):
    """Resources, resource templates and prompts of one plugin."""

    resources: frozenset[str] = frozenset()  # by their stored names
    templates: tuple[UriTemplate, ...] = ()
    prompts: Mapping[str, PromptOffer] = field(default_factory=dict[str, PromptOffer])
    withheld: Mapping[tuple[str, str], WithheldDefinition] = field(
        default_factory=dict[tuple[str, str], WithheldDefinition]
    )
    declared: frozenset[str] = frozenset()  # URIs that the manifest declares and no server provides

    def require_resource(self, plugin: str, uri: str, tenant: Tenant) -> WithheldDefinition | None:
        """Check that a resource exists; return None if it may be read, otherwise why it is withheld.

        Raises:
            NotFound: there is no such resource.
            PluginError: the manifest declares it, but no server provides it.
        """
        name = printable_name(uri)
        if name in self.resources:
            return None
        withheld = self.withheld.get((RESOURCE, name))
        if withheld is not None:
            return withheld
        if any(template.matches(uri) for template in self.templates):
            return None
        if uri in self.declared:
            raise PluginError(
                f"{plugin} declares {printable(uri)} but has no server that serves it",
                code="resource.not_served",
                hint="the plugin's author has to serve it",
                details={"plugin": plugin},
            )
        raise NotFound(
            f"{plugin} has no resource {printable(uri)}",
            code="resource.not_found",
            action=Action.of("plugin.resources", plugin=plugin, tenant=tenant),
            details={"plugin": plugin},
        )

    def find_prompt(self, plugin: str, name: str) -> PromptOffer | WithheldDefinition:
        """Find a prompt by name; if it is withheld, return the reason instead.

        Raises:
            NotFound: there is none of this name.
        """
        found = self.prompts.get(name) or self.withheld.get((PROMPT, printable_name(name)))
        if found is None:
            raise NotFound(
                f"{plugin} has no prompt {printable(name)!r}",
                code="prompt.not_found",
                hint=f"it offers: {printable(', '.join(self.prompts) or 'none', 400)}",
                details={"plugin": plugin},
            )
        return found


def documents_from_definitions(
    manifest: Manifest, texts: Mapping[str, Mapping[str, str]], withheld: Mapping[tuple[str, str], WithheldDefinition]
) -> DocumentIndex:
    """Build the index of a server from its stored definitions.

    Args:
        manifest: The plugin's manifest; its prompts with a text are offered if the server lists none of that name.
        texts: The accepted definitions by kind and name.
        withheld: Definitions that may not be used, by kind and name.
    """
    templates = [_parse_object(text).get("uriTemplate") for text in texts.get(TEMPLATE, {}).values()]
    parsed = (parse_uri_template(text) for text in templates[:MAX_TEMPLATES] if isinstance(text, str))
    prompts = _prompts_by_name(_parse_prompt(_parse_object(text)) for text in texts.get(PROMPT, {}).values())
    listed_names = {*prompts, *(name for kind, name in withheld if kind == PROMPT)}
    manifest_prompts = _prompts_by_name(
        prompt for prompt in manifest.prompts if prompt.text is not None and prompt.name not in listed_names
    )
    return DocumentIndex(
        resources=frozenset(texts.get(RESOURCE, {})),
        templates=tuple(one for one in parsed if one is not None),
        prompts=prompts | manifest_prompts,
        withheld=withheld,
    )


def documents_from_manifest(manifest: Manifest) -> DocumentIndex:
    """Build the index of a plugin that is no server, from its manifest."""
    return DocumentIndex(
        prompts=_prompts_by_name(manifest.prompts), declared=frozenset(resource.uri for resource in manifest.resources)
    )


def _prompts_by_name(prompts: Iterable[Prompt | None]) -> dict[str, PromptOffer]:
    return {one.name: PromptOffer(_prompt_spec(one), one.text) for one in prompts if one is not None}


def _prompt_spec(prompt: Prompt) -> CallableSpec:
    return CallableSpec(
        f"prompt:{prompt.name}",
        CallableForm.PROMPT,
        prompt.description,
        input_schema=_prompt_schema(prompt.name, prompt.arguments),
    )


def _prompt_schema(name: str, arguments: Sequence[PromptArgument]) -> dict[str, Any]:
    """Build the input schema of a prompt: its name and its arguments, which are all strings."""
    arguments_schema = {
        "type": "object",
        "properties": {one.name: {"type": "string"} for one in arguments},
        "required": [one.name for one in arguments if one.required],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {"name": {"const": name}, "arguments": arguments_schema},
        "required": ["name", "arguments"],
    }


def _parse_prompt(raw: Mapping[str, Any]) -> Prompt | None:
    """Parse a server's description of a prompt; None if it has no name."""
    name, description, arguments = raw.get("name"), raw.get("description"), raw.get("arguments")
    if not isinstance(name, str):
        return None
    listed = cast("list[Any]", arguments) if isinstance(arguments, list) else []
    parsed = [_parse_argument(one) for one in listed[:MAX_PROMPT_ARGUMENTS]]
    description_text = description if isinstance(description, str) else ""
    return Prompt(name, description_text, tuple(one for one in parsed if one is not None))


def _parse_argument(raw: Any) -> PromptArgument | None:
    fields = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    name = fields.get("name")
    return PromptArgument(name, required=fields.get("required") is True) if isinstance(name, str) else None


def _parse_object(text: str) -> Mapping[str, Any]:
    raw: Any = json.loads(text)
    return cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
