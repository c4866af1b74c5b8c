/** The tools of __NAME__. The manifest says the same to the host. */

import { createPlugin } from "#paddock-sdk";

const GREET = {
  input: {
    type: "object",
    required: ["name"],
    additionalProperties: false,
    properties: { name: { type: "string", minLength: 1 } },
  },
  output: { type: "object", required: ["text"], properties: { text: { type: "string" } } },
} as const;

export const plugin = createPlugin({ name: "__NAME__", version: "0.1.0" });

plugin.tool("greet", GREET, ({ name }) => ({ text: `${plugin.config["greeting"] ?? "Hello"}, ${name}!` }));
