/**
 * One conversation with a host: what it says is sorted on arrival, calls run side by side, answers go back.
 *
 * Calls start in the order in which they came, at most `concurrency` at a time. Requests of the host's own (settings,
 * projects) are served one after the other, and a call that came after one starts after it. Three things never wait: a
 * ping, the answer to a question of ours, and the word that a call is no longer wanted.
 */

import type { AsyncLocalStorage } from "node:async_hooks";

import { takeContext, Underway } from "./call.js";
import {
  Cancelled,
  HostGone,
  HostRefused,
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  InvalidParams,
  METHOD_NOT_FOUND,
  NoEffect,
  NotInitialized,
  PARSE_ERROR,
  PluginFault,
  ResourceBusy,
} from "./faults.js";
import { OutputBroken, type Served } from "./handlers.js";
import { isObject, type JsonObject } from "./json.js";
import { lineOf, LineReader, TooLong } from "./lines.js";
import type { Log } from "./log.js";
import { isId, meantAsAnswer, refusal, sound, type Id, type Request } from "./message.js";
import { Questions } from "./questions.js";
import { OK, type System } from "./system.js";

export const MOST_WAITING = 1024;

/** What the host finds wrong with a question of ours is no fault of the caller. */
const ABOUT_THE_QUESTION: readonly number[] = [PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS];

export interface Parts {
  /** Sends one line; throws HostGone if the host reads no more. */
  readonly send: (line: string) => void;
  readonly namespace: string;
  readonly concurrency: number;
  readonly handlers: ReadonlyMap<string, Served>;
  readonly system: System;
  readonly log: Log;
  /** The call that the running code belongs to. */
  readonly current: AsyncLocalStorage<Underway>;
}

