import { ServerCredentials } from "@grpc/grpc-js";
import type { FollowedPems, Pems } from "../../deploy/runtime/files/followed-pems.ts";

/** Older protocols are refused whatever the process was started with. */
const MIN_VERSION = "TLSv1.2";

/**
 * TLS for the gRPC port. Certificates that are renewed while it listens count for connections from then on; those that stand
 * go on. Whether callers must show a certificate stays as it was.
 */
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
