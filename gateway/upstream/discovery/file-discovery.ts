import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import * as z from "zod";
import { FollowedFile } from "../../../deploy/runtime/files/followed-file.ts";
import { errnoOf } from "../../../deploy/runtime/files/private-file.ts";
import {
  type Discovery,
  type DiscoveryOptions,
  DiscoveryRecord,
  type DiscoveryStatus,
  type EndpointSpec,
  endpointsSchema,
} from "./discovery.ts";

const schema = z.strictObject({ endpoints: endpointsSchema });

/** An unusable endpoint file. The message names the path of the bad key. */
export class EndpointFileError extends Error {
  override readonly name = "EndpointFileError";
}

/** Returns the endpoints in a file's text, in YAML or JSON. Throws `EndpointFileError`. */
export function parseEndpointFile(text: string): readonly EndpointSpec[] {
  let document: unknown;
  try {
    document = parse(text);
  } catch (cause) {
    throw new EndpointFileError("not YAML or JSON", { cause });
  }
  const checked = schema.safeParse(document);
  if (checked.success) return checked.data.endpoints;
  const [issue] = checked.error.issues;
  throw new EndpointFileError(`${issue?.path.join(".") || "(root)"}: ${issue?.message}`);
}

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
      const endpoints = parseEndpointFile(text);
      this.#record.count("successes");
      const known = JSON.stringify(endpoints);
      if (known === this.#known) return;
      this.#known = known;
      this.#options.onEndpoints(endpoints);
    } catch (error) {
      if (!(error instanceof EndpointFileError)) throw error;
      this.#record.count("rejected", `${this.#file}: ${error.message}`);
    }
  }
}
