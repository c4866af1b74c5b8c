/** One call as a handler sees it: who is calling, whether the caller still waits, and a way to report progress. */

import { setImmediate as turnOfTheLoop } from "node:timers/promises";

import { isObject, type Json, type JsonObject } from "./json.js";
import type { Id } from "./message.js";

/** Who is calling. Project, agent and session are all known, or all null for a call of the host's own. */
export interface Context {
  readonly operator_id: string | null;
  readonly project_id: string | null;
  readonly agent_path: string | null;
  readonly session_id: string | null;
  readonly request_id: string;
  /** Those of the callable's `required_scopes` that the caller has. */
  readonly scopes: readonly string[];
  /** Of a call with an effect: the same when the host makes it again to find out its outcome; null otherwise. */
  readonly idempotency_key: string | null;
}

/** What a handler is given beside its parameters. */
export interface Call extends Context {
  /** Fires when the caller has given up. Hand it to `fetch`, timers and the like. */
  readonly signal: AbortSignal;
  /** Report progress to the caller. The host gives a call that moves on more time. */
  progress(done: number, total?: number, message?: string): void;
  /** Send the caller an event before the result. */
  event(event: JsonObject): void;
  /**
   * Let what came meanwhile be read, pings too. A handler that computes for long awaits this now and then.
   *
   * @throws Cancelled: the caller has given up. Left uncaught, it answers the call.
   */
  checkpoint(): Promise<void>;
}

/** The context and the call's token, taken out of the parameters; what stays is the handler's own. */
export function takeContext(params: JsonObject): { own: JsonObject; context: Context; token: string | undefined } {
  const { _context: given, _call: token, ...own } = params;
  const fields = isObject(given) ? given : {};
  const context = {
    operator_id: text(fields["operator_id"]),
    project_id: text(fields["project_id"]),
    agent_path: text(fields["agent_path"]),
    session_id: text(fields["session_id"]),
    request_id: text(fields["request_id"]) ?? "",
    scopes: texts(fields["scopes"]),
    idempotency_key: text(fields["idempotency_key"]),
  };
  return { own, context, token: typeof token === "string" ? token : undefined };
}

function text(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

function texts(value: Json | undefined): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

/** A call that a handler is working on. */
export class Underway implements Call {
  readonly operator_id: string | null;
  readonly project_id: string | null;
  readonly agent_path: string | null;
  readonly session_id: string | null;
  readonly request_id: string;
  readonly scopes: readonly string[];
  readonly idempotency_key: string | null;
  readonly id: Id | undefined; // undefined: a notification, without a caller that waits for a result or events
  readonly signal: AbortSignal;
  readonly #stopping = new AbortController();
  readonly #token: string | undefined;
  readonly #tell: (event: object) => void;
  #over = false;

  constructor(id: Id | undefined, context: Context, token: string | undefined, tell: (event: object) => void) {
    this.operator_id = context.operator_id;
    this.project_id = context.project_id;
    this.agent_path = context.agent_path;
    this.session_id = context.session_id;
    this.request_id = context.request_id;
    this.scopes = context.scopes;
    this.idempotency_key = context.idempotency_key;
    this.id = id;
    this.signal = this.#stopping.signal;
    this.#token = token;
    this.#tell = tell;
  }

  /** What names the call to the host; work that outlives its call goes on in the plugin's own name. */
  get token(): string | undefined {
    return this.#over ? undefined : this.#token;
  }

  progress(done: number, total?: number, message?: string): void {
    this.event({
      type: "progress",
      progress: done,
      ...(total === undefined ? {} : { total }),
      ...(message === undefined ? {} : { message }),
    });
  }

  event(event: JsonObject): void {
    if (this.#over) {
      throw new Error("the call has ended: it sends no more events");
    }
    if (this.id !== undefined) {
      this.#tell({ id: this.id, event });
    }
  }

  async checkpoint(): Promise<void> {
    await turnOfTheLoop();
    this.signal.throwIfAborted();
  }

  /** Ask the handler to stop. */
  stop(reason: Error): void {
    this.#stopping.abort(reason);
  }

  finish(): void {
    this.#over = true;
  }
}
