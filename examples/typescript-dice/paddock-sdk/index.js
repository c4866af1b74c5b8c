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
export { disclose } from "./disclosure.js";
export { CapabilityDenied, Cancelled, ConfigInvalid, HostGone, HostRefused, InvalidParams, NoEffect, NotApplicable, PluginFault, ResourceBusy, ScopeMissing, } from "./faults.js";
export { createPlugin, Plugin } from "./plugin.js";
export { requiresScopes } from "./scopes.js";
