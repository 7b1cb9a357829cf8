// The official TypeScript SDK as a peer: the same tools, Host and Origin checked; requests of 2026-07-28 each by
// itself, older clients in sessions. GET /change changes a tool, and tells every client.
// node typescript_server.mjs <port>

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import {
  NodeStreamableHTTPServerTransport,
  localhostHostValidation,
  localhostOriginValidation,
  toNodeHandler,
} from "@modelcontextprotocol/node";
import { McpServer, createMcpHandler } from "@modelcontextprotocol/server";
import { z } from "zod";

const total = Number(process.env.BENCH_TOOLS ?? "10");
// Made once: what is a server's own for each request costs it enough.
const echo = { description: "Answer the same text.", inputSchema: z.object({ text: z.string() }) };
const filler = {
  description: process.env.BENCH_DESCRIPTION,
  inputSchema: z.object({ text: z.string(), count: z.number().int().default(1) }),
};
const names = Array.from({ length: total - 1 }, (_, at) => `repeat_${String(at + 1).padStart(4, "0")}`);
const answer = (text) => ({ content: [{ type: "text", text }] });

const made = () => {
  const server = new McpServer({ name: "bench", version: "1" });
  server.changing = server.registerTool("echo", echo, async ({ text }) => answer(text));
  for (const name of names) {
    server.registerTool(name, filler, async ({ text, count }) => answer(text.repeat(count)));
  }
  return server;
};

const handler = createMcpHandler(made, { legacy: "reject", maxSubscriptions: 10_000 });
const serve = toNodeHandler(handler);
const hostIsLocal = localhostHostValidation();
const originIsLocal = localhostOriginValidation();

const sessions = new Map();

const serveSession = async (request, response) => {
  const known = sessions.get(request.headers["mcp-session-id"]);
  if (known !== undefined) return known.transport.handleRequest(request, response);
  const server = made();
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: true,
    onsessioninitialized: (id) => void sessions.set(id, { server, transport }),
  });
  await server.connect(transport);
  return transport.handleRequest(request, response);
};

let changes = 0;

const change = () => {
  const title = `Echo ${++changes}`;
  echo.title = title;
  for (const { server } of sessions.values()) server.changing.update({ title });
  handler.notify.toolsChanged();
};

const server = createServer((request, response) => {
  if (!hostIsLocal(request, response) || !originIsLocal(request, response)) return;
  if (request.url === "/change") {
    change();
    response.end();
  } else if (request.headers["mcp-protocol-version"] === "2026-07-28") {
    void serve(request, response);
  } else {
    void serveSession(request, response);
  }
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), "127.0.0.1");
