import { type BlockRuns, blockAt, commonBlocks, type HeadCuts, PieceCutter, type RecordedPiece } from "./pieces.ts";

export type RecordedTurn = {
  readonly agent: number;
  /** The pause between the last answer and this turn, in milliseconds. */
  readonly pauseMs: number;
  readonly tokens: number;
  readonly outputTokens: number;
  readonly lastPiece: number;
  readonly boundaries: readonly number[];
  /** Whether its answer calls tools, whose results the next turn brings; otherwise a person writes it. */
  readonly callsTools: boolean;
  /** The index of the boundary at the end of the last turn; undefined for a first turn. */
  readonly lastTurn: number | undefined;
};

export type RecordedBoundary = {
  readonly tokens: number;
  readonly piece: number;
  /** The name of a boundary shared with other sessions; undefined if it is not shared. */
  readonly sharedAs: string | undefined;
};

export type RecordedSession = {
  readonly turns: readonly RecordedTurn[];
  readonly pieces: readonly RecordedPiece[];
  readonly boundaries: readonly RecordedBoundary[];
};

const BLOCK_TOKENS = 64;
const LOOK_BACK = 60;
const ARTEFACT_TOKENS = 128;
/** The assumed maximum tokens of the first message. */
const FIRST_MESSAGE_TOKENS = 1_500;
/** The maximum pause that is played, in milliseconds. */
const MAX_PAUSE_MS = 300_000;

type RawTurn = {
  readonly type?: undefined;
  readonly in: number;
  readonly out: number;
  readonly think_time?: number | null;
  readonly stop: string;
  readonly ids: readonly (number | readonly [number, number])[];
};

type RawAgent = {
  readonly type: "subagent";
  readonly duration_ms: number;
  readonly tool_tokens: number;
  readonly system_tokens: number;
  readonly requests: readonly RawTurn[];
};

type RawSession = {
  readonly tool_tokens: number;
  readonly system_tokens: number;
  readonly requests: readonly (RawTurn | RawAgent)[];
};

type Head = { readonly name: string; readonly tokens: number };

type Turn = Pick<RecordedTurn, "agent" | "pauseMs" | "tokens" | "outputTokens" | "callsTools"> & {
  readonly head: Head;
  readonly runs: BlockRuns;
};

/** Parses sessions of coding agents, one JSON object per line. */
export function readSessions(text: string): readonly RecordedSession[] {
  const drafts = text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => new SessionDraft(JSON.parse(line)));
  const headCuts: HeadCuts = new Map();
  for (const draft of drafts) draft.cutter.shareHeadCuts(headCuts);
  return drafts.map((draft) => draft.finish(headCuts));
}

type DraftBoundary = Pick<RecordedBoundary, "tokens" | "sharedAs"> & {
  readonly runs: BlockRuns;
  readonly endsPrompt: boolean;
};

class SessionDraft {
  readonly cutter = new PieceCutter();
  readonly #turns: readonly Turn[];
  readonly #boundaries: DraftBoundary[] = [];
  readonly #boundariesOf: number[][] = [];
  readonly #lastTurns: (number | undefined)[] = [];
  readonly #answerEnds = new Map<number, number>();

