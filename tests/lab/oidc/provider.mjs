// An OpenID provider with one client. Any user may log in; its groups are what follows the plus
// sign in its name: `ann+ops` is in the group `ops`.
//
// Usage: provider.mjs PORT CLIENT_SECRET REDIRECT_URI

import Provider from "oidc-provider";

const [port, secret, redirect] = process.argv.slice(2);
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{client_id: "hawser", client_secret: secret, redirect_uris: [redirect]}],
  claims: {openid: ["sub"], profile: ["preferred_username", "groups"]},
  conformIdTokenClaims: false,
  pkce: {required: () => true},
  cookies: {keys: ["only for tests"]},
  async findAccount(_context, id) {
    const [name, group] = id.split("+");
    const claims = {sub: id, preferred_username: name, groups: group ? [group] : []};
    return {accountId: id, claims: async () => claims};
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
