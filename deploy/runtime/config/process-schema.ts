import * as z from "zod";

export const file = (text: string) => z.string().min(1).describe(text);

/** Makes the settings of a listener: its address, 127.0.0.1 by default, and its port, `port` by default. */
export function listenFields(port: number) {
  return {
    host: z.string().min(1).default("127.0.0.1").describe("IP address or host name of the listener."),
    port: z.int().min(0).max(65_535).default(port).describe("TCP port of the listener; 0 picks a free one."),
  };
}

export function listenSchema(port: number) {
  return z.strictObject(listenFields(port)).prefault({});
}

export const listenerTlsSchema = z
  .strictObject({
    certFile: file("Path of a PEM file with the server certificate, and its chain."),
    keyFile: file("Path of a PEM file with the private key of certFile, readable by its owner and group only."),
    clientCaFile: file(
      "Path of a PEM file with the authorities of client certificates, which are then required; without it, callers need no certificate. A key is required in either case.",
    ).optional(),
  })
  .optional()
  .describe("TLS of the listener; without this section it is plain text. The files are reloaded after changes.");

/** Makes the schema of a positive duration in whole milliseconds. Its default is `value`; `text` describes it. */
export function milliseconds(value: number, text: string) {
  return z.int().min(1).default(value).describe(text);
}

export const logSchema = z
  .strictObject({
    level: z.enum(["debug", "info", "warn", "error"]).default("info").describe("Minimum level of log lines."),
    format: z
      .enum(["auto", "json", "text"])
      .default("auto")
      .describe("`json`, `text` for people, or `auto`: text on a terminal, JSON elsewhere."),
  })
  .prefault({})
  .describe("The log, in lines on standard error.");

function hasPort(address: string): boolean {
  const port = Number(address.slice(address.lastIndexOf(":") + 1));
  return port >= 1 && port <= 65_535;
}

/** Schema of an address `host:port`, the port from 1 to 65535; an IPv6 address is in brackets. */
export const hostPortSchema = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.%]+\]|[^\s/:[\]]+):\d{1,5}$/, "expected host:port")
  .refine(hasPort, "expected a port from 1 to 65535");
