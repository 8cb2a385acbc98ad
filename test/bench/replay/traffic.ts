import type { Boundary, PromptShape } from "../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import { seededRandom } from "../../support/seeded-random.ts";
import type { RecordedArrivals } from "./arrival-trace.ts";
import type { EventQueue } from "./event-queue.ts";
import type { CachedPrompt, NextUse, PieceStore } from "./piece-cache.ts";
import type { RecordedSession } from "./session-trace.ts";

export type Prompt = CachedPrompt & {
  readonly tokens: number;
  readonly outputTokens: number;
  readonly shape: PromptShape;
  readonly session: string;
};

export type Digested = {
  readonly piece: number;
  readonly tokens: number;
  /** The last piece of the newest prompt that continued there, and the end of its next digest; undefined for none. */
  goesOn?: { readonly last: number; readonly nextTokens: number };
};

export class PlayedWorld {
  readonly store: PieceStore;
  readonly digests = new Map<string, Digested>();
  readonly #shared = new Map<string, number>();

  constructor(store: PieceStore) {
    this.store = store;
  }

  shared(name: string, make: () => number): number {
    const piece = this.#shared.get(name) ?? make();
    this.#shared.set(name, piece);
    return piece;
  }
}

/** Returns the time between the answer of a turn, which is now, and a later turn, in milliseconds. */
type WaitOf = (turn: number, later: number) => number;

/** When a head that sessions share is used again, in milliseconds, where no later turn of the session uses it. */
const HEAD_RETURNS_MS = 600_000;

export class PlayedSession {
  readonly #recorded: RecordedSession;
  readonly #world: PlayedWorld;
  readonly #name: string;
  readonly #bytesPerToken: number;
  readonly #waitOf: WaitOf;
  readonly #lastTurns = new Map<number, number>();
  readonly #pieces: readonly number[];
  readonly #boundaries: (Boundary | undefined)[] = [];
  #newest: Prompt | undefined;

  constructor(recorded: RecordedSession, world: PlayedWorld, name: string, bytesPerToken: number, waitOf: WaitOf) {
    this.#recorded = recorded;
    this.#world = world;
    this.#name = name;
    this.#bytesPerToken = bytesPerToken;
    this.#waitOf = waitOf;
    for (const [turn, { agent }] of recorded.turns.entries()) this.#lastTurns.set(agent, turn);
    const pieces: number[] = [];
    for (const { parent, tokens, sharedAs } of recorded.pieces) {
      const make = () => world.store.add(pieces[parent] ?? -1, tokens);
      pieces.push(sharedAs === undefined ? make() : world.shared(sharedAs, make));
    }
    this.#pieces = pieces;
  }

