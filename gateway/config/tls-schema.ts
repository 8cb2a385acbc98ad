import * as z from "zod";

const file = (text: string) => z.string().min(1).describe(text);

/** Envoy's `UpstreamTlsContext`, as far as engines need it. */
export const tlsSchema = z
  .strictObject({
    caFile: file("PEM: the authority that has signed the endpoints' certificates; no other is trusted."),
    certFile: file("PEM: the certificate that the gateway shows to endpoints that ask for one.").optional(),
    keyFile: file("PEM: the key of certFile.").optional(),
    serverName: z
      .string()
      .min(1)
      .max(253)
      .optional()
      .describe("The name that the endpoints' certificates are for. Absent: the host of the address."),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    message: "certFile and keyFile belong together",
  })
  .describe("How connections to the endpoints are secured; the files are followed while they change.");
