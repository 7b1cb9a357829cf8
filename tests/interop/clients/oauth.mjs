// The TypeScript client logs in by its own means: prints the address to open, reads the way back from standard
// input, calls a tool, refreshes, calls again, and prints a report. node oauth.mjs <url>

import { createInterface } from "node:readline/promises";
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

const [url] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const kept = {};
const provider = {
  redirectUrl: "http://127.0.0.1:33418/callback",
  clientMetadata: {
    client_name: "TypeScript client",
    redirect_uris: ["http://127.0.0.1:33418/callback"],
    grant_types: ["authorization_code", "refresh_token"],
    response_types: ["code"],
    token_endpoint_auth_method: "none",
  },
  state: () => "as sent",
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (address) => void console.log(address.href),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
};

async function called(transport) {
  const client = new Client({ name: "interop", version: "1" });
  await client.connect(transport);
  const result = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
  await client.close();
  return result.structuredContent;
}

const open = () => new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
const first = open();
try {
  await called(first);
} catch (error) {
  if (!(error instanceof UnauthorizedError) && !(error.cause instanceof UnauthorizedError)) throw error;
}
await first.finishAuth(new URLSearchParams((await lines.next()).value));
const report = { first: await called(open()) };
const before = kept.tokens.access_token;
// As after the hour: the token is refused, and the client renews it without a browser.
kept.tokens = { ...kept.tokens, access_token: "mcpat_over" };
report.second = await called(open());
report.renewed = kept.tokens.access_token !== before && kept.tokens.access_token !== "mcpat_over";
console.log(JSON.stringify(report));
process.exit(0);
