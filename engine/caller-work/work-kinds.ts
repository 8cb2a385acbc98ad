import { renderPrompt } from "../conversation/prompt-renderer.ts";
import type { OutputGrammar } from "../grammar/output/output-grammar.ts";
import { type CheckedTexts, checkTexts } from "../grammar/validation/answer-check.ts";
import { grammarOf } from "./grammar-input.ts";

/**
 * `limitMs` allows for busy machines, where a thread may get a thirtieth of a core: budgets end a job within 200 ms.
 */
export const WORK = {
  grammar: { run: grammarOf, limitMs: 15_000, isWhole: ({ gaveUp }: OutputGrammar) => !gaveUp },
  render: { run: renderPrompt, limitMs: 15_000, isWhole: () => true },
  check: { run: checkTexts, limitMs: 6_000, isWhole: ({ unchecked }: CheckedTexts) => unchecked === 0 },
} as const;

export type WorkKind = keyof typeof WORK;

export type WorkInput<Kind extends WorkKind> = Parameters<(typeof WORK)[Kind]["run"]>[0];

export type WorkOutput<Kind extends WorkKind> = ReturnType<(typeof WORK)[Kind]["run"]>;
