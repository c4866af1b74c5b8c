// The official client of the first generation, as most programs have it: `classic.mjs URL [HEADERS]` or `classic.mjs
// COMMAND ARGS…`. Prints what it got as one JSON document.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { told } from "./told.mjs";

const [where, ...rest] = process.argv.slice(2);
const client = new Client({ name: "classic", version: "1" }, { capabilities: { elicitation: {} } });
const asked = [];
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => {
    asked.push(params.message);
    return { action: "accept", content: { name: "Ada" } };
});
const transport = where.startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(where), { requestInit: { headers: JSON.parse(rest[0] ?? "{}") } })
    : new StdioClientTransport({ command: where, args: rest, env: process.env });
await client.connect(transport);
const got = await told(client, (params, options) => client.callTool(params, undefined, options));
console.log(JSON.stringify({ ...got, asked }));
await client.close();
