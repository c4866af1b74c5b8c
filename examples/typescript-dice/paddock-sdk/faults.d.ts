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
 *     ├── Cancelled          whoever called does not want the answer any more
 *     └── HostRefused        the host answered a request of ours with an error
 *         └── CapabilityDenied   because nobody granted it
 *     HostGone               the host closed the pipe; the plugin is about to end
 *
 * A tool with effects that fails may have had them: the host makes the same call again only where the plugin says that
 * nothing happened. NoEffect says it, and so do InvalidParams, ResourceBusy, NotApplicable, NotInitialized and
 * ScopeMissing: throw these before anything is done. Every other error leaves it open.
 */
import { type JsonObject } from "./json.js";
export declare const PARSE_ERROR = -32700;
export declare const INVALID_REQUEST = -32600;
export declare const METHOD_NOT_FOUND = -32601;
export declare const INVALID_PARAMS = -32602;
export declare const INTERNAL_ERROR = -32603;
export declare const PLUGIN_ERROR = -32000;
export declare const CAPABILITY_DENIED = -32001;
export declare const NOT_INITIALIZED = -32002;
export declare const STORAGE_ACCESS_DENIED = -32003;
export declare const CONFIG_INVALID = -32004;
export declare const RESOURCE_BUSY = -32005;
export declare const NOT_APPLICABLE = -32006;
/** An error answer: a sentence for people, a JSON-RPC code, and data for machines. Own codes: -32000 to -32099. */
export declare class PluginFault extends Error {
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
/** The call failed, and nothing happened: whoever made it may make it again under the same key. */
export declare class NoEffect extends PluginFault {
    readonly noEffect = true;
}
/** The caller's parameters are wrong. */
export declare class InvalidParams extends PluginFault {
    readonly noEffect = true;
    constructor(message: string, data?: unknown);
}
/** A new configuration is not acceptable; the old one stays. */
export declare class ConfigInvalid extends PluginFault {
    constructor(message: string, data?: unknown);
}
/** Not now: the caller may try again. */
export declare class ResourceBusy extends PluginFault {
    readonly noEffect = true;
    constructor(message: string, data?: unknown);
}
/** The call makes no sense in this context. */
export declare class NotApplicable extends PluginFault {
    readonly noEffect = true;
    constructor(message: string, data?: unknown);
}
/** A call came before the handshake was over. */
export declare class NotInitialized extends PluginFault {
    readonly noEffect = true;
    constructor();
}
/** The caller lacks a permission that the handler asks for. */
export declare class ScopeMissing extends PluginFault {
    readonly noEffect = true;
    constructor(missing: readonly string[]);
}
/** Whoever called does not want the answer any more: clean up and let this pass. */
export declare class Cancelled extends PluginFault {
    constructor();
}
/** The host answered a request of ours with an error. Left uncaught, the caller gets that same error. */
export declare class HostRefused extends PluginFault {
}
/** The host refused because the manifest does not ask for it, or nobody granted it. */
export declare class CapabilityDenied extends HostRefused {
}
/** The host closed the pipe; the plugin is about to end. */
export declare class HostGone extends Error {
    readonly name = "HostGone";
    constructor();
}
/** The error that stands in an answer of the host, as an exception. */
export declare function refusedWith(error: JsonObject): HostRefused;
