import type { Logger } from "pino";
import { FollowedPems } from "../../deploy/runtime/files/followed-pems.ts";
import type { Clock } from "../../deploy/runtime/time/clock.ts";

/** The paths of the PEM files of a node. */
export type TlsFiles = {
  /** The file of the node's certificate and its chain. */
  readonly certFile: string;
  /** The file of the certificate's private key. */
  readonly keyFile: string;
  /**
   * The file of the authorities one of which must have signed the certificate of a caller. Absent: callers show no
   * certificate.
   */
  readonly clientCaFile?: string | undefined;
};

/**
 * Opens the PEM files that the node shows to its callers and checks them by, and follows them while they change.
 * Whoever calls this closes the result. Throws `PemError` when the files do not fit together.
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
