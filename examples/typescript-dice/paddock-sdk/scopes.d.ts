/** The caller's permissions, looked at once more on the plugin's side: the host has checked them too. */
import type { Handler } from "./handlers.js";
/**
 * A handler that is called only where its caller has all these scopes; for tools and methods.
 *
 *     plugin.tool("send", SEND, requiresScopes(["mail:send"], ({ to }) => …));
 *
 * The manifest names the same scopes in the tool's `required_scopes`: the host tells a plugin only of those. Without
 * one of them the call is answered with ScopeMissing.
 */
export declare function requiresScopes<P, R>(scopes: readonly string[], handler: Handler<P, R>): Handler<P, R>;
/** Whether a handler looks at its caller's scopes, and so must be told them by the host. */
export declare function asksForScopes(handler: object): boolean;
