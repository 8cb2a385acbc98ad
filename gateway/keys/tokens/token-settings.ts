import * as z from "zod";
import { isLoopback } from "../../../deploy/runtime/net/loopback.ts";

/** Accepted signatures: those whose keys can be published. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"] as const;

const claim = z.string().min(1).max(64);

/**
 * Returns whether an answer from this address cannot be changed on its way. Texts that are no address are validated
 * elsewhere.
 */
function isSecure(address: string): boolean {
  if (!URL.canParse(address)) return true;
  const { protocol, hostname } = new URL(address);
  return protocol === "https:" || isLoopback(hostname);
}

/** Schema of the tokens that are accepted instead of keys. */
export const tokensSchema = z
  .strictObject({
    issuer: z.string().min(1).describe("The issuer, which the claim `iss` has to be."),
    audience: z
      .array(z.string().min(1))
      .min(1)
      .describe("The names of this service, of which the claim `aud` has to have one."),
    jwksUrl: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        "The address of the issuer's public keys (a JWKS); it is read at the start, every 5 minutes and, at most once in 30 s, for a key that is not known.",
      ),
    allowInsecureJwks: z
      .boolean()
      .default(false)
      .describe(
        "Whether jwksUrl may be `http:` on another machine: an attacker on the path can replace the keys, and so make tokens.",
      ),
    jwksFile: z
      .string()
      .min(1)
      .optional()
      .describe("The path of a file with the issuer's public keys, which is followed, in the place of jwksUrl."),
    algorithms: z
      .array(z.enum(ALGORITHMS))
      .min(1)
      .default(["RS256", "ES256", "EdDSA"])
      .describe("The signatures that are taken. All of them are of public keys."),
    requiredType: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.+/-]{0,126}$/, "expected a media type such as at+jwt")
      .optional()
      .describe(
        "The type (`typ`) that a token's header has to have, such as `at+jwt` for access tokens (RFC 9068), in any case and with or without the prefix of `application/at+jwt`; without it, an ID token of the issuer for this audience is taken too.",
      ),
    keyClaim: claim
      .default("svc_key")
      .describe(
        "The claim that has the id of the key record whose rights the token has, and on whose limits its use counts.",
      ),
    subjectIsTenant: z
      .boolean()
      .default(false)
      .describe(
        "Whether each subject (the claim `sub`) is a tenant of its own: served in turn with the others, and with cached prefixes of its own.",
      ),
    leewaySeconds: z.int().min(0).max(300).default(30).describe("The time, in seconds, by which clocks may differ."),
    maxLifetimeSeconds: z
      .int()
      .min(60)
      .default(86_400)
      .describe(
        "The longest time, in seconds, for which a token may still be valid when it is shown: one that lasts should be a key.",
      ),
    maxBytes: z
      .int()
      .min(256)
      .max(8_192)
      .default(4_096)
      .describe("The length, in bytes, above which a token is not looked at."),
  })
  .refine(
    ({ jwksUrl, jwksFile }) => (jwksUrl === undefined) !== (jwksFile === undefined),
    "expected one of jwksUrl and jwksFile",
  )
  .refine(({ jwksUrl, allowInsecureJwks }) => allowInsecureJwks || jwksUrl === undefined || isSecure(jwksUrl), {
    path: ["jwksUrl"],
    message: "expected https: beyond this machine, or allowInsecureJwks",
  })
  .describe(
    "Short-lived tokens (JWT) of people and builds, which are taken beside keys; without this section none is.",
  );

export type TokensSettings = z.infer<typeof tokensSchema>;
