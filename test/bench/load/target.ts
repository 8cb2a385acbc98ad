import type { Directive } from "../processes/directive.ts";

/** A target of the load: a program between client and engine, or the engine itself. */
export type Target = {
  readonly name: string;
  readonly port: number;
  /** The measured process; undefined for none. */
  readonly pid: number | undefined;
  request(directive: Directive): string;
};
