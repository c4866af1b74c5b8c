/** The plugin's own tables, which the host keeps: SQL goes out as a request, rows come back. */

import type { Json, JsonObject } from "./json.js";

export type Ask = (method: string, params: JsonObject) => Promise<Json>;
export type Row = Readonly<Record<string, Json>>;

/** What a query found. */
export interface Rows<R = Row> {
  readonly rows: readonly R[];
  readonly columns: readonly string[];
}

/**
 * Statements, one a call.
 *
 * All reject with HostRefused if a statement is wrong, and with CapabilityDenied if the plugin was not granted it.
 */
export interface Statements {
  /** Read with a SELECT. */
  query<R = Row>(sql: string, params?: readonly Json[]): Promise<Rows<R>>;
  /** Write or define tables; gives the number of rows affected. */
  exec(sql: string, params?: readonly Json[]): Promise<number>;
}

/** Statements that take effect together, or not at all. */
export interface Together extends Statements {
  /** What the call is going to answer, kept with the transaction; for a call whose recovery is `atomic`. */
  answers(result: Json): void;
}

/** A transaction that its holder ends. The host ends one that takes too long. */
export interface Transaction extends Together {
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

class Speaker implements Statements {
  constructor(
    protected readonly ask: Ask,
    protected readonly prefix: string,
    private readonly within: JsonObject,
  ) {}

  async query<R = Row>(sql: string, params: readonly Json[] = []): Promise<Rows<R>> {
    return (await this.ask(`${this.prefix}.query`, { sql, params, ...this.within })) as unknown as Rows<R>;
  }

  async exec(sql: string, params: readonly Json[] = []): Promise<number> {
    const answer = (await this.ask(`${this.prefix}.exec`, { sql, params, ...this.within })) as JsonObject;
    return answer["rows_affected"] as number;
  }
}

class OpenTransaction extends Speaker implements Transaction {
  #result: JsonObject = {}; // goes with the commit

  constructor(
    ask: Ask,
    prefix: string,
    private readonly named: JsonObject,
  ) {
    super(ask, prefix, named);
  }

  answers(result: Json): void {
    this.#result = { result };
  }

  async commit(): Promise<void> {
    await this.ask(`${this.prefix}.commit`, { ...this.named, ...this.#result });
  }

  async rollback(): Promise<void> {
    await this.ask(`${this.prefix}.rollback`, this.named);
  }
}

/** Each statement is a transaction of its own, unless one was begun. */
export class Storage extends Speaker {
  constructor(ask: Ask, namespace: string) {
    super(ask, `${namespace}.storage`, {});
  }

  /** The names of the plugin's tables. */
  async schema(): Promise<readonly string[]> {
    const answer = (await this.ask(`${this.prefix}.schema`, {})) as JsonObject;
    return answer["tables"] as readonly string[];
  }

  /** A transaction that the caller commits or rolls back. `transaction` does it by itself. */
  async begin(): Promise<Transaction> {
    const { transaction } = (await this.ask(`${this.prefix}.begin`, {})) as JsonObject;
    return new OpenTransaction(this.ask, this.prefix, { transaction: transaction ?? null });
  }

  /** Run statements together: kept when `work` is done, undone when it throws. */
  async transaction<T>(work: (statements: Together) => Promise<T>): Promise<T> {
    const begun = await this.begin();
    let result: T;
    try {
      result = await work(begun);
    } catch (error) {
      // The first error is the one to hear of; a transaction that the host has already ended cannot be undone twice.
      await begun.rollback().catch(() => undefined);
      throw error;
    }
    await begun.commit();
    return result;
  }
}
