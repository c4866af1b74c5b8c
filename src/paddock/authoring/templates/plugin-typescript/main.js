/** Starts the plugin. What it can do stands in plugin.ts, which tests import. */
import { plugin } from "./plugin.js";
await plugin.start();