export class Conversation {
  /** Resolves when the host said shutdown or is gone, and nothing is under way any more. */
  readonly over: Promise<void>;
  readonly questions: Questions;
  readonly #parts: Parts;
  readonly #reader = new LineReader();
  readonly #underway = new Set<Underway>();
  readonly #waiting: Request[] = [];
  #systemWork: Promise<void> = Promise.resolve();
  #settling = 0; // requests of the host's own that are not answered yet
  #ending = false;
  #stopping = false; // the host has waited long enough for what is under way
  #finish: () => void = () => undefined;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.questions = new Questions((message) => this.say(message));
    this.over = new Promise((resolve) => {
      this.#finish = resolve;
    });
  }

  // --- what arrives -------------------------------------------------------------------------------------------------

  receive(piece: Uint8Array): void {
    this.#reader.take(piece).forEach((value) => this.#sort(value));
    this.#next(); // only now: a call and its cancellation may have arrived together
  }

  /** The host will say nothing more. What it asked for is still answered. */
  closed(): void {
    this.#reader.rest().forEach((value) => this.#sort(value));
    this.#ending = true;
    this.questions.close();
    this.#next();
  }

  /** The host reads no more answers: there is nothing left to do. */
  lost(): void {
    this.#ending = true;
    this.#waiting.length = 0;
    this.questions.close();
    this.#underway.forEach((call) => call.stop(new HostGone()));
    this.#finish();
  }

  #sort(value: unknown): void {
    if (value instanceof PluginFault) {
      this.#fail(null, value);
      return;
    }
    const fields = isObject(value) ? value : {};
    const message = sound(fields);
    if (!message) {
      if (meantAsAnswer(fields)) {
        this.#parts.log.warning("an unsound answer was ignored");
      } else {
        this.#fail(...refusal(fields));
      }
    } else if (!("method" in message)) {
      if (!this.questions.answered(message)) {
        this.#parts.log.warning("an answer to no question was ignored");
      }
    } else {
      this.#route(message);
    }
  }

  #route(request: Request): void {
    const { system, namespace } = this.#parts;
    if (request.method === "ping" && request.id !== undefined && system.phase === "running") {
      this.#pong(request.id);
    } else if (request.method === "shutdown") {
      this.#shutdown();
    } else if (request.method === `${namespace}.cancel` && request.id === undefined) {
      this.#cancel(request.params);
    } else if (system.owns(request.method)) {
      this.#settle(request);
    } else if (this.#waiting.length < MOST_WAITING) {
      this.#waiting.push(request);
    } else if (request.id !== undefined) {
      // Refused rather than left in the pipe, where the answers that running calls wait for would be stuck behind it.
      this.#fail(request.id, new ResourceBusy("too many calls are waiting"));
    }
  }

  /** At once: the host would take a plugin that is only busy for a dead one. */
  #pong(id: Id): void {
    try {
      this.#answer(id, OK);
    } catch {
      this.lost();
    }
  }

  #cancel(params: unknown): void {
    const unwanted = isObject(params) ? params["id"] : undefined;
    if (!isId(unwanted)) {
      return;
    }
    for (const call of this.#underway) {
      if (call.id === unwanted) {
        call.stop(new Cancelled());
        return;
      }
    }
    const index = this.#waiting.findIndex((request) => request.id === unwanted);
    if (index >= 0) {
      this.#waiting.splice(index, 1);
      this.#fail(unwanted, new Cancelled());
    }
  }

  /** The host waits for calls before it says this: what is still under way is asked to stop, and then answered. */
  #shutdown(): void {
    this.#ending = this.#stopping = true;
    this.#underway.forEach((call) => call.stop(new Cancelled()));
  }

  // --- what is done about it ----------------------------------------------------------------------------------------

  #settle(request: Request): void {
    this.#settling += 1;
    this.#systemWork = this.#systemWork.then(async () => {
      await this.#serve(request, (params) => this.#parts.system.serve(request.method, takeContext(params).own));
      this.#settling -= 1;
      this.#next();
    });
  }

  #next(): void {
    while (this.#settling === 0 && this.#underway.size < this.#parts.concurrency) {
      const request = this.#waiting.shift();
      if (!request) {
        break;
      }
      void this.#serve(request, (params) => this.#call(request, params));
    }
    if (this.#ending && this.#settling === 0 && this.#underway.size === 0 && this.#waiting.length === 0) {
      this.#finish();
    }
  }

  async #call(request: Request, params: JsonObject): Promise<unknown> {
    const { handlers, system, namespace, current } = this.#parts;
    if (system.phase !== "running") {
      throw new NotInitialized();
    }
    const served = handlers.get(request.method);
    if (!served) {
      throw new PluginFault(`there is no method '${request.method.slice(0, 128)}'`, undefined, METHOD_NOT_FOUND);
    }
    const { own, context, token } = takeContext(params);
    const call = new Underway(request.id, context, token, (event) => {
      this.say({ method: `${namespace}.event`, params: event });
    });
    if (this.#stopping) {
      call.stop(new Cancelled());
    }
    this.#underway.add(call);
    try {
      return await current.run(call, () => served.run(own, call));
    } finally {
      call.finish();
      this.#underway.delete(call);
    }
  }

  /** Run one request or notification, and answer it if it is a request. Never rejects. */
  async #serve(request: Request, run: (params: JsonObject) => Promise<unknown>): Promise<void> {
    const { id, method, params = {} } = request;
    try {
      if (!isObject(params)) {
        throw new InvalidParams("params must be an object");
      }
      const result = await run(params);
      if (id !== undefined) {
        this.#answer(id, result);
      }
    } catch (error) {
      const fault = this.#faultOf(method, error);
      if (fault && id !== undefined) {
        this.#fail(id, fault);
      }
    }
    this.#next();
  }

  /** What the caller hears of an error; undefined if no caller is left to hear it. */
  #faultOf(method: string, error: unknown): PluginFault | undefined {
    if (error instanceof HostGone) {
      return undefined;
    }
    if (error instanceof OutputBroken) {
      this.#parts.log.error("a handler gave something else than it declares", { method, errors: error.problems });
    }
    if (error instanceof HostRefused && ABOUT_THE_QUESTION.includes(error.code)) {
      return new PluginFault(`the host refused: ${error.message}`, error.data);
    }
    if (error instanceof PluginFault) {
      return error;
    }
    if (error instanceof TooLong) {
      this.#parts.log.error("a result is too long", { method });
      return new PluginFault(error.message, undefined, INTERNAL_ERROR);
    }
    // The one place where a handler's mistake is contained: the details are the author's, not the caller's.
    const { name, stack } = error instanceof Error ? error : { name: typeof error, stack: String(error) };
    this.#parts.log.error("a handler failed", { method, stack });
    return new PluginFault(`the plugin failed (${name})`, undefined, INTERNAL_ERROR);
  }

  // --- what goes out ------------------------------------------------------------------------------------------------

  /**
   * Send one message.
   *
   * @throws TypeError, RangeError: it cannot be sent. HostGone: the host reads no more.
   */
  say(message: object): void {
    this.#parts.send(lineOf(message));
  }

  #answer(id: Id, result: unknown): void {
    this.say({ id, result: result ?? null });
  }

  #fail(id: Id | null, fault: PluginFault): void {
    try {
      try {
        this.say({ id, error: fault.toError() });
      } catch (error) {
        if (error instanceof HostGone) {
          throw error;
        }
        const kind = fault.noEffect ? NoEffect : PluginFault;
        this.say({ id, error: new kind(fault.message.slice(0, 1000), undefined, fault.code).toError() }); // without its data
      }
    } catch {
      this.lost();
    }
  }
}
