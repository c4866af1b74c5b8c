/** Saying that a result would not come out the same again: it came from a model, or from the outside world. */

import { isObject } from "./json.js";

export type Status = "succeeded" | "failed" | "in_progress";
export type Stability = "high" | "medium" | "low";

const STATUSES: readonly unknown[] = ["succeeded", "failed", "in_progress"] satisfies Status[];

/** What is said of a result; the host keeps it in its ledger. */
export interface Disclosure {
  readonly nondeterminism: {
    readonly is_nondeterministic: boolean;
    readonly reasons: readonly string[];
    readonly stability: Stability;
  };
}

/**
 * A result with its nondeterminism disclosed: the whole result of an operator (with its `status`), or just the value,
 * which then is the `result` of one that succeeded. Reasons are for example `llm_sampling` and `web_content`; none says
 * that it is deterministic. Stability is how alike two results are.
 *
 * An output schema speaks of the whole: `status`, `result` and `nondeterminism`.
 */
export function disclose<E extends { readonly status: Status }>(
  result: E,
  reasons?: readonly string[],
  stability?: Stability,
): E & Disclosure;
export function disclose<R>(
  result: R,
  reasons?: readonly string[],
  stability?: Stability,
): { readonly status: "succeeded"; readonly result: R } & Disclosure;
export function disclose(result: unknown, reasons: readonly string[] = [], stability: Stability = "medium"): Disclosure {
  const nondeterminism = { is_nondeterministic: reasons.length > 0, reasons, stability };
  const whole = isObject(result) && STATUSES.includes(result["status"]);
  return whole ? { ...result, nondeterminism } : ({ status: "succeeded", result, nondeterminism } as Disclosure);
}
