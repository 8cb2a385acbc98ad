import * as z from "zod";
import { isLoopback } from "../../deploy/runtime/net/loopback.ts";

const path = (text: string) => z.string().min(1).describe(text);

export const keysSchema = z
  .strictObject({
    file: path("Path of the key file, which `npm run keys` writes.").optional(),
    redis: z
      .strictObject({
        pepperFile: path(
          "Path of the pepper of key digests: 32 random bytes, readable by their owner and group only, the same for all gateways. `npm run keys` creates it with the first key.",
        ),
      })
      .optional()
      .describe("The keys are in the store of `state.redis`, for the gateways of all hosts."),
  })
  .refine(({ file, redis }) => (file === undefined) !== (redis === undefined), "expected one of file and redis")
  .describe("The API keys, as `{ file: keys.json }`: `npm run keys -- create` makes the file.");

/** Returns whether an answer from this address cannot be changed on its way. */
function isSecure(address: string): boolean {
  if (!URL.canParse(address)) return true;
  const { protocol, hostname } = new URL(address);
  return protocol === "https:" || isLoopback(hostname);
}

export const tokensSchema = z
  .strictObject({
    issuer: z.string().min(1).describe("Required issuer, the claim `iss`."),
    audience: z
      .array(z.string().min(1))
      .min(1)
      .describe("Names of this service; the claim `aud` must contain one of them."),
    jwksUrl: z
      .url({ protocol: /^https?$/ })
      .refine(isSecure, "expected https: beyond this machine")
      .optional()
      .describe(
        "Address of the issuer's public keys (a JWKS); it is read at the start, every 5 minutes and, at most once in 30 s, for an unknown key.",
      ),
    jwksFile: path(
      "Path of a file with the issuer's public keys, instead of jwksUrl; it is reloaded after changes.",
    ).optional(),
    requiredType: z
      .string()
      .regex(/^[A-Za-z0-9][A-Za-z0-9!#$&^_.+/-]{0,126}$/, "expected a media type such as at+jwt")
      .optional()
      .describe(
        "Required type (`typ`) of a token, such as `at+jwt` for access tokens (RFC 9068); without it, an ID token of the issuer for this audience is accepted too.",
      ),
    keyClaim: z
      .string()
      .min(1)
      .max(64)
      .default("svc_key")
      .describe("Claim with the id of the key record whose rights and limits apply to the token."),
    subjectIsTenant: z
      .boolean()
      .default(false)
      .describe(
        "Whether each subject (the claim `sub`) is a tenant of its own, with its own turns and its own cached prefixes.",
      ),
  })
  .refine(
    ({ jwksUrl, jwksFile }) => (jwksUrl === undefined) !== (jwksFile === undefined),
    "expected one of jwksUrl and jwksFile",
  )
  .describe(
    "Short-lived tokens (JWT) of users and builds, accepted besides keys, with an asymmetric signature, of at most 8,192 bytes and 24 hours of remaining validity; without this section none are.",
  );

export type TokensSettings = z.infer<typeof tokensSchema>;
