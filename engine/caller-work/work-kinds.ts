import { renderPrompt } from "../conversation/prompt-renderer.ts";
import type { OutputGrammar } from "../grammar/output/output-grammar.ts";
import { type CheckedTexts, checkTexts } from "../grammar/validation/answer-check.ts";
import { checkCompiledSchemas } from "../grammar/validation/compiled-schemas.ts";
import { grammarOf } from "./grammar-input.ts";

/**
 * The kinds of work that callers cause. `run` is what a thread does, with plain data that can go to another thread;
 * `limitMs` is the longest that it may take, in milliseconds. What a budget allows needs a fifth of a second at the most;
 * the rest is for a machine whose cores are all taken, where a thread gets a thirtieth of one.
 */
export const WORK = {
  /** Turns schemas and tools into the grammar of an answer. */
  grammar: { run: grammarOf, limitMs: 15_000, isWhole: ({ gaveUp }: OutputGrammar) => !gaveUp },
  /** Turns a conversation into the text of a prompt. */
  render: { run: renderPrompt, limitMs: 15_000, isWhole: () => true },
  /** Looks at what a model wrote with the schemas that were asked for. */
  check: { run: checkTexts, limitMs: 6_000, isWhole: ({ unchecked }: CheckedTexts) => unchecked === 0 },
  /** Looks at the schemas that another engine would compile. */
  schemas: { run: checkCompiledSchemas, limitMs: 6_000, isWhole: () => true },
} as const;

/** The name of a kind of work. */
export type WorkKind = keyof typeof WORK;

/** The input that a kind of work is given. */
export type WorkInput<Kind extends WorkKind> = Parameters<(typeof WORK)[Kind]["run"]>[0];

/** The output that a kind of work results in. */
export type WorkOutput<Kind extends WorkKind> = ReturnType<(typeof WORK)[Kind]["run"]>;
