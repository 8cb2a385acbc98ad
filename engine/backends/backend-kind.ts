import type * as z from "zod";
import type { Backend } from "../backend.ts";
import type { CallerWork } from "../caller-work/caller-work.ts";

export type ServedNode = {
  /** The node's name, for `started` events. */
  readonly nodeId: string;
  /** The model ids under which the one checkpoint is served; at least one. */
  readonly models: readonly string[];
};

/** The functions that create a backend from its configuration. */
export type BackendMaker<Config> = {
  /**
   * Creates a backend that has not been started. It runs the jobs that callers' input causes, apart from generation, on
   * `work`. Throws `ConfigError` for errors that the schema cannot detect, such as a missing file.
   */
  readonly create: (config: Config, node: ServedNode, work: CallerWork) => Backend | Promise<Backend>;
  /** Returns the address of the engine beside the node that startup waits for, `host:port`. Absent if there is none. */
  readonly engineOf?: (config: Config) => string;
};

/** A backend kind: the schema of its configuration, and the functions that create it. */
export type BackendKind<Schema extends z.ZodObject> = BackendMaker<Readonly<z.output<Schema>>> & {
  /**
   * The schema of the node's `backend` setting. Its literal `kind` is the name of the kind; it is the only place of
   * defaults.
   */
  readonly schema: Schema;
};
