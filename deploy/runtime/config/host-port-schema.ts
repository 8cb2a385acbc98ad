import * as z from "zod";

function hasPort(address: string): boolean {
  const port = Number(address.slice(address.lastIndexOf(":") + 1));
  return port >= 1 && port <= 65_535;
}

/** Schema of an address `host:port`, the port from 1 to 65535; an IPv6 address is in brackets. */
export const hostPortSchema = z
  .string()
  .regex(/^(\[[0-9A-Fa-f:.%]+\]|[^\s/:[\]]+):\d{1,5}$/, "expected host:port")
  .refine(hasPort, "expected a port from 1 to 65535");
