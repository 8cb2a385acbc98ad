import type * as z from "zod";
import type { Backend } from "../backend.ts";
import type { CallerWork } from "../caller-work/caller-work.ts";

/** What a node tells its backend about itself. */
export type ServedNode = {
  /** The node's name, which a backend puts into `started`. */
  readonly nodeId: string;
  /** The model ids under which the one checkpoint is served; at least one. */
  readonly models: readonly string[];
};

/** The functions that make a backend out of its configuration. */
export type BackendMaker<Config> = {
  /**
   * Makes a backend that has not been started. What callers' bytes make it do beside generating, it has done by `work`.
   * Throws `ConfigError` for what a schema cannot see, such as a missing file.
   */
  readonly create: (config: Config, node: ServedNode, work: CallerWork) => Backend | Promise<Backend>;
  /**
   * Returns the address of the engine beside the node that a start waits for, `host:port`. Absent where there is none.
   */
  readonly engineOf?: (config: Config) => string;
};

/** A kind of backend: the schema of its configuration, and the functions that make one. */
export type BackendKind<Schema extends z.ZodObject> = BackendMaker<Readonly<z.output<Schema>>> & {
  /**
   * The schema of the node's `backend` setting. Its literal `kind` is the name of the kind; defaults stand in it and
   * nowhere else.
   */
  readonly schema: Schema;
};
