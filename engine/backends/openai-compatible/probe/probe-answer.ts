import { type Event, GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { Role } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { generate } from "../generation/generation.ts";
import type { GenerationParts } from "../generation/generation-parts.ts";

/** The longest answer to a probe, in tokens: enough for brief reasoning and a short answer. */
const MAX_TOKENS = 1_024;

/** A complete answer of the engine. */
export type ProbeAnswer = {
  /** The prompt size in tokens as reported when the answer began; 0 if not reported. */
  readonly inputTokensAtStart: number;
  readonly text: string;
  readonly reasoning: string;
  /** The tool calls in order; `complete` means that the arguments are whole. */
  readonly calls: readonly { readonly name: string; readonly arguments: string; readonly complete: boolean }[];
};

/** Creates a minimal greedy request with one question; `wishes` overrides its fields. */
export function probeRequest(text: string, wishes: Partial<GenerateRequest>): GenerateRequest {
  return {
    ...GenerateRequest.fromPartial({ sampling: { temperature: 0 }, maxOutputTokens: MAX_TOKENS }),
    messages: [{ role: Role.USER, parts: [{ kind: { $case: "text", value: { text } } }] }],
    ...wishes,
  };
}

/** Resolves to the complete answer of the engine. Throws `EngineError`. */
export async function askEngine(
  parts: GenerationParts,
  request: GenerateRequest,
  signal: AbortSignal,
): Promise<ProbeAnswer> {
  const events: Event[] = [];
  for await (const step of generate(parts, request, signal)) events.push(...step.events);
  return fold(events);
}

function fold(events: readonly Event[]): ProbeAnswer {
  let inputTokensAtStart = 0;
  const texts = { text: "", reasoning: "" };
  const calls: { name: string; arguments: string; complete: boolean }[] = [];
  let open: keyof typeof texts | "call" = "text";
  for (const { kind } of events) {
    const call = calls.at(-1);
    if (kind?.$case === "started") inputTokensAtStart = kind.value.inputTokens;
    else if (kind?.$case === "blockStarted") {
      const block = kind.value.block;
      open = block?.$case === "toolCall" ? "call" : (block?.$case ?? "text");
      if (block?.$case === "toolCall") calls.push({ name: block.value.name, arguments: "", complete: false });
    } else if (kind?.$case === "blockDelta") {
      if (open !== "call") texts[open] += kind.value.text;
      else if (call) call.arguments += kind.value.text;
    } else if (kind?.$case === "blockEnded" && open === "call" && call) call.complete = kind.value.complete;
  }
  return { inputTokensAtStart, ...texts, calls };
}
