/** A turn of a recorded session. */
export type RecordedTurn = {
  /** The agent of the session whose turn it is: 0 is the session's own, the others are its sub-agents. */
  readonly agent: number;
  /** The pause before the turn, after the answer to the one before it, in milliseconds. */
  readonly pauseMs: number;
  /** The tokens of the prompt. */
  readonly tokens: number;
  /** The tokens of the answer. */
  readonly outputTokens: number;
  /** The last piece of the prompt, by its number in the session; -1 where the prompt is shorter than a block. */
  readonly lastPiece: number;
  /** The boundaries of the prompt by their numbers in the session, the shortest prefix first. */
  readonly boundaries: readonly number[];
  /** The index of the boundary that the last turn of the conversation ended at; undefined for a first one. */
  readonly lastTurn: number | undefined;
};

/** A piece of the prompts of a session. */
export type RecordedPiece = {
  /** The piece before it, by its number in the session; -1 for none. */
  readonly parent: number;
  readonly tokens: number;
  /** The name of the piece where other sessions have the same one; undefined where it is the session's own. */
  readonly sharedAs: string | undefined;
};

/** A place in the prompts of a session at which a gateway takes a digest. */
export type RecordedBoundary = {
  readonly tokens: number;
  /** The last piece before the boundary, by its number in the session; -1 for none. */
  readonly piece: number;
  /** The name of the boundary where other sessions have the same one; undefined where it is the session's own. */
  readonly sharedAs: string | undefined;
};

/** A recorded session: what its turns asked for, in pieces and boundaries that it shares with itself and with others. */
export type RecordedSession = {
  readonly turns: readonly RecordedTurn[];
  readonly pieces: readonly RecordedPiece[];
  readonly boundaries: readonly RecordedBoundary[];
};
