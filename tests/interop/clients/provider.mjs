// An identity provider that anybody logs in to by a name; its people are in the groups that stand before an "@"
// in it. Serves until its input ends. node provider.mjs <port> <callback> <client id> <client secret>

import Provider from "oidc-provider";

const [port, callback, clientId, secret] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: clientId, client_secret: secret, redirect_uris: [callback] }],
  pkce: { required: () => true },
  claims: { openid: ["sub"], profile: ["preferred_username"], email: ["email"], groups: ["groups"] },
  cookies: { keys: ["of this test alone"] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      preferred_username: id.split("@").at(-1),
      groups: id.split("@").slice(0, -1),
    }),
  }),
});
const server = provider.listen(Number(port), "127.0.0.1", () => console.log("listening"));
process.stdin.on("end", () => server.close(() => process.exit()));
process.stdin.resume();
