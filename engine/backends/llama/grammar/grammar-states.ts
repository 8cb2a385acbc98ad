import type { Llama, LlamaGrammar, LlamaGrammarEvaluationState, LlamaModel, Token } from "node-llama-cpp";
import { EngineError } from "../../../errors.ts";

export type GrammarStates = {
  readonly begin: (grammar: LlamaGrammar) => LlamaGrammarEvaluationState;
  readonly copy: (state: LlamaGrammarEvaluationState) => LlamaGrammarEvaluationState;
  readonly canTake: boolean;
  /** Returns false and changes nothing if the grammar forbids the token. Throws `EngineError` without `canTake`. */
  readonly take: (state: LlamaGrammarEvaluationState, token: Token) => boolean;
};

type StateLibrary = Pick<typeof import("node-llama-cpp"), "LlamaGrammarEvaluationState">;

type TokenSteps = {
  readonly allows: (...args: unknown[]) => unknown;
  readonly accept: (...args: unknown[]) => unknown;
};

/** Uses functions that the library does not publish, which a later version may lack. */
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
      // The binary throws if the grammar does not allow the token.
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
