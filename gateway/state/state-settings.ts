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
    `The path of a file with the password ${whose}, readable by its owner and group only; it is read at the start.`,
  ).optional(),
});

const tls = z
  .strictObject({
    caFile: file("Path of a PEM file with the authorities of the servers' certificates.").optional(),
    certFile: file("Path of a PEM file with the client certificate of the gateway, and its chain.").optional(),
    keyFile: file(
      "The path of a PEM file with the private key of certFile, readable by its owner and group only.",
    ).optional(),
    serverName: z
      .string()
      .min(1)
      .optional()
      .describe("Expected name in the servers' certificates; default: the host of each address."),
  })
  .describe("TLS of connections to the store; without this section they are plain text.");

const redisFields = z.strictObject({
  addresses: z
    .array(hostPortSchema)
    .min(1)
    .max(32)
    .describe(
      "Addresses as host:port: of the server, of the Sentinels if `sentinel` is set, or of some nodes if `cluster` is.",
    ),
  ...login("of the store"),
  tls: tls.optional(),
  sentinel: z
    .strictObject({
      name: z.string().min(1).describe("Name of the master at the Sentinels."),
      ...login("of the Sentinels"),
    })
    .optional()
    .describe("The store is the master that the Sentinels report; without this section there are none."),
  cluster: z.boolean().default(false).describe("Whether the store is a Redis Cluster."),
  database: z.int().min(0).max(1_000_000).default(0).describe("Number of the database; a Cluster only has 0."),
  keyPrefix: z
    .string()
    .regex(/^[A-Za-z0-9:._-]{0,32}$/, "expected at most 32 letters, digits, colons, dots, hyphens and underscores")
    .default("svc:")
    .describe("Prefix of all entries; deployments that share a store but no keys need different ones."),
  connectTimeoutMs: z
    .int()
    .min(50)
    .default(2_000)
    .describe("The time, in milliseconds, after which a connection attempt is abandoned and repeated."),
  commandTimeoutMs: z
    .int()
    .min(10)
    .default(500)
    .describe(
      "The time, in milliseconds, after which an answer of the store is late. The store counts as unreachable when two consecutive answers are late, or one takes twice as long; on busy processors, 2000 tolerates short peaks of load.",
    ),
  whenAway: z
    .enum(["share", "refuse"])
    .default("share")
    .describe(
      "How requests with limits are handled while the store is unreachable: each gateway applies its share of every limit and reports the use to the store afterwards, or they are refused with 503.",
    ),
  gateways: z
    .int()
    .min(1)
    .optional()
    .describe("Number of gateways for computing a share; default: the live gateways in the store's last reply."),
});

const redis = redisFields.superRefine(({ cluster, sentinel, database, tls: secured, ...own }, context) => {
  const refuse = (path: string[], message: string) => context.addIssue({ code: "custom", path, message });
  if (cluster && sentinel) refuse(["sentinel"], "a Cluster has no Sentinels");
  if (cluster && database !== 0) refuse(["database"], "a Cluster only has database 0");
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
        "Redis or Valkey in which the gateways of all hosts count the limits of keys together; without it, each process counts on its own.",
      ),
  })
  .prefault({})
  .describe("State shared by gateways on several hosts.");

export type RedisSettings = z.infer<typeof redis>;
