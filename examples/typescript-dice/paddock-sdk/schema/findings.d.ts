/** What is wrong with a value, and where: the words that checks use. Pure. */
/** One mistake, as it stands in `errors` of an answer. */
export interface Problem {
    readonly path: string;
    readonly message: string;
}
export type Part = string | number;
export type Find = (path: readonly Part[], message: string) => void;
/** A check's word that the value is of another type, so that further checks would say nothing of use. */
export declare const SKIPPED: unique symbol;
export type Check = (value: unknown, path: readonly Part[], find: Find) => unknown;
export declare const MOST_PROBLEMS = 50;
/** Every mistake in a value, at most `MOST_PROBLEMS` of them; empty if it fits. */
export declare function problemsOf(check: Check, value: unknown): Problem[];
/** `["items", 2, "name", "a b"]` as `items[2].name["a b"]`. */
export declare function joinPath(parts: readonly Part[]): string;
/** The JSON type of a value. */
export declare function kindOf(value: unknown): string;
/** A value in a few words: a scalar as it is, anything bigger only by its kind and size. */
export declare function shown(value: unknown): string;
/** A text that is equal for two values exactly if JSON holds them to be the same. */
export declare function canonical(value: unknown): string;
