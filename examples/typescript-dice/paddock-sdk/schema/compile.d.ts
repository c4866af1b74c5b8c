/** Schemas compiled once and asked often, that tell every mistake of a value at once. Pure. */
import { type Check } from "./findings.js";
import type { Schema } from "./schema.js";
/**
 * The check that a schema asks for.
 *
 * @throws TypeError: the schema uses a keyword that is not checked here, or uses one wrongly.
 */
export declare function compile(schema: Schema): Check;
