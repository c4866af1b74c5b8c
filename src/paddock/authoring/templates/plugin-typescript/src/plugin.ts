/** The tools of __NAME__, declared once: `paddock plugin sync` copies them into the manifest. */

import { createPlugin } from "#paddock-sdk";

const GREET = {
  description: "Greet a person.",
  input: {
    type: "object",
    required: ["name"],
    additionalProperties: false,
    properties: { name: { type: "string", description: "Whom to greet", minLength: 1, examples: ["Ann"] } },
  },
  output: { type: "object", required: ["text"], properties: { text: { type: "string" } } },
} as const;

export const plugin = createPlugin({ name: "__NAME__", version: "0.1.0" });

plugin.tool("greet", GREET, ({ name }) => ({ text: `${plugin.config["greeting"] ?? "Hello"}, ${name}!` }));
