import { ServerCredentials } from "@grpc/grpc-js";
import type { FollowedPems, Pems } from "../../deploy/runtime/files/followed-pems.ts";

/** The oldest protocol that is accepted, whatever the process was started with. */
const MIN_VERSION = "TLSv1.2";

/**
 * The credentials of the gRPC port with TLS. A certificate that is renewed while the node listens counts for
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
