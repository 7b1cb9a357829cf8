// The TypeScript SDK of the first line: node sdk1.mjs http|sse|stdio <url or command> …

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { ROOTS, SAMPLED, filled, walk } from "./features.mjs";

const [kind, ...target] = process.argv.slice(2);
const heard = { logs: [], updated: [], changed: [] };
const capabilities = { elicitation: {}, sampling: {}, roots: {} };
const client = new Client({ name: "interop", version: "1" }, { capabilities });
client.setRequestHandler(ElicitRequestSchema, async ({ params }) => filled(params));
client.setRequestHandler(CreateMessageRequestSchema, async () => SAMPLED);
client.setRequestHandler(ListRootsRequestSchema, async () => ROOTS);
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void heard.logs.push(params.data));
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void heard.updated.push(params.uri));
client.setNotificationHandler(ToolListChangedNotificationSchema, () => void heard.changed.push("tools"));

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(target[0])),
  sse: () => new SSEClientTransport(new URL(target[0])),
  stdio: () => new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env }),
};
await client.connect(transports[kind]());

const lists = {
  "tools/list": (params) => client.listTools(params),
  "prompts/list": (params) => client.listPrompts(params),
  "resources/list": (params) => client.listResources(params),
  "resources/templates/list": (params) => client.listResourceTemplates(params),
};
const does = {
  list: (method, params) => lists[method](params),
  call: (params, options) => client.callTool(params, undefined, options),
  read: (params) => client.readResource(params),
  prompt: (params) => client.getPrompt(params),
  complete: (params) => client.complete(params),
  setLevel: (level) => client.setLoggingLevel(level),
  subscribe: (uri) => client.subscribeResource({ uri }),
};
const report = await walk(does, heard);
report.version = client.transport.protocolVersion ?? null;
console.log(JSON.stringify(report));
await client.transport.terminateSession?.();
await client.close();
process.exit(0);
