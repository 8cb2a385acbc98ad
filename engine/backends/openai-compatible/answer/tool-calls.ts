import { JsonScanner } from "../../../tool-calls/readers/json-scanner.ts";
import type { AnswerBlocks } from "./answer-blocks.ts";
import type { CallFragment } from "./chunk.ts";

/** The rules of which calls an answer may hold. */
export type ToolCallsOptions = {
  /** The names that the answer may call; the call of any other comes out as text. */
  readonly callable: ReadonlySet<string>;
  /** The number of calls beyond which others are left out. */
  readonly maxCalls: number;
  /** Returns an id for a call that the engine gave none, or one that is taken. */
  readonly newCallId: (toolName: string) => string;
};

type Call = {
  id: string;
  name: string;
  /** The text of the arguments that has not been written yet. */
  waiting: string;
  /** How far the call is; `named` where it is its turn and nothing of its arguments has come. */
  state: "waiting" | "named" | "open" | "as-text" | "ended";
  readonly scanner: JsonScanner;
  malformed: boolean;
};

const NO_ARGUMENTS = "{}";

/**
 * Puts the fragments of tool calls together, one call after the other. Id and name count once; fragments of a later
 * call wait until the one before is whole. Arguments go out only as far as they can become a JSON object; a call that
 * has not even the beginning of one comes out as text.
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

  /** The number of calls whose arguments are a whole JSON object. */
  get wholeCalls(): number {
    return this.#whole;
  }

  /** Takes the next fragment of a call. */
  push(fragment: CallFragment): void {
    const call = this.#calls.get(fragment.index) ?? this.#newCall(fragment.index);
    // What follows a call that was closed on the way to other output cannot be added to it any more.
    if (call.state === "ended") return;
    call.id ||= fragment.id;
    call.name ||= fragment.name;
    call.waiting += fragment.arguments;
    this.#advance();
  }

  /** Ends these calls, as other output follows or none. `cut` says that the model was stopped in the middle. */
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
    // White space alone begins no arguments: a call without any is written as `{}` at its end.
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
