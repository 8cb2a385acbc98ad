import { ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { FollowedPems, type Pems } from "../files/followed-pems.ts";
import type { Clock } from "../time/clock.ts";

/** The oldest protocol that is accepted, whatever the process was started with. */
const MIN_VERSION = "TLSv1.2";

/** The paths of the PEM files of a server. */
export type TlsFiles = {
  /** The file of the server's certificate and its chain. */
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
 * Opens the PEM files that a server shows to its callers and checks them by, and follows them while they change. `at` is
 * the path of the section in the configuration that names them, for messages. Whoever calls this closes the result.
 * Throws `PemError` when the files do not fit together.
 */
export function followTls(
  { certFile, keyFile, clientCaFile }: TlsFiles,
  clock: Clock,
  log: Logger,
  at = "tls",
): FollowedPems {
  return new FollowedPems({
    at,
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

/**
 * The credentials of a gRPC port with TLS. A certificate that is renewed while the node listens counts for
 * connections from then on; those that stand go on. Whether callers must show a certificate stays as it was at the
 * start.
 */
export class TlsCredentials extends ServerCredentials {
  /**
   * Takes the present content of `pems`, and follows it. Callers must show a certificate if `pems` has an authority.
   */
  constructor(pems: FollowedPems) {
    const asksCallers = pems.now.ca !== undefined;
    super({ requestCert: asksCallers, rejectUnauthorized: asksCallers }, contextOf(pems.now));
    pems.onChange((renewed) => this.updateSecureContextOptions(contextOf(renewed)));
  }

  /** Tells grpc-js whether two credentials are the same: only the same object is. */
  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function contextOf(pems: Pems): Pems & { readonly minVersion: typeof MIN_VERSION } {
  return { ...pems, minVersion: MIN_VERSION };
}
