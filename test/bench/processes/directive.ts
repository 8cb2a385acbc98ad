/**
 * The events that a request asks the bench engine for. It is JSON in the request's only message, so that one engine
 * process serves all benches.
 */
export type Directive = {
  /** Events in all before the answer ends. */
  readonly events: number;
  /** The rate of this stream; 0 for as fast as the events are read. */
  readonly eventsPerSecond: number;
  readonly eventsPerWrite: number;
  /**
   * The phases of a period over which streams of one rate are spread: many are like random clocks, few like the steps
   * of some engines. Default: 8.
   */
  readonly phases?: number;
  /** The id under which the engine reports a cancellation; absent for no report. */
  readonly id?: string;
};

/** The number of events of an answer that ends only when its caller cancels. */
export const ENDLESS = Number.MAX_SAFE_INTEGER;

/** Parses the directive in a message's text. Throws for other texts. */
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
