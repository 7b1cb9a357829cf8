// The TypeScript client logs in by its own means: prints the address to open, reads the way back from standard
// input, calls a tool, refreshes in five clients at once, calls again, says that it may be disconnected, calls
// until it is, with a stream open, and prints a report. node oauth.mjs <url> <what it is known by, as JSON>

import { createInterface } from "node:readline/promises";
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";

const [url, known] = process.argv.slice(2);
const { document, ...entered } = JSON.parse(known ?? "{}");
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
let opened = 0;

function remembering(kept) {
  return {
    kept,
    redirectUrl: "http://127.0.0.1:33418/callback",
    clientMetadataUrl: document,
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
    redirectToAuthorization: (address) => {
      if (opened++ === 0) console.log(address.href);
    },
    saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
    codeVerifier: () => kept.verifier,
  };
}

async function called(provider) {
  const client = new Client({ name: "interop", version: "1" });
  await client.connect(transport(provider));
  const result = await client.callTool({ name: "add", arguments: { a: 2, b: 3 } });
  await client.close();
  return result.structuredContent;
}

const transport = (provider) => new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
const unauthorized = (error) => error instanceof UnauthorizedError || error.cause instanceof UnauthorizedError;
// The client renews before it gives up, and is told that its refresh token ended, too.
const over = (error) => unauthorized(error) || error.code === "invalid_grant";

const provider = remembering("client_id" in entered ? { client: entered } : {});
const first = transport(provider);
const client = new Client({ name: "interop", version: "1" });
await client.connect(first).catch((error) => {
  if (!unauthorized(error)) throw error;
});
await first.finishAuth(new URLSearchParams((await lines.next()).value));
const report = { first: await called(provider), client_id: provider.kept.client?.client_id ?? document };
// As after the hour, in five programs that share what they know: the token is refused, and each renews it.
const expired = { ...provider.kept.tokens, access_token: "mcpat_over" };
const five = [1, 2, 3, 4, 5].map(() => remembering({ ...provider.kept, tokens: expired }));
report.renewed = await Promise.all(five.map(called));
report.pairs = new Set(five.map(({ kept }) => JSON.stringify([kept.tokens.access_token, kept.tokens.refresh_token]))).size;
report.opened = opened;
provider.kept.tokens = five[0].kept.tokens;
// A stream that stays open while nothing is said.
const authorization = `Bearer ${provider.kept.tokens.access_token}`;
const stream = (await fetch(new URL("/sse", url), { headers: { authorization } })).body.getReader();
await stream.read();
console.log("DISCONNECT");
await lines.next();
const ended = Date.now();
const streamed = (async () => {
  while (!(await stream.read().catch(() => ({ done: true }))).done);
  return (Date.now() - ended) / 1000;
})();
while (await called(provider).then(() => true, (error) => !over(error) && Promise.reject(error))) {
  await new Promise((resolve) => setTimeout(resolve, 200));
}
report.seconds = (Date.now() - ended) / 1000;
report.streamed = await streamed;
console.log(JSON.stringify(report));
process.exit(0);
