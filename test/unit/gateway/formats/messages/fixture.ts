import { DEFAULT_CATALOG } from "../../../../../gateway/catalog.ts";
import { CompletionFold } from "../../../../../gateway/formats/completion.ts";
import { errorBodyB } from "../../../../../gateway/formats/error-envelope.ts";
import type { Head, PrepareContext } from "../../../../../gateway/formats/format.ts";
import type { Event, Usage } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FinishReason } from "../../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { FORMAT_SETTINGS } from "../../../../support/events/format-settings.ts";
import { thrownBy } from "../thrown-by.ts";

const sealer = {
  sign: (text: string) => `signed(${text.length})`,
  seal: (text: string) => `sealed:${text}`,
  open: (sealed: string) => (sealed.startsWith("sealed:") ? sealed.slice("sealed:".length) : undefined),
};

export const context: PrepareContext = {
  sealer: () => sealer,
  acceptsImages: () => true,
  settings: FORMAT_SETTINGS,
  catalog: DEFAULT_CATALOG,
  usableModels: [],
};

export const head: Head = {
  replyId: "0123456789abcdefABCDEFgh",
  requestId: "req_0123456789abcdefABCDEFgh",
  createdSeconds: 1_700_000_000,
  nowSeconds: () => 1_700_000_001,
  sealer,
};

export const minimal = { model: "svc-qwen", max_tokens: 16, messages: [{ role: "user", content: "hi" }] };

/** The `error` object of Format B as a caller sees it. */
export function errorOf(run: () => unknown) {
  return errorBodyB(thrownBy(run), "req_1").error;
}

export function started(inputTokens = 120, cachedInputTokens?: number): Event {
  return {
    kind: {
      $case: "started",
      value: { nodeId: "n", modelRevision: "r", inputTokens, cachedInputTokens, sampling: undefined },
    },
  };
}

type BlockScript = { readonly text: string[] } | { readonly reasoning: string[] } | { readonly call: string[] };

/** The events of one block; a call is named `read` and has the id `call_<index>`. */
export function block(index: number, script: BlockScript, complete = true): readonly Event[] {
  const [opened, pieces] =
    "text" in script
      ? [{ $case: "text", value: {} } as const, script.text]
      : "reasoning" in script
        ? [{ $case: "reasoning", value: {} } as const, script.reasoning]
        : [{ $case: "toolCall", value: { callId: `call_${index}`, name: "read" } } as const, script.call];
  return [
    { kind: { $case: "blockStarted", value: { index, block: opened } } },
    ...pieces.map((text): Event => ({ kind: { $case: "blockDelta", value: { index, text, logprobs: [] } } })),
    { kind: { $case: "blockEnded", value: { index, complete } } },
  ];
}

export const usage: Usage = {
  inputTokens: 120,
  cachedInputTokens: 80,
  cacheWriteTokens: 16,
  outputTokens: 30,
  reasoningTokens: 0,
};

export function finished(reason: FinishReason = FinishReason.STOP, more: object = {}): Event {
  return { kind: { $case: "finished", value: { reason, usage, timings: undefined, ...more } } };
}

export function folded(events: readonly Event[]) {
  const fold = new CompletionFold();
  for (const event of events) fold.next(event);
  return fold.result();
}
