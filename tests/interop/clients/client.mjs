// The TypeScript client of the second line: node client.mjs <url> <plan as JSON> [legacy|auto]

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { walk } from "./walk.mjs";

const [url, plan, mode] = process.argv.slice(2);
const options = { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: mode ?? "legacy" } };
const client = new Client({ name: "interop", version: "1" }, options);
client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { name: "Ada" } }));
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const does = {
  listTools: () => client.listTools(),
  callTool: (params, onprogress) => client.callTool(params, { onprogress }),
  listPrompts: () => client.listPrompts(),
  getPrompt: (params) => client.getPrompt(params),
  listResources: () => client.listResources(),
  listResourceTemplates: () => client.listResourceTemplates(),
  readResource: (params) => client.readResource(params),
  complete: (params) => client.complete(params),
};
console.log(JSON.stringify(await walk(does, JSON.parse(plan))));
await transport.terminateSession?.();
await client.close();
