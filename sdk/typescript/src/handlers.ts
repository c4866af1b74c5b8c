/** An author's handlers: which method each serves, what it is checked with, and how one is run. */

import type { Call } from "./call.js";
import { INTERNAL_ERROR, InvalidParams, PluginFault } from "./faults.js";
import type { JsonObject } from "./json.js";
import { compile } from "./schema/compile.js";
import { problemsOf, type Check, type Problem } from "./schema/findings.js";
import type { FromSchema, Schema } from "./schema/schema.js";

/** What a handler gives: the result, a promise of it, or a generator that yields on its way to it. */
export type Given<R> = R | Promise<R> | Generator<unknown, R, unknown> | AsyncGenerator<unknown, R, unknown>;

export type Handler<P = JsonObject, R = unknown> = (params: P, call: Call) => Given<R>;

/** What goes in and what comes out. A side without a schema is not checked. `paddock plugin sync` copies all of it. */
export interface Schemas<I extends Schema = Schema, O extends Schema = Schema> {
  /** What it is for, in the words that people and models read. */
  readonly description?: string;
  readonly input?: I;
  readonly output?: O;
}

/** A handler whose types are those of its schemas. */
export type Typed<S> = Handler<
  S extends { readonly input: infer I } ? FromSchema<I> : JsonObject,
  S extends { readonly output: infer O } ? FromSchema<O> : unknown
>;

type Steps = Generator<unknown, unknown, unknown> | AsyncGenerator<unknown, unknown, unknown>;

const A_MOMENT = 5; // milliseconds; after it a stream that never waits lets others speak

/** A handler with its checks compiled. */
export class Served {
  readonly #handler: Handler<never>;
  readonly #input: Check | undefined;
  readonly #output: Check | undefined;
  /** As it was declared. */
  readonly schemas: Schemas;

  /** @throws TypeError: a schema cannot be used. */
  constructor(schemas: Schemas, handler: Handler<never>) {
    this.#handler = handler;
    this.schemas = schemas;
    this.#input = schemas.input === undefined ? undefined : compile(schemas.input);
    this.#output = schemas.output === undefined ? undefined : compile(schemas.output);
  }

  /** The result of one call, checked on both sides. What a generator yields goes out as it comes. */
  async run(params: JsonObject, call: Call): Promise<unknown> {
    const wrong = this.#input ? problemsOf(this.#input, params) : [];
    if (wrong.length > 0) {
      throw new InvalidParams(`the parameters are wrong: ${inWords(wrong)}`, { errors: wrong });
    }
    const given: unknown = this.#handler(params as never, call);
    const result = isSteps(given) ? await stream(given, call) : await given;
    if (this.#output) {
      // As the caller would see it: without what JSON leaves out, and with what it makes of dates.
      const broken = problemsOf(this.#output, JSON.parse(JSON.stringify(result ?? null)));
      if (broken.length > 0) {
        throw new OutputBroken(broken);
      }
    }
    return result;
  }
}

/** The handler's own mistake. The caller learns that it failed; what exactly is wrong goes to the author's log. */
export class OutputBroken extends PluginFault {
  readonly problems: readonly Problem[];

  constructor(problems: readonly Problem[]) {
    super("the plugin gave something else than it declares", undefined, INTERNAL_ERROR);
    this.problems = problems;
  }
}

function inWords(problems: readonly Problem[]): string {
  const said = problems.slice(0, 3).map(({ path, message }) => (path ? `${path}: ${message}` : message));
  return said.join("; ") + (problems.length > 3 ? `; and ${problems.length - 3} more` : "");
}

async function stream(steps: Steps, call: Call): Promise<unknown> {
  let lastPause = performance.now();
  try {
    let step = await steps.next();
    while (!step.done) {
      call.event({ type: "data", data: (await step.value) as never });
      if (performance.now() - lastPause > A_MOMENT) {
        await call.checkpoint().catch(() => undefined); // only to let others speak; what it says is asked below
        lastPause = performance.now();
      }
      // Thrown at its own yield, so that the handler can clean up, or bring what it has to an end.
      step = await (call.signal.aborted ? steps.throw(call.signal.reason) : steps.next());
    }
    return step.value;
  } finally {
    await steps.return(undefined);
  }
}

function isSteps(given: unknown): given is Steps {
  const it = given as Partial<Steps> | null | undefined;
  const speaks = typeof it?.next === "function" && typeof it.throw === "function" && typeof it.return === "function";
  return speaks && (Symbol.asyncIterator in it || Symbol.iterator in it);
}
