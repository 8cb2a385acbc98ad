/**
 * What a request asks the engine of the benches to play. It stands as JSON in the request's only message, so that one
 * engine process serves all benches.
 */
export type Directive = {
  /** Events in all, before the answer ends. */
  readonly events: number;
  /** The rate of this stream; 0 for as fast as events are taken. */
  readonly eventsPerSecond: number;
  /** The number of events that are written together. */
  readonly eventsPerWrite: number;
  /**
   * The number of moments of a period that streams of one rate are spread over: many are as good as random clocks, few
   * are the steps of some engines. Default: 8.
   */
  readonly phases?: number;
  /** The name under which the engine reports that the caller has left; absent where it shall not. */
  readonly id?: string;
};

/** The number of events of an answer that ends when its caller leaves. */
export const ENDLESS = Number.MAX_SAFE_INTEGER;

/** Reads the directive in the text of a message. Throws when the text is not of a bench. */
export function parseDirective(text: string): Directive {
  const { events, eventsPerSecond, eventsPerWrite, phases, id } = JSON.parse(text) as Directive;
  if (!(events >= 1 && eventsPerSecond >= 0 && eventsPerWrite >= 1)) throw new RangeError("not a directive");
  return {
    events,
    eventsPerSecond,
    eventsPerWrite,
    ...(phases !== undefined && { phases }),
    ...(id !== undefined && { id }),
  };
}
