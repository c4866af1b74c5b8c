/** What we ask the host, and its answers. */

import { HostGone, refusedWith } from "./faults.js";
import type { Json, JsonObject } from "./json.js";
import type { Answer, Id } from "./message.js";

/** The host works on so many requests of one plugin and refuses more; the others wait here for their turn. */
export const AT_ONCE = 32;

/** Beyond these it works on some that belong to an open transaction, whose end the others may be waiting for. */
export const RESERVED = 8;

interface Asked {
  readonly method: string;
  readonly params: JsonObject;
  readonly resolve: (result: Json) => void;
  readonly reject: (error: Error) => void;
}

export class Questions {
  readonly #send: (message: object) => void;
  readonly #open = new Map<Id, Asked>();
  #waiting: Asked[] = [];
  #ofTransactions: Asked[] = [];
  #lastId = 0;
  #closed = false;

  constructor(send: (message: object) => void) {
    this.#send = send;
  }

  /**
   * The host's answer.
   *
   * @throws HostRefused: it is an error. HostGone: it will never come. TypeError, RangeError: it cannot be sent.
   */
  ask(method: string, params: JsonObject): Promise<Json> {
    if (this.#closed) {
      return Promise.reject(new HostGone());
    }
    return new Promise((resolve, reject) => {
      const queue = typeof params["transaction"] === "string" ? this.#ofTransactions : this.#waiting;
      queue.push({ method, params, resolve, reject });
      this.#next();
    });
  }

  /** Hand an answer to the handler that asked; false if none did. */
  answered(answer: Answer): boolean {
    const asked = this.#open.get(answer.id);
    if (!asked) {
      return false;
    }
    this.#open.delete(answer.id);
    if (answer.error) {
      asked.reject(refusedWith(answer.error));
    } else {
      asked.resolve(answer.result ?? null);
    }
    this.#next();
    return true;
  }

  /** No answer will come any more. */
  close(): void {
    this.#closed = true;
    const unanswered = [...this.#open.values(), ...this.#ofTransactions, ...this.#waiting];
    this.#open.clear();
    this.#ofTransactions = [];
    this.#waiting = [];
    for (const asked of unanswered) {
      asked.reject(new HostGone());
    }
  }

  #next(): void {
    for (let asked = this.#nextAsked(); asked; asked = this.#nextAsked()) {
      const id = ++this.#lastId;
      this.#open.set(id, asked);
      try {
        this.#send({ id, method: asked.method, params: asked.params });
      } catch (error) {
        this.#open.delete(id);
        asked.reject(error as Error);
      }
    }
  }

  #nextAsked(): Asked | undefined {
    const first = this.#open.size < AT_ONCE + RESERVED ? this.#ofTransactions.shift() : undefined;
    return first ?? (this.#open.size < AT_ONCE ? this.#waiting.shift() : undefined);
  }
}
