export type RecordedTurn = {
  /** The agent of the turn: 0 is the session's own, others are sub-agents. */
  readonly agent: number;
  /** The pause between the last answer and this turn, in milliseconds. */
  readonly pauseMs: number;
  readonly tokens: number;
  readonly outputTokens: number;
  /** The index of the last piece of the prompt in the session; -1 if the prompt is shorter than a block. */
  readonly lastPiece: number;
  /** The indexes of the prompt's boundaries in the session, shortest prefix first. */
  readonly boundaries: readonly number[];
  /** The index of the boundary at the end of the last turn; undefined for a first turn. */
  readonly lastTurn: number | undefined;
};

export type RecordedPiece = {
  /** The index of the previous piece in the session; -1 for none. */
  readonly parent: number;
  readonly tokens: number;
  /** The name of a piece shared with other sessions; undefined if it is not shared. */
  readonly sharedAs: string | undefined;
};

/** A position in a session's prompts at which a gateway computes a digest. */
export type RecordedBoundary = {
  readonly tokens: number;
  /** The index of the last piece before the boundary in the session; -1 for none. */
  readonly piece: number;
  /** The name of a boundary shared with other sessions; undefined if it is not shared. */
  readonly sharedAs: string | undefined;
};

/** A recorded session: its turns, in pieces and boundaries shared within it and with other sessions. */
export type RecordedSession = {
  readonly turns: readonly RecordedTurn[];
  readonly pieces: readonly RecordedPiece[];
  readonly boundaries: readonly RecordedBoundary[];
};