  constructor(raw: RawSession) {
    this.#turns = flat(raw);
    const ofAgent = new Map<number, number[]>();
    for (const [index, turn] of this.#turns.entries()) {
      const earlier = ofAgent.get(turn.agent) ?? [];
      ofAgent.set(turn.agent, earlier);
      if (earlier.length === 0)
        this.cutter.claimHead(turn.head.name, turn.runs, Math.floor(turn.head.tokens / BLOCK_TOKENS));
      this.#addBoundaries(turn, earlier.slice(-LOOK_BACK));
      earlier.push(index);
    }
    for (const { runs } of this.#turns) this.cutter.cutRuns(runs);
    for (const { runs, tokens } of this.#boundaries)
      this.cutter.cutAt(blockAt(runs, Math.floor(tokens / BLOCK_TOKENS)));
  }

  finish(headCuts: HeadCuts): RecordedSession {
    this.cutter.addHeadCuts(headCuts);
    const turns = this.#turns.map((turn, index): RecordedTurn => {
      const { agent, pauseMs, tokens, outputTokens, callsTools } = turn;
      const lastPiece = this.cutter.lastPiece(turn.runs, BLOCK_TOKENS);
      const boundaries = this.#boundariesOf[index] ?? [];
      const lastTurn = this.#lastTurns[index];
      return { agent, pauseMs, tokens, outputTokens, callsTools, lastPiece, boundaries, lastTurn };
    });
    const boundaries = this.#boundaries.map(({ runs, tokens, sharedAs }): RecordedBoundary => {
      const piece = this.cutter.pieceEndingAt(blockAt(runs, Math.floor(tokens / BLOCK_TOKENS)));
      return { tokens, piece, sharedAs };
    });
    return { turns, pieces: this.cutter.pieces, boundaries };
  }

  #addBoundaries(turn: Turn, earlier: readonly number[]): void {
    const { before, common } = this.#lastOf(turn, earlier);
    const list = before === undefined ? [] : this.#goOn(turn, before, common);
    if (list.length === 0) {
      const { head } = turn;
      list.push(this.#add(turn, Math.min(head.tokens, turn.tokens - 1), head.name));
      if (turn.tokens > head.tokens + FIRST_MESSAGE_TOKENS)
        list.push(this.#add(turn, head.tokens + FIRST_MESSAGE_TOKENS));
    }
    const lastTurn = list.findLastIndex((boundary) => this.#boundaries[boundary]?.endsPrompt);
    this.#lastTurns.push(lastTurn < 0 ? undefined : lastTurn);
    list.push(this.#add(turn, turn.tokens, undefined, true));
    this.#boundariesOf.push(list);
  }

  #lastOf(turn: Turn, earlier: readonly number[]): { readonly before: number | undefined; readonly common: number } {
    let before: number | undefined;
    let common = 0;
    for (const index of earlier) {
      const tokens = commonBlocks(turn.runs, this.#turns[index]?.runs ?? []) * BLOCK_TOKENS;
      if (tokens >= common) [before, common] = [index, tokens];
    }
    return { before, common };
  }

  #goOn(turn: Turn, before: number, common: number): number[] {
    const { tokens, outputTokens } = this.#turns[before] ?? turn;
    const earlier = this.#boundariesOf[before] ?? [];
    if (common >= tokens - ARTEFACT_TOKENS && turn.tokens >= tokens) {
      const end = tokens + outputTokens;
      if (end >= turn.tokens) return [...earlier];
      const answerEnd = this.#answerEnds.get(before) ?? this.#add(turn, end);
      this.#answerEnds.set(before, answerEnd);
      return [...earlier, answerEnd];
    }
    return earlier.flatMap((number) => {
      const boundary = this.#boundaries[number];
      if (!boundary || boundary.tokens >= turn.tokens) return [];
      if (boundary.tokens <= common + ARTEFACT_TOKENS) return [number];
      return [this.#add(turn, boundary.tokens, undefined, boundary.endsPrompt)];
    });
  }

  #add({ runs }: Turn, tokens: number, sharedAs?: string, endsPrompt = false): number {
    this.#boundaries.push({ runs, tokens, sharedAs, endsPrompt });
    return this.#boundaries.length - 1;
  }
}

function flat(session: RawSession): readonly Turn[] {
  const turns: Turn[] = [];
  let agents = 0;
  let waitedMs = 0;
  const add = (raw: RawTurn, agent: number, head: Head) => {
    const pauseMs = Math.min(MAX_PAUSE_MS, Math.max(0, (raw.think_time ?? 0) * 1_000 - waitedMs));
    const runs = raw.ids.map((id): readonly [number, number] => (typeof id === "number" ? [id, id] : id));
    const callsTools = raw.stop === "tool_use";
    turns.push({ agent, pauseMs, tokens: raw.in, outputTokens: raw.out, callsTools, head, runs });
    waitedMs = 0;
  };
  for (const request of session.requests) {
    if (request.type === undefined) {
      add(request, 0, headOf(session));
      continue;
    }
    agents += 1;
    for (const turn of request.requests) add(turn, agents, headOf(request));
    waitedMs = request.duration_ms;
  }
  return turns;
}

function headOf({ tool_tokens, system_tokens }: RawSession | RawAgent): Head {
  return { name: `head ${tool_tokens} ${system_tokens}`, tokens: tool_tokens + system_tokens };
}
