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
    issuer: z.string().min(1).describe("Required issuer, the claim `iss`."),
    audience: z
      .array(z.string().min(1))
      .min(1)
      .describe("Names of this service; the claim `aud` must contain one of them."),
    jwksUrl: z
      .url({ protocol: /^https?$/ })
      .optional()
      .describe(
        "Address of the issuer's public keys (a JWKS); it is read at the start, every 5 minutes and, at most once in 30 s, for an unknown key.",
      ),
    allowInsecureJwks: z
      .boolean()
      .default(false)
      .describe(
        "Whether jwksUrl may be `http:` on another machine: an attacker on the path can then replace the keys and forge tokens.",
      ),
    jwksFile: z
      .string()
      .min(1)
      .optional()
      .describe("Path of a file with the issuer's public keys, instead of jwksUrl; it is reloaded after changes."),
    algorithms: z
      .array(z.enum(ALGORITHMS))
      .min(1)
      .default(["RS256", "ES256", "EdDSA"])
      .describe("Accepted signature algorithms, all of them asymmetric."),
    requiredType: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.+/-]{0,126}$/, "expected a media type such as at+jwt")
      .optional()
      .describe(
        "Required type (`typ`) in a token's header, such as `at+jwt` for access tokens (RFC 9068), in any case and with or without the prefix of `application/at+jwt`; without it, an ID token of the issuer for this audience is accepted too.",
      ),
    keyClaim: claim
      .default("svc_key")
      .describe("Claim with the id of the key record whose rights and limits apply to the token."),
    subjectIsTenant: z
      .boolean()
      .default(false)
      .describe(
        "Whether each subject (the claim `sub`) is a tenant of its own, with its own turns and its own cached prefixes.",
      ),
    leewaySeconds: z.int().min(0).max(300).default(30).describe("Tolerated clock difference, in seconds."),
    maxLifetimeSeconds: z
      .int()
      .min(60)
      .default(86_400)
      .describe("Longest remaining validity of an accepted token, in seconds: long-lived credentials should be keys."),
    maxBytes: z.int().min(256).max(8_192).default(4_096).describe("Longest accepted token, in bytes."),
  })
  .refine(
    ({ jwksUrl, jwksFile }) => (jwksUrl === undefined) !== (jwksFile === undefined),
    "expected one of jwksUrl and jwksFile",
  )
  .refine(({ jwksUrl, allowInsecureJwks }) => allowInsecureJwks || jwksUrl === undefined || isSecure(jwksUrl), {
    path: ["jwksUrl"],
    message: "expected https: beyond this machine, or allowInsecureJwks",
  })
  .describe("Short-lived tokens (JWT) of users and builds, accepted besides keys; without this section none are.");

export type TokensSettings = z.infer<typeof tokensSchema>;
