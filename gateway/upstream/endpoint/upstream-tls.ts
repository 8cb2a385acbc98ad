import { type ChannelCredentials, experimental } from "@grpc/grpc-js";
import * as z from "zod";
import { FollowedPems, type Pems } from "../../../deploy/runtime/files/followed-file.ts";
import type { Clock } from "../../../deploy/runtime/time/clock.ts";

const file = (text: string) => z.string().min(1).describe(text);

export const tlsSchema = z
  .strictObject({
    caFile: file(
      "Path of a PEM file with the authority that has signed the endpoints' certificates; no other is trusted.",
    ),
    certFile: file(
      "Path of a PEM file with the certificate that the gateway shows to endpoints that ask for one.",
    ).optional(),
    keyFile: file("Path of a PEM file with the key of certFile, which only its owner and group may read.").optional(),
    serverName: z
      .string()
      .min(1)
      .max(253)
      .optional()
      .describe("The name that the endpoints' certificates are for; without it, the host of the endpoint's address."),
  })
  .refine(({ certFile, keyFile }) => (certFile === undefined) === (keyFile === undefined), {
    message: "certFile and keyFile belong together",
  })
  .describe("How connections to the endpoints are secured; the files are followed while they change.");

export type TlsSettings = Readonly<z.infer<typeof tlsSchema>>;

export type UpstreamTlsOptions = {
  readonly settings: TlsSettings;
  /** The path of the settings in the configuration, for messages. */
  readonly path: string;
  readonly clock: Clock;
  /** Called when files have changed: with the reason why they cannot be used, in which case the last good ones stay. */
  readonly onReload: (fault: string | undefined) => void;
};

/** Holds the certificates of connections to endpoints, and follows their files for new connections. */
export class UpstreamTls {
  readonly credentials: ChannelCredentials;
  readonly #pems: FollowedPems;
  readonly #caListeners = new Set<experimental.CaCertificateUpdateListener>();
  readonly #identityListeners = new Set<experimental.IdentityCertificateUpdateListener>();

  /** Reads the files. Throws `PemError` when they cannot be used. */
  constructor({ settings, path, clock, onReload }: UpstreamTlsOptions) {
    const { caFile, certFile, keyFile } = settings;
    const files = [
      { part: "ca", key: "caFile", file: caFile },
      { part: "cert", key: "certFile", file: certFile },
      { part: "key", key: "keyFile", file: keyFile },
    ] as const;
    this.#pems = new FollowedPems({ at: path, files, clock, onReload });
    this.#pems.onChange((pems) => this.#update(pems));
    const provider = this.#provider();
    const { createCertificateProviderChannelCredentials } = experimental;
    this.credentials = createCertificateProviderChannelCredentials(provider, certFile === undefined ? null : provider);
  }

  get pems(): Pems {
    return this.#pems.now;
  }

  close(): void {
    this.#pems.close();
  }

  #provider(): experimental.CertificateProvider {
    return {
      addCaCertificateListener: (listener) => {
        this.#caListeners.add(listener);
        listener(authorityOf(this.#pems.now));
      },
      removeCaCertificateListener: (listener) => void this.#caListeners.delete(listener),
      addIdentityCertificateListener: (listener) => {
        this.#identityListeners.add(listener);
        listener(identityOf(this.#pems.now));
      },
      removeIdentityCertificateListener: (listener) => void this.#identityListeners.delete(listener),
    };
  }

  #update(pems: Pems): void {
    for (const listener of this.#caListeners) listener(authorityOf(pems));
    for (const listener of this.#identityListeners) listener(identityOf(pems));
  }
}

function authorityOf({ ca }: Pems): experimental.CaCertificateUpdate | null {
  return ca ? { caCertificate: ca } : null;
}

function identityOf({ cert, key }: Pems): experimental.IdentityCertificateUpdate | null {
  return cert && key ? { certificate: cert, privateKey: key } : null;
}
