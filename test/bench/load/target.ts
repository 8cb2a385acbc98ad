import type { Directive } from "../processes/directive.ts";

/** A target of the load: a program between a client and the engine, or the engine itself. */
export type Target = {
  readonly name: string;
  readonly port: number;
  /** The process whose time counts; undefined where nothing stands in the middle. */
  readonly pid: number | undefined;
  /** A whole HTTP request. */
  request(directive: Directive): string;
};
