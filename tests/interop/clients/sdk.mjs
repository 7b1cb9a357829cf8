// The TypeScript SDK of the first line: node sdk.mjs <url> <plan as JSON>

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { walk } from "./walk.mjs";

const [url, plan] = process.argv.slice(2);
const client = new Client({ name: "interop", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { name: "Ada" } }));
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
const does = {
  listTools: () => client.listTools(),
  callTool: (params, onprogress) => client.callTool(params, undefined, { onprogress }),
  listPrompts: () => client.listPrompts(),
  getPrompt: (params) => client.getPrompt(params),
  listResources: () => client.listResources(),
  listResourceTemplates: () => client.listResourceTemplates(),
  readResource: (params) => client.readResource(params),
  complete: (params) => client.complete(params),
};
console.log(JSON.stringify(await walk(does, JSON.parse(plan))));
await transport.terminateSession();
await client.close();
