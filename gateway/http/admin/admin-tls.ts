import type { RequestListener } from "node:http";
import { createServer, type Server } from "node:https";
import { FollowedPems } from "../../../deploy/runtime/files/followed-file.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";
import type { AdminSettings } from "./admin-settings.ts";

/** The certificates of the admin port, and a function that stops watching their files. */
export type AdminTls = {
  /** Makes the server that shows the certificate, and the newest one to new connections whenever the files change. */
  server(handler: RequestListener): Server;
  /** Stops watching the files. */
  close(): void;
};

/**
 * Reads the certificates of the admin port and watches their files. Throws `PemError` if they are unusable now;
 * `onReload` receives changes as with `FollowedPems`.
 */
export function openAdminTls(
  { certFile, keyFile, clientCaFile }: NonNullable<AdminSettings["tls"]>,
  clock: Pick<Clock, "after">,
  onReload: (fault: string | undefined) => void,
): AdminTls {
  const pems = new FollowedPems({
    at: "admin.tls",
    files: [
      { part: "cert", key: "certFile", file: certFile },
      { part: "key", key: "keyFile", file: keyFile },
      { part: "ca", key: "clientCaFile", file: clientCaFile },
    ],
    clock,
    onReload,
  });
  return {
    server(handler) {
      // Callers without an accepted certificate may still read health; the other paths check whether it was accepted.
      const asked = { requestCert: clientCaFile !== undefined, rejectUnauthorized: false };
      const server = createServer({ ...pems.now, ...asked, minVersion: "TLSv1.2" }, handler);
      pems.onChange((now) => server.setSecureContext({ ...now, minVersion: "TLSv1.2" }));
      return server;
    },
    close: () => pems.close(),
  };
}
