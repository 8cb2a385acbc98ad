import { JsonScanner } from "../../../tool-calls/json-scanner.ts";
import type { AnswerBlocks } from "./answer-blocks.ts";
import type { CallFragment } from "./chunk.ts";

/** The calls that an answer may contain. */
export type ToolCallsOptions = {
  /** The names that the answer may call; other calls are returned as text. */
  readonly callable: ReadonlySet<string>;
  /** The number of calls after which further ones are dropped. */
  readonly maxCalls: number;
  /** Returns an id for a call without one, or with one that is already used. */
  readonly newCallId: (toolName: string) => string;
};

type Call = {
  id: string;
  name: string;
  waiting: string;
  /** The state of the call; `named` means that it is current and no arguments have arrived. */
  state: "waiting" | "named" | "open" | "as-text" | "ended";
  readonly scanner: JsonScanner;
  malformed: boolean;
};

const NO_ARGUMENTS = "{}";

/**
 * Assembles the fragments of tool calls, one call after the other. Only the first id and name count; fragments of a
 * later call wait until the previous one is complete. Arguments are sent only as far as they can become a JSON object;
 * a call without even the beginning of one is returned as text.
 */
export class ToolCalls {
  readonly #options: ToolCallsOptions;
  readonly #blocks: AnswerBlocks;
  readonly #calls = new Map<number, Call>();
  readonly #usedIds = new Set<string>();
  #current: Call | undefined;
  #started = 0;
  #whole = 0;

  constructor(options: ToolCallsOptions, blocks: AnswerBlocks) {
    this.#options = options;
    this.#blocks = blocks;
  }

  /** The number of calls whose arguments are a complete JSON object. */
  get wholeCalls(): number {
    return this.#whole;
  }

  push(fragment: CallFragment): void {
    const call = this.#calls.get(fragment.index) ?? this.#newCall(fragment.index);
    // A call that was closed before other output accepts no further fragments.
    if (call.state === "ended") return;
    call.id ||= fragment.id;
    call.name ||= fragment.name;
    call.waiting += fragment.arguments;
    this.#advance();
  }

  /** Ends these calls, before other output or at the end. `cut` means that the model was stopped midway. */
  end(reason: "stop" | "cut"): void {
    for (const call of this.#calls.values()) {
      if (call.state === "ended") continue;
      if (this.#current !== call) this.#open(call);
      this.#finish(call, reason);
    }
  }

  #newCall(index: number): Call {
    const scanner = new JsonScanner({ root: "object" });
    const call: Call = { id: "", name: "", waiting: "", state: "waiting", scanner, malformed: false };
    this.#calls.set(index, call);
    return call;
  }

  #advance(): void {
    for (const call of this.#calls.values()) {
      if (call.state === "ended") continue;
      if (this.#current !== call) {
        if (this.#current && !this.#current.scanner.isWhole) return;
        if (call.name === "") return;
        if (this.#current) this.#finish(this.#current, "stop");
        this.#open(call);
      }
      this.#write(call);
    }
  }

  #open(call: Call): void {
    if (call.name === "" || this.#started >= this.#options.maxCalls) {
      call.state = "ended";
      this.#current = undefined;
      return;
    }
    this.#current = call;
    call.state = "named";
    if (!this.#options.callable.has(call.name)) this.#startText(call);
  }

  #startText(call: Call): void {
    call.state = "as-text";
    this.#blocks.text(`{"name": ${JSON.stringify(call.name)}, "arguments": `, []);
  }

  #startCall(call: Call): void {
    this.#started += 1;
    const id = call.id === "" || this.#usedIds.has(call.id) ? this.#options.newCallId(call.name) : call.id;
    this.#usedIds.add(id);
    call.state = "open";
    this.#blocks.startCall(id, call.name);
  }

  #write(call: Call): void {
    const text = call.waiting;
    // White space alone does not begin arguments: a call without any is written as `{}` at its end.
    if (call.state === "ended" || (call.state === "named" && text.trim() === "")) return;
    call.waiting = "";
    if (call.state === "named") {
      if (text.trimStart().startsWith("{")) this.#startCall(call);
      else this.#startText(call);
    }
    if (call.malformed && call.state === "open") return;
    const { consumed, state } = call.scanner.push(text);
    if (call.state === "as-text") {
      this.#blocks.text(text, []);
      return;
    }
    this.#blocks.appendArguments(text.slice(0, consumed));
    if (state === "invalid" || text.slice(consumed).trim() !== "") call.malformed = true;
  }

  #finish(call: Call, reason: "stop" | "cut"): void {
    if (call.state === "named" && call.waiting.trim() === "" && reason === "stop") call.waiting = NO_ARGUMENTS;
    this.#write(call);
    if (call.state === "as-text") this.#blocks.text("}", []);
    if (call.state === "open") {
      const complete = !call.malformed && call.scanner.isWhole;
      if (complete) this.#whole += 1;
      this.#blocks.endCall(complete);
    }
    call.state = "ended";
    if (this.#current === call) this.#current = undefined;
  }
}
