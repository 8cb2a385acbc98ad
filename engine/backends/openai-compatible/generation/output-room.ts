import type { GenerateRequest } from "../../../../proto/gen/svc/inference/v1/inference_service.ts";
import { EngineError } from "../../../errors.ts";
import { roomBehind } from "../../request-plan.ts";
import { toJsonBytes } from "../http/raw-json.ts";
import type { ChatRequest } from "../request/request.ts";
import { countTokens } from "./count-tokens.ts";
import type { GenerationParts } from "./generation-parts.ts";

/** The most tokens that a template may add to the text of a request; far more than any known template does. */
const TEMPLATE_TOKENS = 8_192;

/**
 * Computes the output room that a prompt leaves in the context window. Tokens are counted only if needed: no token is
 * shorter than a byte, so a request whose bytes fit needs no count.
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
    // The count is then ready when the answer begins, without a wait of its own.
    if (!parts.countsAtStart) void this.#count();
  }

  /**
   * Resolves to the field that limits the answer, if the limit must be lower than the request's: an engine that rejects
   * a limit that does not fit is sent one that does. `onCounting` is called if the engine must count the prompt first,
   * which may take long. Throws `EngineError` CONTEXT_WINDOW_EXCEEDED if the prompt does not fit.
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
   * Resolves to the prompt tokens as far as they were counted here; 0 if they were not, as the engine reports them at
   * the end.
   */
  async inputTokens(): Promise<number> {
    return (await this.#counted) ?? 0;
  }

  #countBody(): Promise<readonly Buffer[]> {
    const { turns } = this.#parts;
    const turn = () => turns.nextUnlessLeft(this.#request.tenant, this.#signal);
    this.#body ??= toJsonBytes(this.#chat.countBody, turn);
    return this.#body;
  }

  /** Counts the prompt; undefined if the engine fails to, as the generation itself will report the error. */
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
