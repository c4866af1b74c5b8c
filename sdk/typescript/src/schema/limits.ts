/** Keywords that compare a value with a limit or a shape, one check each. Pure. */

import { isObject } from "../json.js";
import { canonical, shown, type Check } from "./findings.js";

type Make = (operand: unknown, at: string) => Check;

export const LIMITS = {
  minimum: ofNumber((value, limit) => (value < limit ? `${value} is less than ${limit}` : "")),
  maximum: ofNumber((value, limit) => (value > limit ? `${value} is greater than ${limit}` : "")),
  exclusiveMinimum: ofNumber((value, limit) => (value <= limit ? `${value} is not greater than ${limit}` : "")),
  exclusiveMaximum: ofNumber((value, limit) => (value >= limit ? `${value} is not less than ${limit}` : "")),
  multipleOf: ofNumber((value, step) => (isMultiple(value, step) ? "" : `${value} is not a multiple of ${step}`)),
  minLength: ofSize(characters, (size, limit) => (size < limit ? `too short: ${size} characters of ${limit}` : "")),
  maxLength: ofSize(characters, (size, limit) => (size > limit ? `too long: ${size} characters of ${limit}` : "")),
  minItems: ofSize(items, (size, limit) => (size < limit ? `too few items: ${size} of ${limit}` : "")),
  maxItems: ofSize(items, (size, limit) => (size > limit ? `too many items: ${size} of ${limit}` : "")),
  minProperties: ofSize(fields, (size, limit) => (size < limit ? `too few fields: ${size} of ${limit}` : "")),
  maxProperties: ofSize(fields, (size, limit) => (size > limit ? `too many fields: ${size} of ${limit}` : "")),
  pattern: (operand: unknown, at: string): Check => {
    if (typeof operand !== "string") {
      throw new TypeError(`${at} must be text`);
    }
    const pattern = new RegExp(operand, "u");
    return (value, path, find) =>
      typeof value !== "string" || pattern.test(value)
        ? undefined
        : find(path, `${shown(value)} does not match the pattern ${operand}`);
  },
  uniqueItems: (operand: unknown, at: string): Check => {
    if (typeof operand !== "boolean") {
      throw new TypeError(`${at} must be true or false`);
    }
    return (value, path, find) =>
      operand && Array.isArray(value) && new Set(value.map(canonical)).size < value.length
        ? find(path, "the same item stands here twice")
        : undefined;
  },
};

function ofNumber(complaint: (value: number, limit: number) => string): Make {
  return (operand, at) => {
    const limit = number(operand, at);
    return (value, path, find) => {
      const said = typeof value === "number" ? complaint(value, limit) : "";
      return said ? find(path, said) : undefined;
    };
  };
}

function ofSize(
  measure: (value: unknown) => number | undefined,
  complaint: (size: number, limit: number) => string,
): Make {
  return (operand, at) => {
    const limit = number(operand, at);
    return (value, path, find) => {
      const size = measure(value);
      const said = size === undefined ? "" : complaint(size, limit);
      return said ? find(path, said) : undefined;
    };
  };
}

function number(operand: unknown, at: string): number {
  if (typeof operand !== "number" || !Number.isFinite(operand)) {
    throw new TypeError(`${at} must be a number`);
  }
  return operand;
}

function isMultiple(value: number, step: number): boolean {
  const times = value / step;
  return Math.abs(times - Math.round(times)) < 1e-9; // 0.3 is a multiple of 0.1, whatever a computer thinks
}

/** Characters as people and JSON Schema count them, and not as UTF-16 does. */
function characters(value: unknown): number | undefined {
  return typeof value === "string" ? [...value].length : undefined;
}

function items(value: unknown): number | undefined {
  return Array.isArray(value) ? value.length : undefined;
}

function fields(value: unknown): number | undefined {
  return isObject(value) ? Object.keys(value).length : undefined;
}
