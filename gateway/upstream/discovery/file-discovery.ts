import { readFile } from "node:fs/promises";
import * as z from "zod";
import { ConfigError, parseConfig } from "../../../deploy/runtime/config/load-config.ts";
import { FollowedFile } from "../../../deploy/runtime/files/followed-file.ts";
import { errnoOf } from "../../../deploy/runtime/files/private-file.ts";
import {
  type Discovery,
  type DiscoveryOptions,
  DiscoveryRecord,
  type DiscoveryStatus,
  endpointsSchema,
} from "./discovery.ts";

/** A list of endpoints, in YAML or JSON. */
export const endpointFileSchema = z.strictObject({ endpoints: endpointsSchema });

/** Follows the endpoints in a file, which operators replace by a rename. A missing or bad file changes nothing. */
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
      if (!this.#closed) this.#record.count("failures", `${this.#file}: ${code}`);
      return code === "ENOENT" ? "taken" : "again";
    }
  }

  #take(text: string): void {
    try {
      const { endpoints } = parseConfig(endpointFileSchema, text, this.#file);
      this.#record.count("successes");
      const known = JSON.stringify(endpoints);
      if (known === this.#known) return;
      this.#known = known;
      this.#options.onEndpoints(endpoints);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      this.#record.count("rejected", error.message);
    }
  }
}
