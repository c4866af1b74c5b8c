/** The caller's permissions, looked at once more on the plugin's side: the host has checked them too. */

import { ScopeMissing } from "./faults.js";
import type { Handler } from "./handlers.js";

const asking = new WeakSet<object>();

/**
 * A handler that is called only where its caller has all these scopes; for tools and methods.
 *
 *     plugin.tool("send", SEND, requiresScopes(["mail:send"], ({ to }) => …));
 *
 * The manifest names the same scopes in the tool's `required_scopes`: the host tells a plugin only of those. Without
 * one of them the call is answered with ScopeMissing.
 */
export function requiresScopes<P, R>(scopes: readonly string[], handler: Handler<P, R>): Handler<P, R> {
  const guarded: Handler<P, R> = (params, call) => {
    const missing = scopes.filter((scope) => !call.scopes.includes(scope));
    if (missing.length > 0) {
      throw new ScopeMissing(missing);
    }
    return handler(params, call);
  };
  asking.add(guarded);
  return guarded;
}

/** Whether a handler looks at its caller's scopes, and so has to receive them from the host. */
export function asksForScopes(handler: object): boolean {
  return asking.has(handler);
}
