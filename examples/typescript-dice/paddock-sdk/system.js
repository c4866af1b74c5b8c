/** What the host says to every plugin: the handshake, its settings, the projects that use it. */
import { ConfigInvalid, INVALID_REQUEST, InvalidParams, NotInitialized, PluginFault } from "./faults.js";
import { isObject } from "./json.js";
export const API_VERSION = 1;
const FEATURES = ["call_tokens", "cancel", "events"]; // what this SDK can do beyond the plain protocol
export const OK = { status: "ok" };
export class System {
    phase = "new";
    #introduce;
    #settings;
    #onConfigUpdate;
    #log;
    #methods;
    constructor(introduce, settings, onConfigUpdate, log) {
        this.#introduce = introduce;
        this.#settings = settings;
        this.#onConfigUpdate = onConfigUpdate;
        this.#log = log;
        this.#methods = new Map([
            ["initialize", (params) => this.#initialize(params)],
            ["initialized", () => this.#initialized()],
            ["ping", () => OK],
            ["config.update", (params) => this.#updateConfig(params)],
            ["projects.activated", (params) => this.#activateProject(params)],
            ["projects.deactivated", (params) => this.#deactivateProject(params)],
            ["system.rate_limited", (params) => this.#rateLimited(params)],
        ]);
    }
    owns(method) {
        return this.#methods.has(method);
    }
    /** The result of one of these methods. */
    async serve(method, params) {
        if (this.phase === "new" && method !== "initialize") {
            throw new NotInitialized();
        }
        return await this.#methods.get(method)?.(params);
    }
    #initialize(params) {
        const about = this.#introduce();
        if (this.phase !== "new") {
            throw new PluginFault("initialize was already answered", undefined, INVALID_REQUEST);
        }
        if ((params["plugin_name"] ?? about.name) !== about.name) {
            throw new InvalidParams(`this is ${about.name}, not ${String(params["plugin_name"]).slice(0, 64)}`);
        }
        this.phase = "initializing";
        // A host of another API version is answered too: it then names both versions to whoever has to choose.
        return {
            name: about.name,
            version: about.version,
            api_version: API_VERSION,
            methods: about.methods,
            notifications: about.notifications,
            tools: about.tools,
            capabilities_used: about.capabilitiesUsed,
            features: FEATURES,
        };
    }
    #initialized() {
        this.phase = "running";
    }
    async #updateConfig(params) {
        const config = params["config"];
        if (!isObject(config)) {
            throw new ConfigInvalid("config must be an object");
        }
        await this.#onConfigUpdate(config);
        this.#settings.config = config;
        return OK;
    }
    #activateProject(params) {
        const { project, config = {} } = params;
        if (typeof project !== "string" || !isObject(config)) {
            throw new InvalidParams("project must be text and config an object");
        }
        this.#settings.projects.set(project, config);
        return OK;
    }
    #deactivateProject(params) {
        this.#settings.projects.delete(String(params["project"]));
        return OK;
    }
    #rateLimited(params) {
        this.#log.warning("the host drops notifications: there are too many", { limit: params["limit_per_second"] });
        return OK;
    }
}
