import type { LRUCache } from "lru-cache";
import { EngineError } from "../../../errors.ts";
import type { GrammarReader } from "../../../gbnf/gbnf.ts";
import type { OutputMarkers } from "../../../output-parser/markers.ts";
import type { GrammarCache } from "../../grammar-cache.ts";
import type { LoopSlices } from "../../loop-slices.ts";
import type { Ask, ReadPage } from "../engines/engine-dialect.ts";
import type { HandOvers } from "../hand-over/hand-overs.ts";
import type { EngineHttp } from "../http/engine-http.ts";
import { faultOfReply, toEngineFault } from "../http/http-error.ts";
import { parseFields } from "../http/json-fields.ts";
import { type JsonValue, toJsonBytes } from "../http/raw-json.ts";
import { readTokens } from "../http/token-list.ts";
import type { EngineCache } from "../kv-events/engine-cache.ts";
import { spellingsOf } from "../marks/model-marks.ts";
import type { OwnPrompts } from "../prompt/own-prompts.ts";
import type { EngineSlots } from "../request/engine-slots.ts";
import type { RequestSettings } from "../request/request.ts";
import type { EngineFacts } from "../watch/engine-facts.ts";
import type { EngineWatch } from "../watch/engine-watch.ts";
import type { LastTurns } from "../watch/last-turns.ts";
import type { PromptLedger } from "../watch/prompt-ledger.ts";

const PAGE_TIMEOUT_MS = 10_000;

export type GenerationParts = {
  readonly nodeId: string;
  readonly http: EngineHttp;
  readonly watch: EngineWatch;
  readonly settings: RequestSettings;
  readonly facts: EngineFacts;
  readonly revision: string;
  /** The part of the digests of prompts that is the model's. */
  readonly basis: string;
  readonly markup: ModelMarkup;
  readonly grammars: GrammarCache<string>;
  /** Whether the engine takes the grammar of calls that no schema demands: free text up to a mark. */
  readonly holdsForms: boolean;
  /** The texts of the ends of prompts, by their tokens. */
  readonly tails: LRUCache<string, string>;
  /** Schedules the writing of large requests on the event loop. */
  readonly slices: LoopSlices;
  readonly silenceMs: number;
  /** The longest time for rendering a prompt, in milliseconds. */
  readonly countTimeoutMs: number;
  readonly onFault: (thrown: unknown) => void;
  /** Tracks the engine's prefix cache; undefined without KV events. */
  readonly cache: EngineCache | undefined;
  /** Renders prompts in the node; undefined where the engine renders all. */
  readonly own: OwnPrompts | undefined;
  /** Chooses the engine's slots; undefined for an engine without. */
  readonly slots: EngineSlots | undefined;
  /** The prompts that go to and come from other nodes; undefined where the engine gives none. */
  readonly handOvers: HandOvers | undefined;
  readonly ledger: PromptLedger;
  readonly lastTurns: LastTurns;
  readonly nowMs: () => number;
};

export type ModelMarkup = {
  readonly markers: OutputMarkers;
  /** The tokens that close reasoning; empty for a family that does not reason. */
  readonly reasoningEnd: readonly number[];
  /** The tokens of the mark at the end of reasoning alone; empty for a family that does not reason. */
  readonly reasoningMark: readonly number[];
  readonly spellings: readonly string[];
  /** The engine's reader of grammars, with the marks that are one token each. */
  readonly reader: GrammarReader;
};

/** Returns what reads pages of the engine. */
export function reading(http: EngineHttp, signal: AbortSignal): ReadPage {
  return async (path) => {
    const { status, text } = await http.fetch({ path, timeoutMs: PAGE_TIMEOUT_MS }, signal);
    return (status === 200 && parseFields(text)) || {};
  };
}

/** Reads the tokens of a family's marks from the engine. Throws `EngineError`. */
export async function readMarkup(
  ask: Ask,
  { dialect, servedModel, profile }: Pick<RequestSettings, "dialect" | "servedModel" | "profile">,
): Promise<ModelMarkup> {
  const { reasoning, toolCall, text } = profile;
  const markers: OutputMarkers = { reasoning, toolCall, text };
  const ids = await Promise.all(
    markTokens(markers).map(async (mark) => ({ mark, tokens: await dialect.tokenize(ask, servedModel, mark) })),
  );
  const closing = reasoning ? reasoning.beforeClose + reasoning.close + reasoning.afterClose : "";
  return {
    markers,
    reasoningMark: reasoning ? [...(await dialect.tokenize(ask, servedModel, reasoning.close))] : [],
    reasoningEnd: closing === "" ? [] : [...(await dialect.tokenize(ask, servedModel, closing))],
    spellings: spellingsOf(markers),
    reader: {
      name: dialect.grammarReader,
      ...(dialect.grammarsNameTokens && {
        tokens: Object.fromEntries(
          ids.flatMap(({ mark, tokens: [token, more] }) =>
            token !== undefined && more === undefined ? [[mark, token]] : [],
          ),
        ),
      }),
    },
  };
}

/** Returns the spellings in the markup that may be tokens, without those that end an answer: no grammar demands these. */
function markTokens({ reasoning, toolCall, text }: OutputMarkers): readonly string[] {
  const around = [reasoning?.open, reasoning?.close, text?.start, text?.open, text?.close];
  const texts = [...around, ...Object.values(toolCall ?? {}).flat()].filter((mark) => typeof mark === "string");
  return [...new Set(texts.flatMap((mark) => mark.match(/<[^<>]+>|\[[^[\]]+\]/g) ?? []))];
}

/** Returns a function that posts JSON for one request; large bodies are written in slices, each awaiting `nextSlice`. */
export function asking(
  http: EngineHttp,
  timeoutMs: number,
  signal: AbortSignal,
  nextSlice: () => Promise<void> = async () => {},
): Ask {
  const reply = async (path: string, body: JsonValue) => {
    const found = await http.fetch({ path, body: await toJsonBytes(body, nextSlice), timeoutMs }, signal);
    if (found.status !== 200) throw toEngineFault(faultOfReply(found.status, found.text));
    return found;
  };
  const ask = async (path: string, body: JsonValue) => {
    const fields = parseFields((await reply(path, body)).text);
    if (!fields) throw new EngineError("PROTOCOL_VIOLATION", "The engine's reply is not JSON.");
    return fields;
  };
  const tokens = async (path: string, body: JsonValue, name: string) =>
    readTokens((await reply(path, body)).bytes, name, nextSlice);
  return Object.assign(ask, { tokens });
}
