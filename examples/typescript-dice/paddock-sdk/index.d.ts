// Built by `npm run build` in sdk/typescript from the source with SHA-256 86455de4f6fdcfd6a88a925d1049100acc5d47a8f103c75df97facdeb2898932.
import { Handler } from './shared.js';
export { Again, Allowance, Artifacts, Audit, Cache, Call, Context, Cost, Fields, FromSchema, Given, HeaderValue, Http, HttpAnswer, HttpRequest, Json, JsonObject, KeyValue, Level, Log, Part, Plugin, PluginOptions, Rate, Row, Rows, Schema, SchemaObject, Schemas, Secrets, Statements, Storage, Together, Transaction, Typed, createPlugin } from './shared.js';
import 'node:async_hooks';

/**
 * What a handler throws to answer with an error, and what it meets when the host says no.
 *
 *     PluginFault            any error a handler wants to answer with
 *     ├── NoEffect           the call failed, and nothing happened
 *     ├── InvalidParams      the caller's parameters are wrong
 *     ├── ConfigInvalid      a new configuration is not acceptable; the old one stays
 *     ├── ResourceBusy       not now; the caller may try again
 *     ├── NotApplicable      the call makes no sense here, e.g. it needs a project and there is none
 *     ├── NotInitialized     a call came before the handshake was over
 *     ├── ScopeMissing       the caller lacks a permission that the handler asks for
 *     ├── Cancelled          the caller does not want the answer any more
 *     └── HostRefused        the host answered a request of ours with an error
 *         └── CapabilityDenied   because it was not granted
 *     HostGone               the host closed the pipe; the plugin is about to end
 *
 * A tool with effects that fails may have had them: the host makes the same call again only where the plugin says that
 * nothing happened. NoEffect says it, and so do InvalidParams, ResourceBusy, NotApplicable, NotInitialized and
 * ScopeMissing: throw these before anything is done. Every other error leaves it open.
 */

/** An error answer: a sentence for people, a JSON-RPC code, and data for machines. Own codes: -32000 to -32099. */
declare class PluginFault extends Error {
    readonly code: number;
    readonly data: unknown;
    /** Whether it says that nothing happened. */
    readonly noEffect: boolean;
    constructor(message: string, data?: unknown, code?: number);
    /** The `error` member of an answer. */
    toError(): {
        code: number;
        message: string;
        data?: unknown;
    };
}
/** The call failed, and nothing happened: the caller may make it again under the same key. */
declare class NoEffect extends PluginFault {
    readonly noEffect = true;
}
/** The caller's parameters are wrong. */
declare class InvalidParams extends PluginFault {
    readonly noEffect = true;
    constructor(message: string, data?: unknown);
}
/** A new configuration is not acceptable; the old one stays. */
declare class ConfigInvalid extends PluginFault {
    constructor(message: string, data?: unknown);
}
/** Not now: the caller may try again. */
declare class ResourceBusy extends PluginFault {
    readonly noEffect = true;
    constructor(message: string, data?: unknown);
}
/** The call makes no sense in this context. */
declare class NotApplicable extends PluginFault {
    readonly noEffect = true;
    constructor(message: string, data?: unknown);
}
/** The caller lacks a permission that the handler asks for. */
declare class ScopeMissing extends PluginFault {
    readonly noEffect = true;
    constructor(missing: readonly string[]);
}
/** The caller does not want the answer any more: clean up and let this pass. */
declare class Cancelled extends PluginFault {
    constructor();
}
/** The host answered a request of ours with an error. Left uncaught, the caller gets that same error. */
declare class HostRefused extends PluginFault {
}
/** The host refused because the manifest does not ask for it, or it was not granted. */
declare class CapabilityDenied extends HostRefused {
}
/** The host closed the pipe; the plugin is about to end. */
declare class HostGone extends Error {
    readonly name = "HostGone";
    constructor();
}

/** Saying that a result would not come out the same again: it came from a model, or from the outside world. */
type Status = "succeeded" | "failed" | "in_progress";
type Stability = "high" | "medium" | "low";
/** What is said of a result; the host keeps it in its ledger. */
interface Disclosure {
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
declare function disclose<E extends {
    readonly status: Status;
}>(result: E, reasons?: readonly string[], stability?: Stability): E & Disclosure;
declare function disclose<R>(result: R, reasons?: readonly string[], stability?: Stability): {
    readonly status: "succeeded";
    readonly result: R;
} & Disclosure;

/** What is wrong with a value, and where: the words that checks use. Pure. */
/** One mistake, as it stands in `errors` of an answer. */
interface Problem {
    readonly path: string;
    readonly message: string;
}

/** The caller's permissions, looked at once more on the plugin's side: the host has checked them too. */

/**
 * A handler that is called only where its caller has all these scopes; for tools and methods.
 *
 *     plugin.tool("send", SEND, requiresScopes(["mail:send"], ({ to }) => …));
 *
 * The manifest names the same scopes in the tool's `required_scopes`: the host tells a plugin only of those. Without
 * one of them the call is answered with ScopeMissing.
 */
declare function requiresScopes<P, R>(scopes: readonly string[], handler: Handler<P, R>): Handler<P, R>;

export { Cancelled, CapabilityDenied, ConfigInvalid, Handler, HostGone, HostRefused, InvalidParams, NoEffect, NotApplicable, PluginFault, ResourceBusy, ScopeMissing, disclose, requiresScopes };
export type { Disclosure, Problem, Stability, Status };
