"""The shape of what rules speak about, in Cedar's schema language. Rules that do not fit it fail at load.

Whoever acts has the same attributes, whichever kind it is, so that a rule need not ask first; only agents have a
whitelist, and only plugins are of a kind and signed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from paddock.policy.vocabulary import Vocabulary

CALLERS: Final = ("User", "ApiKey", "Agent", "Adapter", "Plugin")

_SUBJECT = """\
  tenant: String,
  scopes: Set<String>,
  consents: Set<Callable>,
  interactive: Bool"""

_TRAITS = """\
  kind: Kind,
  tier: Tier,
  signature: Signature,
  tags: Set<Tag>"""

_TEXT = f"""\
entity Role;
entity Group;

// People, also the one at this machine's terminal, and the keys that act for them.
entity User in [Role, Group] {{
{_SUBJECT},
}};
entity ApiKey in [Role, Group] {{
{_SUBJECT},
}};
entity Agent in [Role, Group] {{
{_SUBJECT},
  may_call: Set<Callable>,
}};
entity Adapter in [Role, Group] {{
{_SUBJECT},
}};
entity Plugin in [Role, Group] {{
{_SUBJECT},
{_TRAITS},
}};

// What can be called.
entity Callable in [Plugin] {{
{_TRAITS},
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

// A call that nobody has said yes to is `callUnattended`; with a person's yes it is `call`.
action anyCall;
action call, callUnattended in [anyCall] appliesTo {{
  principal: [{", ".join(CALLERS)}],
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
    """The whole schema."""
    lists = "".join(_enum(name, words) for name, words in vocabulary.words.items())
    return f"{lists}\n{_TEXT}"


def _enum(name: str, words: Sequence[str]) -> str:
    return f"entity {name} enum [{', '.join(json.dumps(word) for word in words)}];\n"
