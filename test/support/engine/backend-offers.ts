import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { projectFolder } from "../../../deploy/runtime/files/project-folder.ts";
import type { Backend } from "../../../engine/backend.ts";
import { DIALECTS } from "../../../engine/backends/openai-compatible/engines/dialects.ts";
import { EngineError } from "../../../engine/errors.ts";
import {
  type GenerateRequest,
  type GenerateResponse,
  ReasoningEffort,
  ReasoningMode,
} from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { type Tool, ToolChoiceMode } from "../../../proto/gen/svc/inference/v1/messages.ts";
import { Capability } from "../../../proto/gen/svc/inference/v1/node_service.ts";
import { answerOf } from "../events/answer-of.ts";

/** The columns of the table in engine/README.md. */
export type OfferColumn = "llama.cpp in process" | "vLLM" | "llama-server" | "SGLang";

const DIALECT_OF = { vLLM: "vllm", "llama-server": "llama-server", SGLang: "sglang" } as const;

const ROWS_OF_CAPABILITIES: Readonly<Record<string, Capability>> = {
  "tool calls": Capability.TOOLS,
  "demanded calls": Capability.FORCED_TOOL_CHOICE,
  "strict calls": Capability.STRICT_TOOLS,
  "JSON, any object": Capability.JSON_OBJECT,
  "JSON by a schema": Capability.JSON_SCHEMA,
  reasoning: Capability.REASONING,
  "budget of reasoning": Capability.REASONING_BUDGET,
  "begun answers": Capability.ASSISTANT_PREFILL,
  "log probabilities": Capability.LOGPROBS,
  "exact count of tokens": Capability.EXACT_TOKEN_COUNT,
};

const SCHEMA = '{"type":"object","properties":{"n":{"enum":[1]}},"required":["n"],"additionalProperties":false}';

/** Requests by the rows that they show; `tool` is one that any backend can call. */
function rowsOfRequests(tool: Tool): Readonly<Record<string, Partial<GenerateRequest>>> {
  const sampled = { stop: [], logitBias: {} };
  const constraint = { kind: { $case: "jsonSchema", value: { name: "n", schemaJson: SCHEMA, strict: true } } } as const;
  const must = { mode: ToolChoiceMode.REQUIRED, name: "", disableParallelCalls: true, allowedNames: [] };
  return {
    text: {},
    reasoning: { reasoning: { mode: ReasoningMode.ENABLED, effort: ReasoningEffort.UNSPECIFIED } },
    "a demanded strict call": { tools: [tool], toolChoice: must },
    "JSON by a schema": { outputConstraint: constraint },
    "frequency penalty": { sampling: { ...sampled, temperature: 0, frequencyPenalty: 0.5 } },
    "presence penalty": { sampling: { ...sampled, temperature: 0, presencePenalty: 0.5 } },
    seed: { sampling: { ...sampled, temperature: 1, seed: 1 } },
  };
}

/** Resolves to what a backend offers, `yes` or `no` by row; `asked` makes a request of fields. */
export async function offersOf(
  backend: Backend,
  column: OfferColumn,
  asked: (fields: Partial<GenerateRequest>) => GenerateRequest,
  tool: Tool,
): Promise<ReadonlyMap<string, string>> {
  const offers = new Map<string, string>();
  const add = (row: string, offered: boolean) => offers.set(row, offered ? "yes" : "no");
  const capabilities = backend.describe().models[0]?.capabilities ?? [];
  for (const [row, capability] of Object.entries(ROWS_OF_CAPABILITIES)) add(row, capabilities.includes(capability));
  const dialect = column === "llama.cpp in process" ? undefined : DIALECTS[DIALECT_OF[column]];
  add("images", dialect?.takesImages ?? false);
  const knowsCache = dialect ? dialect.kvPublishers !== undefined : capabilities.includes(Capability.PREFIX_EVENTS);
  add("exact knowledge of its cache", knowsCache);
  add("tenants apart in the prefix cache", dialect?.saltsCache ?? capabilities.includes(Capability.CACHE_ISOLATION));
  add("marks that are tokens in grammars", dialect?.grammarsNameTokens ?? false);
  for (const [what, fields] of Object.entries(rowsOfRequests(tool))) {
    const request = asked({ ...fields, maxOutputTokens: 40, resumable: true });
    const { tokens, revision } = await read(backend, request);
    // Without tokens, as those of a stand-in need not keep to a grammar; other tests go on from all cuts.
    const continuation = { modelRevision: revision, tokens: [], callIds: [] };
    const goesOn = tokens.length > 0 && (await accepts(backend, { ...request, continuation }));
    add(`goes on elsewhere: ${what}`, goesOn);
  }
  return offers;
}

async function read(backend: Backend, request: GenerateRequest) {
  const steps: GenerateResponse[] = [];
  for await (const step of backend.generate(request, new AbortController().signal)) steps.push(step);
  const { started } = answerOf(steps.flatMap(({ events }) => events));
  return { tokens: steps.flatMap((step) => step.tokens), revision: started?.modelRevision ?? "" };
}

async function accepts(backend: Backend, request: GenerateRequest): Promise<boolean> {
  try {
    await read(backend, request);
    return true;
  } catch (error) {
    if (error instanceof EngineError && error.reason === "UNSUPPORTED_FEATURE") return false;
    throw error;
  }
}

const FILE = join(projectFolder(), "engine/README.md");
const TABLE = /(<!-- offers -->\n)([\s\S]*?)(\n<!-- \/offers -->)/;

/**
 * Returns a column of the table in engine/README.md, by row. With SVC_WRITE_OFFERS the column is first written as
 * `measured`.
 */
export function documentedOffers(column: OfferColumn, measured: ReadonlyMap<string, string>): Map<string, string> {
  const readme = readFileSync(FILE, "utf8");
  const [head = [], , ...rows] = (TABLE.exec(readme)?.[2] ?? "").split("\n").map(cellsOf);
  const at = head.indexOf(column);
  if (process.env.SVC_WRITE_OFFERS) {
    const known = new Map(rows.map((row) => [row[0], row]));
    const written = [...measured].map(([row, offer]) => {
      const cells = known.get(row) ?? [row, ...head.slice(1).map(() => "")];
      return cells.map((cell, index) => (index === at ? offer : cell));
    });
    const lines = [head, head.map(() => "---"), ...written].map((cells) => `| ${cells.join(" | ")} |`);
    writeFileSync(
      FILE,
      readme.replace(TABLE, (_all, before, _old, behind) => before + lines.join("\n") + behind),
    );
    return documentedOffersOf(written, at);
  }
  return documentedOffersOf(rows, at);
}

function documentedOffersOf(rows: readonly (readonly string[])[], at: number): Map<string, string> {
  return new Map(rows.map((row) => [row[0] ?? "", row[at] ?? ""]));
}

function cellsOf(line: string): string[] {
  return line
    .split("|")
    .slice(1, -1)
    .map((cell) => cell.trim());
}