  /** Returns the request of a turn; undefined after the last one. */
  prompt(turn: number): Prompt | undefined {
    const recorded = this.#recorded.turns[turn];
    if (!recorded) return undefined;
    this.#goOnWith(this.#newest);
    const { agent, tokens, outputTokens, callsTools, lastPiece, lastTurn } = recorded;
    this.#newest = {
      last: this.#pieces[lastPiece] ?? -1,
      tokens,
      outputTokens,
      shape: { boundaries: recorded.boundaries.map((number) => this.#boundary(number)), lastTurn },
      affinityKey: `${this.#name}/${agent}`,
      session: this.#name,
      callsTools,
      endsConversation: this.#lastTurns.get(agent) === turn,
      nextUses: () => this.#nextUses(turn, lastPiece),
    };
    return this.#newest;
  }

  #nextUses(turn: number, lastPiece: number): readonly NextUse[] {
    const { pieces } = this.#recorded;
    const uses = usesOf(this.#recorded);
    const found: NextUse[] = [];
    for (let piece = lastPiece; piece >= 0; piece = pieces[piece]?.parent ?? -1) {
      const later = uses[piece]?.find((other) => other > turn);
      const never = pieces[piece]?.sharedAs === undefined ? Number.POSITIVE_INFINITY : HEAD_RETURNS_MS;
      const afterMs = later === undefined ? never : this.#waitOf(turn, later);
      // What a prompt uses, it uses up to some piece.
      if (found.at(-1)?.afterMs !== afterMs) found.push({ last: this.#pieces[piece] ?? -1, afterMs });
    }
    return found.reverse();
  }

  #goOnWith(prompt: Prompt | undefined): void {
    const { digests } = this.#world;
    const boundaries = prompt?.shape.boundaries ?? [];
    for (const [index, { hash }] of boundaries.entries()) {
      const digested = digests.get(hash);
      const next = digests.get(boundaries[index + 1]?.hash ?? "");
      if (digested && next) digested.goesOn = { last: prompt?.last ?? -1, nextTokens: next.tokens };
    }
  }

  end(): void {
    for (const boundary of this.#boundaries)
      if (boundary?.hash.startsWith(this.#name)) this.#world.digests.delete(boundary.hash);
  }

  #boundary(number: number): Boundary {
    const known = this.#boundaries[number];
    if (known) return known;
    const { tokens = 0, piece = -1, sharedAs } = this.#recorded.boundaries[number] ?? {};
    const hash = sharedAs ?? `${this.#name}:${number}`;
    this.#world.digests.set(hash, { piece: this.#pieces[piece] ?? -1, tokens });
    const boundary = { hash, bytes: Math.round(tokens * this.#bytesPerToken), marked: false };
    this.#boundaries[number] = boundary;
    return boundary;
  }
}

const USES = new WeakMap<RecordedSession, readonly (readonly number[])[]>();

/** Returns the turns that use each piece, in order. */
function usesOf(recorded: RecordedSession): readonly (readonly number[])[] {
  const known = USES.get(recorded);
  if (known) return known;
  const uses = recorded.pieces.map((): number[] => []);
  for (const [turn, { lastPiece }] of recorded.turns.entries())
    for (let piece = lastPiece; piece >= 0; piece = recorded.pieces[piece]?.parent ?? -1) uses[piece]?.push(turn);
  USES.set(recorded, uses);
  return uses;
}

/** The time within which all sessions begin, in milliseconds. */
const JOIN_MS = 120_000;
/** The pause between two sessions of a user, in milliseconds: its minimum and random spread. */
const BETWEEN_MS = { least: 1_000, spread: 20_000 };
const BYTES_PER_TOKEN = { least: 3.2, spread: 1.6 };
/** The assumed time of a turn between two others: until its first token, and for each token, in milliseconds. */
const TURN_MS = { first: 1_000, perToken: 10 };
const MOST_SEED = 1_000_003;

type Played = {
  readonly world: PlayedWorld;
  readonly time: EventQueue;
  readonly seed: number;
  readonly send: (prompt: Prompt, onAnswered: () => void) => void;
  /** Called after the last answer of a session. */
  readonly onEnded: (session: string) => void;
};

/**
 * Plays `users` with one session after another each. A user joins a random recorded session in its middle, waits for
 * each answer and the recorded pause; later sessions are played whole. Users and sessions are the same for every
 * `send`.
 */
export function playUsers(
  sessions: readonly RecordedSession[],
  users: number,
  { world, time, seed, send, onEnded }: Played,
): void {
  for (let user = 0; user < users; user += 1) {
    const random = seededRandom(seed * MOST_SEED + user);
    let played = 0;
    const begin = (joins: boolean) => {
      const recorded = sessions[Math.floor(random() * sessions.length)];
      if (!recorded) return;
      played += 1;
      const bytesPerToken = BYTES_PER_TOKEN.least + random() * BYTES_PER_TOKEN.spread;
      const name = `u${user}.${played}`;
      const session = new PlayedSession(recorded, world, name, bytesPerToken, (turn, later) => {
        const between = recorded.turns.slice(turn + 1, later);
        const answersMs = between.map(({ outputTokens }) => TURN_MS.first + TURN_MS.perToken * outputTokens);
        const pausesMs = recorded.turns.slice(turn + 1, later + 1).map(({ pauseMs }) => pauseMs);
        return [...answersMs, ...pausesMs].reduce((sum, ms) => sum + ms, 0);
      });
      const turn = (index: number) => {
        const prompt = session.prompt(index);
        if (!prompt) {
          session.end();
          onEnded(name);
          time.after(BETWEEN_MS.least + random() * BETWEEN_MS.spread, () => begin(false));
          return;
        }
        send(prompt, () => time.after(recorded.turns[index + 1]?.pauseMs ?? 0, () => turn(index + 1)));
      };
      turn(joins ? Math.floor(random() * recorded.turns.length) : 0);
    };
    time.after(random() * JOIN_MS, () => begin(true));
  }
}

/** Plays requests at their recorded times, independent of earlier answers. */
export function playArrivals({ requests, arrivalsMs }: RecordedArrivals, { world, time, seed, send }: Played): void {
  const bytesPerToken = BYTES_PER_TOKEN.least + BYTES_PER_TOKEN.spread / 2;
  const waitOf: WaitOf = (_, later) => (arrivalsMs[later] ?? 0) - time.nowMs();
  const session = new PlayedSession(requests, world, `r${seed}`, bytesPerToken, waitOf);
  for (const [turn, atMs] of arrivalsMs.entries())
    time.after(atMs, () => {
      const prompt = session.prompt(turn);
      if (prompt) send(prompt, () => {});
    });
}
