import { readFile } from "node:fs/promises";
import { FollowedFile } from "../../../deploy/runtime/files/followed-file.ts";
import { errnoOf } from "../../../deploy/runtime/files/private-file.ts";
import type { Discovery, DiscoveryOptions, DiscoveryStatus } from "./discovery.ts";
import { DiscoveryRecord } from "./discovery-record.ts";
import { EndpointFileError, parseEndpointFile } from "./endpoint-file.ts";

/**
 * Follows the endpoints in a file, as Envoy's file-based EDS; operators replace the file by a rename. A missing or bad
 * file changes nothing.
 */
export class FileDiscovery implements Discovery {
  readonly #file: string;
  readonly #options: DiscoveryOptions;
  readonly #record: DiscoveryRecord;
  readonly #followed: FollowedFile;
  #known: string | undefined;
  #closed = false;

  constructor(file: string, options: DiscoveryOptions) {
    this.#file = file;
    this.#options = options;
    this.#record = new DiscoveryRecord(options.onFault);
    this.#followed = new FollowedFile({ files: [file], clock: options.clock, take: () => this.#read() });
    void this.#followed.look();
  }

  get status(): DiscoveryStatus {
    return this.#record.status;
  }

  close(): void {
    this.#closed = true;
    this.#followed.close();
  }

  async #read(): Promise<"taken" | "again"> {
    try {
      const text = await readFile(this.#file, "utf8");
      if (!this.#closed) this.#take(text);
      return "taken";
    } catch (error) {
      const code = errnoOf(error);
      if (!this.#closed) this.#record.failed(`${this.#file}: ${code}`);
      return code === "ENOENT" ? "taken" : "again";
    }
  }

  #take(text: string): void {
    try {
      const endpoints = parseEndpointFile(text);
      this.#record.succeeded();
      const known = JSON.stringify(endpoints);
      if (known === this.#known) return;
      this.#known = known;
      this.#options.onEndpoints(endpoints);
    } catch (error) {
      if (!(error instanceof EndpointFileError)) throw error;
      this.#record.rejected(`${this.#file}: ${error.message}`);
    }
  }
}
