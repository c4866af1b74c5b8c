/**
 * What the author of a plugin imports.
 *
 *     import { createPlugin } from "paddock-sdk";
 *
 *     const plugin = createPlugin({ name: "greeter", version: "1.0.0" });
 *
 *     plugin.tool("greet", { input: { type: "object", properties: { name: { type: "string" } }, required: ["name"] } },
 *       async ({ name }) => ({ text: `Hello, ${name}` }));
 *
 *     plugin.start();
 *
 * Nothing beyond node's own modules: a plugin may carry a copy of this package anywhere.
 */

export type { Artifacts, Part } from "./artifacts.js";
export type { Audit } from "./audit.js";
export type { Call, Context } from "./call.js";
export { disclose, type Disclosure, type Stability, type Status } from "./disclosure.js";
export {
  CapabilityDenied,
  Cancelled,
  ConfigInvalid,
  HostGone,
  HostRefused,
  InvalidParams,
  NoEffect,
  NotApplicable,
  PluginFault,
  ResourceBusy,
  ScopeMissing,
} from "./faults.js";
export type { Given, Handler, Schemas, Typed } from "./handlers.js";
export type { Again, HeaderValue, Http, HttpAnswer, HttpRequest } from "./http.js";
export type { Json, JsonObject } from "./json.js";
export type { Fields, Level, Log } from "./log.js";
export { createPlugin, Plugin, type PluginOptions } from "./plugin.js";
export type { Allowance, Cost, Rate } from "./rate.js";
export type { Problem } from "./schema/findings.js";
export type { FromSchema, Schema, SchemaObject } from "./schema/schema.js";
export { requiresScopes } from "./scopes.js";
export type { Secrets } from "./secrets.js";
export type { Row, Rows, Statements, Storage, Together, Transaction } from "./storage.js";
export type { Cache, KeyValue } from "./values.js";
