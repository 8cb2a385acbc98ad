import * as z from "zod";
import { listenFields } from "../../../deploy/runtime/config/process-schema.ts";

const file = (text: string) => z.string().min(1).describe(text);

const tls = z
  .strictObject({
    certFile: file("Path of a PEM file with the server certificate, and its chain."),
    keyFile: file("Path of a PEM file with the private key of certFile, which only its owner and group may read."),
    clientCaFile: file(
      "Path of a PEM file with authorities; a caller whose certificate one of them has signed needs no token.",
    ).optional(),
  })
  .describe("How the admin port is secured; without this section it speaks plain text. The files are followed.");

export const adminSchema = z
  .strictObject({
    ...listenFields(9901),
    tokenFile: file(
      "Path of a file with a token of at least 16 characters, readable by owner and group only; it is followed. Other machines send it as `authorization: Bearer …`, browsers as the password.",
    ).optional(),
    tls: tls.optional(),
  })
  .prefault({})
  .describe(
    "Health, metrics, control and the fleet page; never for the public. Callers on this machine may do everything; others get health alone without the token or a certificate.",
  );

export const healthSchema = z
  .strictObject(listenFields(9902))
  .optional()
  .describe(
    "`/healthz`, `/readyz` and `/metrics` for a proxy, the kubelet and Prometheus, and `/drain_sockets` for a proxy that drains; without this section they are on the admin port alone.",
  );

export type AdminSettings = z.infer<typeof adminSchema>;
