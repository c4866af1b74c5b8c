/** The part of JSON Schema that handlers are checked with, and the TypeScript type that a schema stands for. */
export {};
