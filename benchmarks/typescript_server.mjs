// The official TypeScript SDK as a peer: the same tools, each request by itself, Host and Origin checked.
// node typescript_server.mjs <port>

import { createServer } from "node:http";
import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from "@modelcontextprotocol/node";
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

const handler = createMcpHandler(
  () => {
    const server = new McpServer({ name: "bench", version: "1" });
    server.registerTool("echo", echo, async ({ text }) => answer(text));
    for (const name of names) {
      server.registerTool(name, filler, async ({ text, count }) => answer(text.repeat(count)));
    }
    return server;
  },
  { legacy: "reject" },
);
const serve = toNodeHandler(handler);
const hostIsLocal = localhostHostValidation();
const originIsLocal = localhostOriginValidation();

const server = createServer((request, response) => {
  if (hostIsLocal(request, response) && originIsLocal(request, response)) void serve(request, response);
});
server.keepAliveTimeout = 0;
server.listen(Number(process.argv[2]), "127.0.0.1");
