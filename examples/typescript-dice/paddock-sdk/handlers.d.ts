/** An author's handlers: which method each serves, what it is checked with, and how one is run. */
import type { Call } from "./call.js";
import { PluginFault } from "./faults.js";
import type { JsonObject } from "./json.js";
import { type Problem } from "./schema/findings.js";
import type { FromSchema, Schema } from "./schema/schema.js";
/** What a handler gives: the result, a promise of it, or a generator that yields on its way to it. */
export type Given<R> = R | Promise<R> | Generator<unknown, R, unknown> | AsyncGenerator<unknown, R, unknown>;
export type Handler<P = JsonObject, R = unknown> = (params: P, call: Call) => Given<R>;
/** What goes in and what comes out. A side without a schema is not checked. */
export interface Schemas<I extends Schema = Schema, O extends Schema = Schema> {
    readonly input?: I;
    readonly output?: O;
}
/** A handler whose types are those of its schemas. */
export type Typed<S> = Handler<S extends {
    readonly input: infer I;
} ? FromSchema<I> : JsonObject, S extends {
    readonly output: infer O;
} ? FromSchema<O> : unknown>;
/** A handler with its checks compiled. */
export declare class Served {
    #private;
    /** @throws TypeError: a schema cannot be used. */
    constructor(schemas: Schemas, handler: Handler<never>);
    /** The result of one call, checked on both sides. What a generator yields goes out as it comes. */
    run(params: JsonObject, call: Call): Promise<unknown>;
}
/** The handler's own mistake. The caller is told so much; what exactly is wrong goes to the author's log. */
export declare class OutputBroken extends PluginFault {
    readonly problems: readonly Problem[];
    constructor(problems: readonly Problem[]);
}
