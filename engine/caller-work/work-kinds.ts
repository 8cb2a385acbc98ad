import { renderPrompt } from "../conversation/prompt-renderer.ts";
import type { OutputGrammar } from "../grammar/output/output-grammar.ts";
import { type CheckedTexts, checkTexts } from "../grammar/validation/answer-check.ts";
import { checkCompiledSchemas } from "../grammar/validation/compiled-schemas.ts";
import { grammarOf } from "./grammar-input.ts";

/**
 * The kinds of jobs. `run` executes on a thread, with plain data that can cross threads; `limitMs` is its longest time,
 * in milliseconds. Budgets allow a fifth of a second at the most; the rest is for a machine whose cores are all busy,
 * where a thread may get a thirtieth of one.
 */
export const WORK = {
  /** Converts schemas and tools to the grammar of an answer. */
  grammar: { run: grammarOf, limitMs: 15_000, isWhole: ({ gaveUp }: OutputGrammar) => !gaveUp },
  /** Renders a conversation to the text of a prompt. */
  render: { run: renderPrompt, limitMs: 15_000, isWhole: () => true },
  /** Validates model output against the requested schemas. */
  check: { run: checkTexts, limitMs: 6_000, isWhole: ({ unchecked }: CheckedTexts) => unchecked === 0 },
  /** Checks the schemas that another engine would compile. */
  schemas: { run: checkCompiledSchemas, limitMs: 6_000, isWhole: () => true },
} as const;

export type WorkKind = keyof typeof WORK;

export type WorkInput<Kind extends WorkKind> = Parameters<(typeof WORK)[Kind]["run"]>[0];

export type WorkOutput<Kind extends WorkKind> = ReturnType<(typeof WORK)[Kind]["run"]>;
