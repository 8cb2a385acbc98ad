import type { Logger } from "pino";
import { FollowedPems } from "../../deploy/runtime/files/followed-pems.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/** Paths of PEM files. */
export type TlsFiles = {
  readonly certFile: string;
  readonly keyFile: string;
  /** With it, a caller must show a certificate that this authority has signed. */
  readonly clientCaFile?: string | undefined;
};

/**
 * What the node shows to its callers and asks of them, followed while the files change. Whoever opens it closes it. Throws
 * `PemError`.
 */
export function followTls({ certFile, keyFile, clientCaFile }: TlsFiles, clock: Clock, log: Logger): FollowedPems {
  return new FollowedPems({
    at: "tls",
    files: [
      { part: "cert", key: "certFile", file: certFile },
      { part: "key", key: "keyFile", file: keyFile },
      { part: "ca", key: "clientCaFile", file: clientCaFile },
    ],
    clock,
    onReload: (fault) => {
      if (fault === undefined) log.info("TLS files have been renewed");
      else log.error({ fault }, "TLS files kept as they were");
    },
  });
}
