import type { Boundary } from "../../../gateway/upstream/load-balancing/boundary-hashes.ts";
import type { PieceStore } from "./piece-store.ts";
import type { Prompt } from "./prompt.ts";
import type { RecordedSession } from "./recorded-session.ts";

/** The prefix of a digest: its end and size. */
export type Digested = {
  readonly piece: number;
  readonly tokens: number;
  /** The last piece of the newest prompt that continued there, and the end of its next digest; undefined for none. */
  goesOn?: { readonly last: number; readonly nextTokens: number };
};

export class PlayedWorld {
  readonly store: PieceStore;
  /** The prefixes by digest, of all played sessions. */
  readonly digests = new Map<string, Digested>();
  readonly #shared = new Map<string, number>();

  constructor(store: PieceStore) {
    this.store = store;
  }

  /** Returns the shared piece of a name; `make` creates it for the first session. */
  shared(name: string, make: () => number): number {
    const piece = this.#shared.get(name) ?? make();
    this.#shared.set(name, piece);
    return piece;
  }
}

/** A recorded session during play, with its own pieces and digests. */
export class PlayedSession {
  readonly #recorded: RecordedSession;
  readonly #world: PlayedWorld;
  readonly #name: string;
  readonly #bytesPerToken: number;
  readonly #pieces: readonly number[];
  readonly #boundaries: (Boundary | undefined)[] = [];
  #newest: Prompt | undefined;

  /** Begins to play a session under a unique name, with text of `bytesPerToken`. */
  constructor(recorded: RecordedSession, world: PlayedWorld, name: string, bytesPerToken: number) {
    this.#recorded = recorded;
    this.#world = world;
    this.#name = name;
    this.#bytesPerToken = bytesPerToken;
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
    const { agent, tokens, outputTokens, lastPiece, lastTurn } = recorded;
    this.#newest = {
      last: this.#pieces[lastPiece] ?? -1,
      tokens,
      outputTokens,
      shape: { boundaries: recorded.boundaries.map((number) => this.#boundary(number)), lastTurn },
      affinityKey: `${this.#name}/${agent}`,
      session: this.#name,
    };
    return this.#newest;
  }

  /** Records the continuation of a prompt after its digests: nodes report how much of it they still hold. */
  #goOnWith(prompt: Prompt | undefined): void {
    const { digests } = this.#world;
    const boundaries = prompt?.shape.boundaries ?? [];
    for (const [index, { hash }] of boundaries.entries()) {
      const digested = digests.get(hash);
      const next = digests.get(boundaries[index + 1]?.hash ?? "");
      if (digested && next) digested.goesOn = { last: prompt?.last ?? -1, nextTokens: next.tokens };
    }
  }

  /** Deletes the digests of this session alone. */
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
