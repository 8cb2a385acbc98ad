import * as z from "zod";

/** Returns whether a text is the URL of a Redis: host, and optionally user, password, port and number of a database. */
function isStoreUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, hostname, pathname, search, hash } = new URL(text);
  return /^rediss?:$/.test(protocol) && hostname !== "" && /^(\/\d{0,6})?$/.test(pathname) && search + hash === "";
}

const redis = z
  .strictObject({
    url: z
      .string()
      .refine(isStoreUrl, "expected redis://USER@HOST:PORT/DATABASE, or rediss:// for TLS")
      .describe(
        "`redis://USER@HOST:PORT/DATABASE`, or `rediss://` for TLS; user, port (6379) and database (0) may be left out. A Sentinel or Cluster needs an address that leads to the master.",
      ),
    passwordFile: z
      .string()
      .min(1)
      .optional()
      .describe(
        "Path of a file with the password, readable by its owner and group only; it is read at the start. Without it the password may be in the URL, better from a variable of the environment.",
      ),
    caFile: z
      .string()
      .min(1)
      .optional()
      .describe(
        "Path of a PEM file with the authorities of the server's certificate, for `rediss://`; it is read for each connection. Default: those of the system.",
      ),
    keyPrefix: z
      .string()
      .regex(/^[A-Za-z0-9:._-]{0,32}$/, "expected at most 32 letters, digits, colons, dots, hyphens and underscores")
      .default("svc:")
      .describe("Prefix of all entries; deployments that share a store but no keys need different ones."),
    whenAway: z
      .enum(["share", "refuse"])
      .default("share")
      .describe(
        "Requests with limits while the store is away: each gateway applies its share of every limit and reports the use afterwards, or they are refused with 503.",
      ),
  })
  .refine(({ url, passwordFile }) => passwordFile === undefined || !URL.canParse(url) || !new URL(url).password, {
    path: ["passwordFile"],
    message: "the password is given already",
  })
  .refine(({ url, caFile }) => caFile === undefined || url.startsWith("rediss:"), {
    path: ["caFile"],
    message: "expected a rediss:// URL",
  });

export const stateSchema = z
  .strictObject({
    redis: redis
      .optional()
      .describe(
        "Redis or Valkey in which the gateways of all hosts count the limits of keys together; without it, each process counts on its own.",
      ),
  })
  .prefault({})
  .describe("State shared by gateways on several hosts.");

export type RedisSettings = z.infer<typeof redis>;
