/**
 * Tables for tests, which a test fills with answers: what each statement finds or changes.
 *
 *     const tables = new FakeTables({ "SELECT name FROM cats WHERE age > ?": [{ name: "Mia" }] });
 *     const host = await hostFor(plugin, { tables });
 *
 * No SQL is run, since node has no database of its own that all its versions share. A statement with a slip in it passes
 * if the test has the same slip, and what one statement writes no other one reads. That the statements are right is seen
 * in real tables, with `paddock plugin test`. Transactions are as there, but for one thing: what the host would let wait
 * for the end of another one is refused at once.
 */

import { InvalidParams, METHOD_NOT_FOUND, PluginFault, RESOURCE_BUSY, STORAGE_ACCESS_DENIED } from "./faults.js";
import type { Json, JsonObject } from "./json.js";
import type { Row } from "./storage.js";

/** The rows that a query finds, or how many a statement changes. */
export type StatementResult = readonly Row[] | number;

/** The same, or a function of the parameters, which may throw a PluginFault as the host would answer with one. */
export type StatementAnswer = StatementResult | ((params: readonly Json[]) => StatementResult);

/** A statement that the plugin made. */
export interface Statement {
  readonly sql: string;
  readonly params: readonly Json[];
  readonly transaction: string | null;
}

export interface TablesOptions {
  /** Whether `storage:write` was granted, and not only `storage:read`. */
  readonly writable?: boolean;
  /** The names that `schema` gives. */
  readonly names?: readonly string[];
}

export class FakeTables {
  /** Every statement that was answered. */
  readonly made: Statement[] = [];
  /** What was written to stay: by itself, or in a transaction that was committed. */
  readonly kept: Statement[] = [];
  readonly #answers: ReadonlyMap<string, StatementAnswer>;
  readonly #options: TablesOptions;
  #open: { readonly name: string; readonly written: Statement[] } | undefined;
  #begun = 0;

  /** @param answers By statement; how it is broken into lines does not matter. */
  constructor(answers: Readonly<Record<string, StatementAnswer>> = {}, options: TablesOptions = {}) {
    this.#answers = new Map(Object.entries(answers).map(([sql, answer]) => [onOneLine(sql), answer]));
    this.#options = options;
  }

  /** What the host would answer to `storage.<operation>`. */
  answer(operation: string, params: JsonObject): JsonObject {
    if (operation !== "query" && operation !== "schema") {
      this.#requireWrite();
    }
    switch (operation) {
      case "query":
        return this.#query(params);
      case "exec":
        return this.#exec(params);
      case "schema":
        this.#takeTurn(params["transaction"]);
        return { tables: this.#options.names ?? [] };
      case "begin":
        this.#takeTurn(undefined);
        this.#open = { name: `tx_${++this.#begun}`, written: [] };
        return { transaction: this.#open.name };
      case "commit":
      case "rollback":
        return this.#end(operation, params["transaction"]);
      default:
        throw new PluginFault(`there is no method storage.${operation}`, undefined, METHOD_NOT_FOUND);
    }
  }

  #query(params: JsonObject): JsonObject {
    const { result, statement } = this.#run(params);
    if (typeof result === "number") {
      throw new TypeError(`the test answers a query with a number, and not with rows: ${statement.sql}`);
    }
    return found(result);
  }

  #exec(params: JsonObject): JsonObject {
    const { result, statement } = this.#run(params);
    (this.#open?.written ?? this.kept).push(statement);
    return typeof result === "number" ? { rows_affected: result } : { rows_affected: result.length, ...found(result) };
  }

  #end(operation: "commit" | "rollback", transaction: Json | undefined): JsonObject {
    this.#takeTurn(transaction ?? "");
    if (operation === "commit") {
      this.kept.push(...(this.#open?.written ?? []));
    }
    this.#open = undefined;
    return {};
  }

  #run({ sql, params, transaction }: JsonObject): { result: StatementResult; statement: Statement } {
    if (typeof sql !== "string" || !Array.isArray(params)) {
      throw new InvalidParams("sql must be text, and params a list");
    }
    const statement: Statement = { sql, params, transaction: this.#takeTurn(transaction) };
    const answer = this.#answers.get(onOneLine(sql));
    if (answer === undefined) {
      throw new PluginFault(`the test has no answer for this statement: ${onOneLine(sql)}`, { code: "storage.sql" });
    }
    const result = typeof answer === "function" ? answer(statement.params) : answer;
    this.made.push(statement);
    return { result, statement };
  }

  #requireWrite(): void {
    if (this.#options.writable === false) {
      const why = "the statement is not allowed: storage:write was not granted";
      throw new PluginFault(why, { code: "storage_access_denied" }, STORAGE_ACCESS_DENIED);
    }
  }

  /** The transaction that is meant; there is one at a time, and nothing besides it. */
  #takeTurn(asked: Json | undefined): string | null {
    const open = this.#open?.name ?? null;
    if (asked === undefined && open !== null) {
      const why = "a transaction is under way in this plugin's storage: pass it along, or end it first";
      throw new PluginFault(why, { code: "storage.busy" }, RESOURCE_BUSY);
    }
    if (asked !== undefined && asked !== open) {
      throw new PluginFault(`there is no transaction ${String(asked)}`, { code: "storage.no_transaction" });
    }
    return open;
  }
}

function found(rows: readonly Row[]): JsonObject {
  return { rows, columns: Object.keys(rows[0] ?? {}) };
}

function onOneLine(sql: string): string {
  return sql.trim().replace(/\s+/g, " ");
}
