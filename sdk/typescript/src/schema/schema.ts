/** The part of JSON Schema that handlers are checked with, and the TypeScript type that a schema stands for. */

import type { Json, JsonObject } from "../json.js";

export type TypeName = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object";

export type Schema = boolean | SchemaObject;

/** Any other keyword is refused when the handler is registered: a check that is not made must not look like one. */
export interface SchemaObject {
  readonly type?: TypeName | readonly TypeName[];
  readonly enum?: readonly Json[];
  readonly const?: Json;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema;
  readonly minProperties?: number;
  readonly maxProperties?: number;
  readonly items?: Schema;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly uniqueItems?: boolean;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly exclusiveMaximum?: number;
  readonly multipleOf?: number;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly allOf?: readonly Schema[];
  readonly not?: Schema;
  readonly $ref?: string; // into $defs of the same schema: "#/$defs/name"
  readonly $defs?: Readonly<Record<string, Schema>>;
  // Not checked, here or by name: they explain.
  readonly $schema?: string;
  readonly $comment?: string;
  readonly title?: string;
  readonly description?: string;
  readonly default?: Json;
  readonly examples?: readonly Json[];
  readonly format?: string;
  readonly deprecated?: boolean;
}

/** The type of the values that fit a schema. Where it is not known, e.g. behind a `$ref`, any JSON. */
export type FromSchema<S> = S extends { readonly const: infer C }
  ? C
  : S extends { readonly enum: readonly (infer E)[] }
    ? E
    : S extends { readonly anyOf: readonly (infer Branch)[] }
      ? FromSchema<Branch>
      : S extends { readonly oneOf: readonly (infer Branch)[] }
        ? FromSchema<Branch>
        : S extends { readonly type: readonly (infer T)[] }
          ? OfType<T, S>
          : S extends { readonly type: infer T }
            ? OfType<T, S>
            : Json;

type OfType<T, S> = T extends "string"
  ? string
  : T extends "number" | "integer"
    ? number
    : T extends "boolean"
      ? boolean
      : T extends "null"
        ? null
        : T extends "array"
          ? S extends { readonly items: infer I }
            ? readonly FromSchema<I>[]
            : readonly Json[]
          : T extends "object"
            ? OfObject<S>
            : Json;

type OfObject<S> = S extends { readonly properties: infer P }
  ? Flat<
      { readonly [K in keyof P & Required<S>]: FromSchema<P[K]> } & {
        readonly [K in Exclude<keyof P, Required<S>>]?: FromSchema<P[K]>;
      }
    >
  : JsonObject;

type Required<S> = S extends { readonly required: readonly (infer R)[] } ? R : never;
type Flat<T> = { [K in keyof T]: T[K] };
