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
import type { Json, JsonObject } from "./json.js";
import type { Row } from "./storage.js";
/** The rows that a query finds, or how many a statement changes. */
export type Told = readonly Row[] | number;
/** The same, or a function of the parameters, which may throw a PluginFault as the host would answer with one. */
export type StatementAnswer = Told | ((params: readonly Json[]) => Told);
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
export declare class FakeTables {
    #private;
    /** Every statement that was answered. */
    readonly made: Statement[];
    /** What was written to stay: by itself, or in a transaction that was committed. */
    readonly kept: Statement[];
    /** @param answers By statement; how it is broken into lines does not matter. */
    constructor(answers?: Readonly<Record<string, StatementAnswer>>, options?: TablesOptions);
    /** What the host would answer to `storage.<operation>`. */
    answer(operation: string, params: JsonObject): JsonObject;
}
