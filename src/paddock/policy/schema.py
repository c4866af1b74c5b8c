"""The schema of policy requests, in Cedar's schema language. Rules that violate it fail to load.

All principal types have the same attributes, so that a rule need not check the type first; only agents have an
allowlist, and only plugins have a kind and a signature.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from paddock.manifest.capability import HOST_FAMILIES
from paddock.manifest.definition_flags import DefinitionFlag
from paddock.manifest.effects import Effect
from paddock.manifest.model import PluginKind

#: Tags that plugins of the documented examples carry, and those that the shipped rules name.
SHIPPED_TAGS: Final = (
    "draft_only",
    "external_send",
    "overrides_identity_core",
    "overrides_safety_guardrails",
    "overrides_user_sovereignty",
    "pii_access",
    "pii_allowed",
    "proposal_only",
    "read_only",
    "writes_final",
)
#: Roles that the shipped rules know. Any other name may be a role too.
SHIPPED_ROLES: Final = ("operator", "approver", "member", "guest")
TIERS: Final = ("personal", "community", "verified")
#: States of a signature; `embedded` and `remote` code has no package that could be signed.
SIGNATURES: Final = ("unsigned", "community-signed", "verified", "modified", "embedded", "remote")
#: What a plugin can request of the host: its services, and its tables, files, programs and connections.
CAPABILITY_FAMILIES: Final = (*sorted(HOST_FAMILIES), "exec", "fs", "net", "tables")


class Vocabulary(Struct, frozen=True):
    """The closed vocabularies. Operators can extend only the tags (setting `policy.tags`)."""

    tags: tuple[str, ...] = SHIPPED_TAGS

    @property
    def words(self) -> dict[str, tuple[str, ...]]:
        """The words of each vocabulary, by the name that rules use for it."""
        return {
            "Effect": tuple(map(str, Effect)),
            "Family": CAPABILITY_FAMILIES,
            "Flag": tuple(map(str, DefinitionFlag)),
            "Kind": tuple(map(str, PluginKind)),
            "Signature": SIGNATURES,
            "Tag": self.tags,
            "Tier": TIERS,
        }


def build_vocabulary(custom_tags: Iterable[str] = ()) -> Vocabulary:
    """Build the vocabulary of the shipped words and custom tags."""
    return Vocabulary(tuple(sorted({*SHIPPED_TAGS, *custom_tags})))


PRINCIPAL_TYPES: Final = ("User", "ApiKey", "Agent", "Adapter", "Plugin")

_PRINCIPAL_ATTRIBUTES = """\
  tenant: String,
  scopes: Set<String>,
  consents: Set<Callable>,
  interactive: Bool"""

_TRAIT_ATTRIBUTES = """\
  kind: Kind,
  tier: Tier,
  signature: Signature,
  tags: Set<Tag>"""

_SCHEMA_TEXT = f"""\
entity Role;
entity Group;

// People, also the one at this machine's terminal, and the keys that act for them.
entity User in [Role, Group] {{
{_PRINCIPAL_ATTRIBUTES},
}};
entity ApiKey in [Role, Group] {{
{_PRINCIPAL_ATTRIBUTES},
}};
entity Agent in [Role, Group] {{
{_PRINCIPAL_ATTRIBUTES},
  may_call: Set<Callable>,
}};
entity Adapter in [Role, Group] {{
{_PRINCIPAL_ATTRIBUTES},
}};
entity Plugin in [Role, Group] {{
{_PRINCIPAL_ATTRIBUTES},
{_TRAIT_ATTRIBUTES},
}};

// What can be called.
entity Callable in [Plugin] {{
{_TRAIT_ATTRIBUTES},
  effects: Set<Effect>,
  flags: Set<Flag>,
  requires_approval: Bool,
}};

// What a plugin can ask of the host.
entity Capability {{
  family: Family,
  writes: Bool,
  effects: Set<Effect>,
}};

// A call that no person has approved is `callUnattended`; an approved one is `call`.
// `background`: nobody waits for the call; its caller detached from it, the host makes it to recover an effect, or goes
// on with it after a restart.
// `dry_run`: the caller asks what would happen, and nothing runs. A rule can forbid that to those who may call.
action anyCall;
action call, callUnattended in [anyCall] appliesTo {{
  principal: [{", ".join(PRINCIPAL_TYPES)}],
  resource: [Callable],
  context: {{ background: Bool, dry_run: Bool, project?: String, agent_path?: String }},
}};
// An agent puts it into a plan.
action propose appliesTo {{
  principal: [Agent],
  resource: [Callable],
  context: {{}},
}};
// A plugin asks the host for something: for a call with these effects, or of its own accord. It may do that while it
// works on calls, and those have these effects all together.
action use appliesTo {{
  principal: [Plugin],
  resource: [Capability],
  context: {{
    method: String, granted: Bool, call_effects?: Set<Effect>, underway_effects?: Set<Effect>
  }},
}};
"""


def schema_text(vocabulary: Vocabulary) -> str:
    """Return the whole schema."""
    enums = "".join(_enum_entity(name, words) for name, words in vocabulary.words.items())
    return f"{enums}\n{_SCHEMA_TEXT}"


def _enum_entity(name: str, words: Sequence[str]) -> str:
    return f"entity {name} enum [{', '.join(json.dumps(word) for word in words)}];\n"
