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

import { isObject, type JsonObject } from "./json.js";

export const PARSE_ERROR = -32700;
export const INVALID_REQUEST = -32600;
export const METHOD_NOT_FOUND = -32601;
export const INVALID_PARAMS = -32602;
export const INTERNAL_ERROR = -32603;
export const PLUGIN_ERROR = -32000;
export const CAPABILITY_DENIED = -32001;
export const NOT_INITIALIZED = -32002;
export const STORAGE_ACCESS_DENIED = -32003;
export const CONFIG_INVALID = -32004;
export const RESOURCE_BUSY = -32005;
export const NOT_APPLICABLE = -32006;

/** An error answer: a sentence for people, a JSON-RPC code, and data for machines. Own codes: -32000 to -32099. */
export class PluginFault extends Error {
  readonly code: number;
  readonly data: unknown;
  /** Whether it says that nothing happened. */
  readonly noEffect: boolean = false;

  constructor(message: string, data?: unknown, code: number = PLUGIN_ERROR) {
    super(message);
    this.name = new.target.name;
    this.code = code;
    this.data = data;
  }

  /** The `error` member of an answer. */
  toError(): { code: number; message: string; data?: unknown } {
    const error = { code: this.code, message: this.message };
    const data = this.noEffect ? withTheWord(this.data) : this.data;
    return data === undefined || data === null ? error : { ...error, data };
  }
}

function withTheWord(data: unknown): JsonObject {
  const said = data === undefined || data === null ? {} : isObject(data) ? data : { data: data as never };
  return { ...said, no_effect: true };
}

/** The call failed, and nothing happened: the caller may make it again under the same key. */
export class NoEffect extends PluginFault {
  override readonly noEffect = true;
}

/** The caller's parameters are wrong. */
export class InvalidParams extends PluginFault {
  override readonly noEffect = true;

  constructor(message: string, data?: unknown) {
    super(message, data, INVALID_PARAMS);
  }
}

/** A new configuration is not acceptable; the old one stays. */
export class ConfigInvalid extends PluginFault {
  constructor(message: string, data?: unknown) {
    super(message, data, CONFIG_INVALID);
  }
}

/** Not now: the caller may try again. */
export class ResourceBusy extends PluginFault {
  override readonly noEffect = true;

  constructor(message: string, data?: unknown) {
    super(message, data, RESOURCE_BUSY);
  }
}

/** The call makes no sense in this context. */
export class NotApplicable extends PluginFault {
  override readonly noEffect = true;

  constructor(message: string, data?: unknown) {
    super(message, data, NOT_APPLICABLE);
  }
}

/** A call came before the handshake was over. */
export class NotInitialized extends PluginFault {
  override readonly noEffect = true;

  constructor() {
    super("the handshake is not over", undefined, NOT_INITIALIZED);
  }
}

/** The caller lacks a permission that the handler asks for. */
export class ScopeMissing extends PluginFault {
  override readonly noEffect = true;

  constructor(missing: readonly string[]) {
    super(`the caller lacks ${missing.join(", ")}`, { code: "PERMISSION_DENIED", missing_scopes: missing });
  }
}

/** The caller does not want the answer any more: clean up and let this pass. */
export class Cancelled extends PluginFault {
  constructor() {
    super("cancelled");
  }
}

/** The host answered a request of ours with an error. Left uncaught, the caller gets that same error. */
export class HostRefused extends PluginFault {}

/** The host refused because the manifest does not ask for it, or it was not granted. */
export class CapabilityDenied extends HostRefused {}

/** The host closed the pipe; the plugin is about to end. */
export class HostGone extends Error {
  override readonly name = "HostGone";

  constructor() {
    super("the host closed the pipe");
  }
}

/** The error that stands in an answer of the host, as an exception. */
export function refusedWith(error: JsonObject): HostRefused {
  const { code, message, data } = error;
  const said = typeof message === "string" ? message : "refused";
  const denied = code === CAPABILITY_DENIED || code === STORAGE_ACCESS_DENIED;
  return new (denied ? CapabilityDenied : HostRefused)(said, data, code as number);
}
