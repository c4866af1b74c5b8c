// The certified OpenID provider of npm, as a host would meet it: PKCE for everybody, JWT access tokens for a resource.
import Provider from 'oidc-provider';

const { issuer, port, clients, resource } = JSON.parse(process.argv[2]);

const provider = new Provider(issuer, {
  clients,
  pkce: { required: () => true },
  claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['name'] },
  scopes: ['openid', 'offline_access', 'paddock'],
  conformIdTokenClaims: false, // so that the ID token itself says who it is
  findAccount: (_ctx, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true, name: id }),
  }),
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_ctx, indicator) => {
        if (indicator !== resource) throw new Error(`not ours: ${indicator}`);
        return { scope: 'paddock mail', audience: indicator, accessTokenFormat: 'jwt' };
      },
    },
  },
  // One way of signing in; a certified server has many more.
  cookies: { keys: ['of-a-test'] },
});

provider.listen(port, '127.0.0.1', () => console.log('listening'));
