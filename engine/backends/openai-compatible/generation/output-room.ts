import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import { roomBehind } from "../../request-plan/output-limit.ts";
import { toJsonBytes } from "../http/raw-json.ts";
import type { ChatRequest } from "../request/request.ts";
import { countTokens } from "./count-tokens.ts";
import type { GenerationParts } from "./generation-parts.ts";

/** The most that a template may add to the text of a request, in tokens; far more than any known one does. */
const TEMPLATE_TOKENS = 8_192;

/**
 * Finds out how much of the window a prompt leaves. Tokens are counted only where it matters: no token is shorter than
 * a byte, so a request whose bytes fit needs no count.
 */
export class OutputRoom {
  readonly #parts: GenerationParts;
  readonly #chat: ChatRequest;
  readonly #request: GenerateRequest;
  readonly #signal: AbortSignal;
  #body: Promise<readonly Buffer[]> | undefined;
  #counted: Promise<number | undefined> | undefined;

  constructor(parts: GenerationParts, chat: ChatRequest, request: GenerateRequest, signal: AbortSignal) {
    this.#parts = parts;
    this.#chat = chat;
    this.#request = request;
    this.#signal = signal;
    // Then the number is there when the answer begins, without a wait of its own.
    if (!parts.countsAtStart) void this.#count();
  }

  /**
   * Resolves to the field that bounds the answer, where it has to be less than what was asked for: an engine that
   * refuses what does not fit is asked for what fits. `onCounting` is called where the engine has to count the prompt
   * first, which may take it long. Throws `EngineError` CONTEXT_WINDOW_EXCEEDED when not even the prompt fits.
   */
  async limit(onCounting: () => void): Promise<Readonly<Record<string, number>>> {
    const { dialect } = this.#parts.settings;
    const { contextWindow } = this.#parts.facts;
    const asked = this.#request.maxOutputTokens;
    const field = dialect.fields.maxOutputTokens;
    if (!dialect.refusesLongOutput || contextWindow === 0 || asked === undefined || field === undefined) return {};
    const bytes = (await this.#countBody()).reduce((sum, piece) => sum + piece.length, 0);
    const most = bytes + TEMPLATE_TOKENS;
    if (most + asked <= contextWindow) return {};
    onCounting();
    const inputTokens = await this.#count();
    if (inputTokens === undefined) return {};
    return { [field]: Math.min(asked, roomBehind(inputTokens, contextWindow)) };
  }

  /**
   * Resolves to the tokens of the prompt as far as they were counted here; 0 if they were not, as the engine tells them
   * at the end.
   */
  async inputTokens(): Promise<number> {
    return (await this.#counted) ?? 0;
  }

  /** Writes the body of the count, once. */
  #countBody(): Promise<readonly Buffer[]> {
    const { turns } = this.#parts;
    const turn = () => turns.nextUnlessLeft(this.#request.tenant, this.#signal);
    this.#body ??= toJsonBytes(this.#chat.countBody, turn);
    return this.#body;
  }

  /** Counts the prompt; undefined when the engine does not count it, as the request itself will tell what is wrong. */
  #count(): Promise<number | undefined> {
    const { http, settings, countTimeoutMs } = this.#parts;
    this.#counted ??= this.#countBody()
      .then((body) => countTokens(http, settings.dialect, body, countTimeoutMs, this.#signal))
      .catch((error: unknown) => {
        if (error instanceof EngineError && error.reason === "CONTEXT_WINDOW_EXCEEDED") throw error;
        return undefined;
      });
    this.#counted.catch(() => {});
    return this.#counted;
  }
}
