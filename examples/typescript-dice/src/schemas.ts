/** What the tools are for, take and give. `paddock plugin sync` copies it into the manifest. */

const dice = {
  type: "string",
  pattern: "^[0-9]{0,3}d[0-9]{1,4}([+-][0-9]{1,4})?$",
  description: "Like 3d6+1, or d20",
} as const;

export const ROLL = {
  description: "Roll dice, such as 3d6+1.",
  input: { type: "object", required: ["dice"], additionalProperties: false, properties: { dice } },
  output: {
    type: "object",
    required: ["rolls", "total"],
    properties: { rolls: { type: "array", items: { type: "integer" } }, total: { type: "integer" } },
  },
} as const;

export const ODDS = {
  description: "How likely it is to reach a total, exactly.",
  input: {
    type: "object",
    required: ["dice", "at_least"],
    additionalProperties: false,
    properties: { dice, at_least: { type: "integer" } },
  },
  output: {
    type: "object",
    required: ["probability"],
    properties: { probability: { type: "number", minimum: 0, maximum: 1 } },
  },
} as const;

export const TRY_OUT = {
  description: "Roll many times and count the totals; reports progress, and stops when the call is cancelled.",
  input: {
    type: "object",
    required: ["dice", "times"],
    additionalProperties: false,
    properties: { dice, times: { type: "integer", minimum: 1, maximum: 100000000 } },
  },
  output: {
    type: "object",
    required: ["counts", "mean"],
    properties: { counts: { type: "object", additionalProperties: { type: "integer" } }, mean: { type: "number" } },
  },
} as const;
