import * as z from "zod";
import { hostPortSchema } from "../../deploy/runtime/config/host-port-schema.ts";

const file = (text: string) => z.string().min(1).describe(text);

/** User and password of a server; the password may be in a file; `whose` ends the descriptions. */
const login = (whose: string) => ({
  username: z.string().min(1).optional().describe(`The ACL user ${whose}; without it, the default user.`),
  password: z
    .string()
    .min(1)
    .optional()
    .describe(`The password ${whose}; better as \`\${VAR}\` or in passwordFile than here.`),
  passwordFile: file(
    `The path of a file with the password ${whose}, which nobody but its owner and group may read; it is read at the start.`,
  ).optional(),
});

const tls = z
  .strictObject({
    caFile: file("The path of a PEM file with the authorities that sign the servers' certificates.").optional(),
    certFile: file("The path of a PEM file with the certificate that the gateway shows, and its chain.").optional(),
    keyFile: file(
      "The path of a PEM file with the private key of certFile, which nobody but its owner and group may read.",
    ).optional(),
    serverName: z
      .string()
      .min(1)
      .optional()
      .describe("The name that the servers' certificates are checked for; without it, the host of each address."),
  })
  .describe("How connections to the store are secured; without this section they are plain text.");

const redisFields = z.strictObject({
  addresses: z
    .array(hostPortSchema)
    .min(1)
    .max(32)
    .describe(
      "The addresses as host:port: of the one server, of the Sentinels where `sentinel` is set, or of some nodes where `cluster` is.",
    ),
  ...login("of the store"),
  tls: tls.optional(),
  sentinel: z
    .strictObject({
      name: z.string().min(1).describe("The name by which the Sentinels know the master."),
      ...login("of the Sentinels"),
    })
    .optional()
    .describe("The store is whichever master the Sentinels name; without this section they are not asked."),
  cluster: z.boolean().default(false).describe("Whether the store is a Redis Cluster."),
  database: z.int().min(0).max(1_000_000).default(0).describe("The number of the database; a Cluster has 0 alone."),
  keyPrefix: z
    .string()
    .regex(/^[A-Za-z0-9:._-]{0,32}$/, "expected at most 32 letters, digits, colons, dots, hyphens and underscores")
    .default("svc:")
    .describe("The start of the names of all entries; deployments that share a store and no keys differ in it."),
  connectTimeoutMs: z
    .int()
    .min(50)
    .default(2_000)
    .describe("The time, in milliseconds, after which a connection that is not there is given up and tried again."),
  commandTimeoutMs: z
    .int()
    .min(10)
    .default(500)
    .describe(
      "The time, in milliseconds, after which an answer of the store is late. The store counts as away when two answers in a row are late, or one takes twice as long; where processors are short, 2000 keeps moments of load from counting.",
    ),
  whenAway: z
    .enum(["share", "refuse"])
    .default("share")
    .describe(
      "What becomes of requests with limits while the store is away: each gateway goes by its share of every limit and tells the store afterwards what was used, or they are refused with 503.",
    ),
  gateways: z
    .int()
    .min(1)
    .optional()
    .describe(
      "The number of gateways by which a share is computed; without it, that of those which the store last knew to live.",
    ),
});

const redis = redisFields.superRefine(({ cluster, sentinel, database, tls: secured, ...own }, context) => {
  const refuse = (path: string[], message: string) => context.addIssue({ code: "custom", path, message });
  if (cluster && sentinel) refuse(["sentinel"], "a Cluster has no Sentinels");
  if (cluster && database !== 0) refuse(["database"], "a Cluster has database 0 alone");
  if (own.password !== undefined && own.passwordFile !== undefined)
    refuse(["passwordFile"], "the password is given already");
  if (sentinel?.password !== undefined && sentinel.passwordFile !== undefined)
    refuse(["sentinel", "passwordFile"], "the password is given already");
  if (secured && (secured.certFile === undefined) !== (secured.keyFile === undefined))
    refuse(["tls"], "certFile and keyFile belong together");
});

/** Schema of the state that gateways share. */
export const stateSchema = z
  .strictObject({
    redis: redis
      .optional()
      .describe(
        "The Redis or Valkey in which the gateways of all hosts count the limits of keys together; without it, each process counts by itself, and those of one host together.",
      ),
  })
  .prefault({})
  .describe("What gateways on several hosts share.");

export type RedisSettings = z.infer<typeof redis>;
