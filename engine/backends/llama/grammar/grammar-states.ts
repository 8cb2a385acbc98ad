import type { Llama, LlamaGrammar, LlamaGrammarEvaluationState, LlamaModel, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";

/** What a grammar's place in an output is kept with. */
export type GrammarStates = {
  /** Makes the state at the start of a grammar. */
  readonly begin: (grammar: LlamaGrammar) => LlamaGrammarEvaluationState;
  /** Makes a second state at the same place. */
  readonly copy: (state: LlamaGrammarEvaluationState) => LlamaGrammarEvaluationState;
  /** Whether states can be moved on by tokens that were not sampled with them. */
  readonly canTake: boolean;
  /**
   * Moves a state on by a token. Returns false, and leaves the state as it is, where the grammar does not allow it.
   * Throws `EngineError` UNSUPPORTED_FEATURE where states cannot be moved on so.
   */
  readonly take: (state: LlamaGrammarEvaluationState, token: Token) => boolean;
};

type StateLibrary = Pick<typeof import("node-llama-cpp"), "LlamaGrammarEvaluationState">;

/** The functions of the binary that take a token into a grammar without sampling it. */
type TokenSteps = {
  readonly allows: (...args: unknown[]) => unknown;
  readonly accept: (...args: unknown[]) => unknown;
};

/**
 * Returns what keeps places in grammars. To move one on by tokens that were not sampled the library has no public name,
 * although it does so itself, to check what a smaller model has guessed: a version may come that cannot.
 */
export function grammarStates(
  { LlamaGrammarEvaluationState: State }: StateLibrary,
  llama: Llama,
  model: LlamaModel,
): GrammarStates {
  const steps = tokenSteps(llama);
  return {
    canTake: steps !== undefined,
    begin: (grammar) => new State({ model, grammar }),
    copy: (state) => new State(state),
    take: (state, token) => {
      if (!steps) throw new EngineError("UNSUPPORTED_FEATURE", "continuation: not of an answer of a fixed form.");
      const native: unknown = Reflect.get(state, "_state");
      // The binary throws where a grammar has no place for a token.
      if (steps.allows(native, token) !== true) return false;
      steps.accept(native, token);
      return true;
    },
  };
}

function tokenSteps(llama: Llama): TokenSteps | undefined {
  const bindings: unknown = Reflect.get(llama, "_bindings");
  const sampler = member(bindings, "AddonSampler");
  const allows = member(sampler, "canBeNextTokenForGrammarEvaluationState");
  const accept = member(sampler, "acceptGrammarEvaluationStateToken");
  if (typeof allows !== "function" || typeof accept !== "function") return undefined;
  return {
    allows: (...args) => Reflect.apply(allows, sampler, args),
    accept: (...args) => Reflect.apply(accept, sampler, args),
  };
}

function member(of: unknown, name: string): unknown {
  return (typeof of === "object" && of !== null) || typeof of === "function" ? Reflect.get(of, name) : undefined;
}
