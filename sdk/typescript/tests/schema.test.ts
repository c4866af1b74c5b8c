import assert from "node:assert/strict";
import { test } from "node:test";

import { compile } from "../build/modules/schema/compile.js";
import { MOST_PROBLEMS, problemsOf } from "../build/modules/schema/findings.js";
import type { Schema } from "../build/modules/schema/schema.js";

const problems = (schema: Schema, value: unknown): Record<string, string> =>
  Object.fromEntries(problemsOf(compile(schema), value).map(({ path, message }) => [path, message]));

const person = {
  type: "object",
  required: ["name", "age"],
  additionalProperties: false,
  properties: {
    name: { type: "string", minLength: 1, maxLength: 5, pattern: "^[a-z🎲]+$" },
    age: { type: "integer", minimum: 0, exclusiveMaximum: 150 },
    pets: { type: "array", items: { enum: ["cat", "dog", null] }, maxItems: 3, uniqueItems: true },
    at: { type: ["string", "null"], format: "date" },
  },
} as const;

test("a value that fits has no problems", () => {
  for (const value of [
    { name: "ada", age: 36 },
    { name: "🎲🎲🎲🎲🎲", age: 0, pets: ["cat", null], at: null },
    { name: "bo", age: 149, pets: [], at: "whatever" },
  ]) {
    assert.deepEqual(problems(person, value), {});
  }
});

test("every mistake is told at once, with its path", () => {
  assert.deepEqual(problems(person, { name: "ADA", pets: ["cat", "cow", "cow"], at: 7, "a b": 1 }), {
    age: "missing field 'age'",
    name: '"ADA" does not match the pattern ^[a-z🎲]+$',
    "pets[1]": '"cow" is not one of "cat", "dog", null',
    "pets[2]": '"cow" is not one of "cat", "dog", null',
    pets: "the same item stands here twice",
    at: "expected string or null, found integer",
    '["a b"]': "unknown field",
  });
});

test("of a value of another type nothing more is said", () => {
  assert.deepEqual(problems(person, "ada"), { "": "expected object, found string" });
  assert.deepEqual(problems({ minimum: 5, enum: [7], type: "number" }, "x"), { "": "expected number, found string" });
});

const cases: [string, Schema, unknown[], unknown[]][] = [
  ["type integer", { type: "integer" }, [1, -0, 1e3], [1.5, "1", true, null, NaN]],
  ["type number", { type: "number" }, [1, 1.5], ["1", Infinity]],
  ["minimum", { minimum: 2 }, [2, "1"], [1.9]],
  ["maximum", { maximum: 2 }, [2], [2.1]],
  ["exclusiveMinimum", { exclusiveMinimum: 2 }, [2.1], [2]],
  ["multipleOf", { multipleOf: 0.1 }, [0.3, 0, -1.2], [0.35]],
  ["minLength", { minLength: 2 }, ["ab", 1], ["🎲"]],
  ["minItems", { minItems: 1 }, [[1], {}], [[]]],
  ["minProperties", { minProperties: 1 }, [{ a: 1 }, []], [{}]],
  ["maxProperties", { maxProperties: 1 }, [{ a: 1 }], [{ a: 1, b: 2 }]],
  ["uniqueItems", { uniqueItems: true }, [[1, "1", [1]], []], [[{ a: 1, b: 2 }, { b: 2, a: 1 }]]],
  ["const", { const: { a: [1] } }, [{ a: [1] }], [{ a: [2] }, null]],
  ["additionalProperties", { additionalProperties: { type: "string" } }, [{ a: "x" }], [{ a: 1 }]],
  ["required of an inherited name", { required: ["toString"] }, [{ toString: 1 }], [{}]],
  ["allOf", { allOf: [{ minimum: 1 }, { maximum: 2 }] }, [1, 2], [0, 3]],
  ["anyOf", { anyOf: [{ type: "string" }, { minimum: 5 }] }, ["x", 5], [4]],
  ["oneOf", { oneOf: [{ minimum: 5 }, { multipleOf: 2 }] }, [7, 2], [6, 1]],
  ["not", { not: { type: "null" } }, [0], [null]],
  ["true and false", { properties: { yes: true, no: false } }, [{ yes: 1 }], [{ no: 1 }]],
  [
    "a definition that refers to itself",
    { $ref: "#/$defs/tree", $defs: { tree: { type: "object", additionalProperties: { $ref: "#/$defs/tree" } } } },
    [{ a: { b: {} } }],
    [{ a: { b: 1 } }],
  ],
];

for (const [name, schema, fitting, wrong] of cases) {
  test(`${name} lets the right values pass and tells the others`, () => {
    const check = compile(schema);
    for (const value of fitting) {
      assert.deepEqual(problemsOf(check, value), [], JSON.stringify(value));
    }
    for (const value of wrong) {
      assert.notDeepEqual(problemsOf(check, value), [], String(JSON.stringify(value)));
    }
  });
}

test("where one of several forms was clearly meant, its own mistakes are told", () => {
  const schema: Schema = { anyOf: [{ type: "string" }, { type: "object", required: ["id"] }] };
  assert.deepEqual(problems(schema, {}), { id: "missing field 'id'" });
  assert.deepEqual(problems(schema, 5), { "": "5 fits none of the allowed forms" });
});

test("a schema that promises a check which is not made is refused", () => {
  const unknown = (schema: unknown): (() => unknown) => () => compile(schema as Schema);
  assert.throws(unknown({ properties: { a: { contains: {} } } }), /properties\.a\.contains: this keyword/);
  assert.throws(unknown({ constructor: 1 }), /constructor/);
  assert.throws(unknown({ type: "text" }), /type must be one of/);
  assert.throws(unknown({ minimum: "1" }), /minimum must be a number/);
  assert.throws(unknown({ required: "name" }), /required must be a list/);
  assert.throws(unknown({ $ref: "#/$defs/nowhere" }), /is not in \$defs/);
  assert.throws(unknown({ $ref: "https://example.com/schema" }), /is not in \$defs/);
  assert.throws(unknown({ $defs: { unused: { typo: 1 } } }), /typo/);
  assert.throws(unknown({ pattern: "(" }), SyntaxError);
  assert.throws(unknown([]), /must be an object/);
});

test("the list of problems has an end, and so has a value that is nested too deeply", () => {
  const list = Array.from({ length: 1000 }, () => "x");
  assert.equal(problemsOf(compile({ items: { type: "null" } }), list).length, MOST_PROBLEMS);

  const deep = JSON.parse("[".repeat(200_000) + "]".repeat(200_000));
  const endless = compile({ $ref: "#/$defs/list", $defs: { list: { items: { $ref: "#/$defs/list" } } } });
  assert.deepEqual(problemsOf(endless, deep), [{ path: "", message: "nested too deeply to be checked" }]);
});
