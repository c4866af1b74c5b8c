/** Keywords that compare a value with a limit or a shape, one check each. Pure. */
import { type Check } from "./findings.js";
type Make = (operand: unknown, at: string) => Check;
export declare const LIMITS: {
    minimum: Make;
    maximum: Make;
    exclusiveMinimum: Make;
    exclusiveMaximum: Make;
    multipleOf: Make;
    minLength: Make;
    maxLength: Make;
    minItems: Make;
    maxItems: Make;
    minProperties: Make;
    maxProperties: Make;
    pattern: (operand: unknown, at: string) => Check;
    uniqueItems: (operand: unknown, at: string) => Check;
};
export {};
