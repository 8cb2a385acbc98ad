import * as z from "zod";

const file = (text: string) => z.string().min(1).describe(text);

/** Makes the settings of a listener: its address, 127.0.0.1 by default, and its port, `port` by default. */
export function listenFields(port: number) {
  return {
    host: z
      .string()
      .min(1)
      .default("127.0.0.1")
      .describe("The IP address or host name on which the listener takes connections."),
    port: z
      .int()
      .min(0)
      .max(65_535)
      .default(port)
      .describe("The TCP port on which the listener takes connections; 0 picks a free one."),
  };
}

/** Makes the schema of a listener with only `listenFields`. */
export function listenSchema(port: number) {
  return z.strictObject(listenFields(port)).prefault({});
}

/** Schema of the TLS settings of a listener for callers. */
export const listenerTlsSchema = z
  .strictObject({
    certFile: file("The path of a PEM file with the certificate that the listener shows, and its chain."),
    keyFile: file(
      "The path of a PEM file with the private key of certFile, which nobody but its owner and group may read.",
    ),
    clientCaFile: file(
      "The path of a PEM file with authorities, one of which must have signed the certificate of every caller; without it, callers show none. A key is asked for either way.",
    ).optional(),
  })
  .optional()
  .describe("How the listener is secured; without this section it speaks plain text. The files are followed.");

/** Makes the schema of a positive duration in whole milliseconds. Its default is `value`; `text` describes it. */
export function milliseconds(value: number, text: string) {
  return z.int().min(1).default(value).describe(text);
}

/** Schema of a program's log: the minimum level, `info` by default. */
export const logSchema = z
  .strictObject({
    level: z
      .enum(["debug", "info", "warn", "error"])
      .default("info")
      .describe("The least serious level of the lines that the log gets: `debug`, `info`, `warn` or `error`."),
  })
  .prefault({})
  .describe("What goes into the log, which is JSON lines on standard error.");
