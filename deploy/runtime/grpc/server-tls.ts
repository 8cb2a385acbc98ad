import { ServerCredentials } from "@grpc/grpc-js";
import type { Logger } from "pino";
import { FollowedPems, type Pems } from "../files/followed-file.ts";
import type { Clock } from "../time/clock.ts";

const MIN_VERSION = "TLSv1.2";

export type TlsFiles = {
  readonly certFile: string;
  readonly keyFile: string;
  /** File of the authorities for client certificates. Absent: callers need no certificate. */
  readonly clientCaFile?: string | undefined;
};

/**
 * Opens the PEM files of a server and follows them. `at` is the path of their section in the configuration, for
 * messages. The caller closes the result. Throws `PemError` if the files do not match.
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
      if (fault === undefined) log.info("TLS files reloaded");
      else log.error({ fault }, "TLS files are unusable; the last good ones stay in use");
    },
  });
}

/** Uses a renewed certificate for new connections; whether clients need one is fixed at the start. */
export class TlsCredentials extends ServerCredentials {
  constructor(pems: FollowedPems) {
    const asksCallers = pems.now.ca !== undefined;
    super({ requestCert: asksCallers, rejectUnauthorized: asksCallers }, contextOf(pems.now));
    pems.onChange((renewed) => this.updateSecureContextOptions(contextOf(renewed)));
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function contextOf(pems: Pems): Pems & { readonly minVersion: typeof MIN_VERSION } {
  return { ...pems, minVersion: MIN_VERSION };
}
