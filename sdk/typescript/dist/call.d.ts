/** One call as a handler sees it: who is calling, whether anybody still waits, and a way to tell how far it is. */
import { type JsonObject } from "./json.js";
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
    /** Of a call with an effect: the same when the host makes it again to find out what became of it; null otherwise. */
    readonly idempotency_key: string | null;
}
/** What a handler is given beside its parameters. */
export interface Call extends Context {
    /** Fires when whoever called has given up. Hand it to `fetch`, timers and the like. */
    readonly signal: AbortSignal;
    /** Tell whoever waits how far it is. The host gives a call that moves on more time. */
    progress(done: number, total?: number, message?: string): void;
    /** Tell whoever waits something before the result. */
    event(event: JsonObject): void;
    /**
     * Let what came meanwhile be read, pings too. A handler that computes for long awaits this now and then.
     *
     * @throws Cancelled: whoever called has given up. Left uncaught, it answers the call.
     */
    checkpoint(): Promise<void>;
}
/** The context and the call's token, taken out of the parameters; what stays is the handler's own. */
export declare function takeContext(params: JsonObject): {
    own: JsonObject;
    context: Context;
    token: string | undefined;
};
/** A call that a handler is working on. */
export declare class Underway implements Call {
    #private;
    readonly operator_id: string | null;
    readonly project_id: string | null;
    readonly agent_path: string | null;
    readonly session_id: string | null;
    readonly request_id: string;
    readonly scopes: readonly string[];
    readonly idempotency_key: string | null;
    readonly id: Id | undefined;
    readonly signal: AbortSignal;
    constructor(id: Id | undefined, context: Context, token: string | undefined, tell: (event: object) => void);
    /** What names the call to the host; work that outlives its call goes on in the plugin's own name. */
    get token(): string | undefined;
    progress(done: number, total?: number, message?: string): void;
    event(event: JsonObject): void;
    checkpoint(): Promise<void>;
    /** Ask the handler to stop. */
    stop(reason: Error): void;
    finish(): void;
}
