import * as z from "zod";
import { listenFields } from "../../../deploy/runtime/config/process-schema.ts";

const file = (text: string) => z.string().min(1).describe(text);

const tls = z
  .strictObject({
    certFile: file("The path of a PEM file with the certificate that the admin port shows, and its chain."),
    keyFile: file(
      "The path of a PEM file with the private key of certFile, which nobody but its owner and group may read.",
    ),
    clientCaFile: file(
      "The path of a PEM file with authorities; a caller whose certificate one of them has signed needs no token.",
    ).optional(),
  })
  .describe("How the admin port is secured; without this section it speaks plain text. The files are followed.");

export const adminSchema = z
  .strictObject({
    ...listenFields(9901),
    tokenFile: file(
      "The path of a file with a token of at least 16 characters, which nobody but its owner and group may read; it is followed. Callers on other machines show the token as `authorization: Bearer …`, or a browser as the password.",
    ).optional(),
    tls: tls.optional(),
  })
  .prefault({})
  .describe(
    "Where health, metrics, control and a page to look at are served; never for the public. Callers on this machine may do everything; others get health alone, unless they present the token or a certificate.",
  );

export const healthSchema = z
  .strictObject(listenFields(9902))
  .optional()
  .describe(
    "Where `/healthz`, `/readyz` and `/metrics` are read by whoever can connect, such as a proxy, the kubelet and Prometheus; without this section they are on the admin port alone.",
  );

export type AdminSettings = z.infer<typeof adminSchema>;
