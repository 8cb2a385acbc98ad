import { Session } from "node:inspector/promises";
import { relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = resolve(import.meta.dirname, "../..");
/** The runs that an order is drawn from: a timer that expires in one of them calls functions of its own. */
const RUNS = 5;

/** A function by its file, from the root of the project, and its name. Functions without a name are left out. */
export type RecordedCall = { readonly file: string; readonly name: string };

type Position = { readonly lineNumber: number; readonly columnNumber: number };
type Known = RecordedCall & { readonly scriptId: string; readonly from: Position; readonly to: Position };

declare global {
  /** Called by the condition of each breakpoint, which therefore never holds. */
  var recordedCall: ((at: number) => false) | undefined;
}

/**
 * Records which functions of this process a run calls, in the order of their first calls. V8's coverage says which are
 * called; a breakpoint in each, whose condition writes down that it was reached, says when. The functions of one run do
 * not depend on time, but for those of timers: what not every run calls is left out.
 */
export class CallRecorder {
  readonly #session = new Session();
  readonly #isRecorded: (file: string) => boolean;
  /** The functions with a breakpoint. */
  readonly #known: Known[] = [];
  readonly #keys = new Set<string>();
  readonly #sources = new Map<string, readonly number[]>();
  #order: Set<number> | undefined;

  private constructor(isRecorded: (file: string) => boolean) {
    this.#isRecorded = isRecorded;
  }

  static async start(isRecorded: (file: string) => boolean): Promise<CallRecorder> {
    const recorder = new CallRecorder(isRecorded);
    recorder.#session.connect();
    await recorder.#session.post("Debugger.enable");
    await recorder.#session.post("Profiler.enable");
    await recorder.#session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
    globalThis.recordedCall = (at) => {
      recorder.#order?.add(at);
      return false;
    };
    return recorder;
  }

  /**
   * Records a run, which starts several times; `before` prepares each, unrecorded. Rejects if no order is that of a
   * majority of the runs.
   */
  async record(run: () => Promise<void>, before: () => Promise<void> = async () => {}): Promise<RecordedCall[]> {
    await before();
    await this.#session.post("Profiler.takePreciseCoverage");
    await run();
    await this.#follow();
    const orders: (readonly number[])[] = [];
    for (let at = 0; at < RUNS; at += 1) {
      await before();
      this.#order = new Set();
      await run();
      orders.push([...this.#order]);
      this.#order = undefined;
    }
    const always = orders.map((order) => order.filter((at) => orders.every((other) => other.includes(at))));
    const texts = always.map((order) => order.join());
    const agreed = always.find((_, at) => texts.filter((text) => text === texts[at]).length > RUNS / 2);
    if (agreed === undefined) throw new Error("the runs do not agree on an order");
    return agreed.flatMap((at) => this.#known[at] ?? []);
  }

  async close(): Promise<void> {
    await this.#session.post("Profiler.stopPreciseCoverage");
    await this.#session.post("Debugger.disable");
    this.#session.disconnect();
    globalThis.recordedCall = undefined;
  }

  /** Sets a breakpoint in each function that was called since coverage was last taken. */
  async #follow(): Promise<void> {
    const { result } = await this.#session.post("Profiler.takePreciseCoverage");
    for (const { scriptId, url, functions } of result) {
      const file = url.startsWith("file:") ? relative(ROOT, fileURLToPath(url)) : url;
      if (!this.#isRecorded(file)) continue;
      for (const { functionName, ranges } of functions) {
        const [range] = ranges;
        const name = plainName(functionName);
        const key = `${scriptId}:${range?.startOffset}`;
        if (!range || range.count === 0 || name === "" || this.#keys.has(key)) continue;
        this.#keys.add(key);
        const from = await this.#positionOf(scriptId, range.startOffset);
        const to = await this.#positionOf(scriptId, range.endOffset);
        await this.#setBreakpoint({ file, name, scriptId, from, to });
      }
    }
  }

  async #setBreakpoint(known: Known): Promise<void> {
    const { scriptId, from, to } = known;
    const { locations } = await this.#session.post("Debugger.getPossibleBreakpoints", {
      start: { scriptId, ...from },
      end: { scriptId, ...to },
      restrictToFunction: true,
    });
    const [location] = locations;
    // The initializers of the fields of a class have no place for one.
    if (location === undefined) return;
    const condition = `recordedCall(${this.#known.push(known) - 1})`;
    await this.#session.post("Debugger.setBreakpoint", { location, condition });
  }

  async #positionOf(scriptId: string, offset: number): Promise<Position> {
    const lines = this.#sources.get(scriptId) ?? (await this.#linesOf(scriptId));
    let lineNumber = 0;
    while ((lines[lineNumber + 1] ?? Number.POSITIVE_INFINITY) <= offset) lineNumber += 1;
    return { lineNumber, columnNumber: offset - (lines[lineNumber] ?? 0) };
  }

  /** Returns the offsets at which the lines of a script begin. */
  async #linesOf(scriptId: string): Promise<readonly number[]> {
    const { scriptSource } = await this.#session.post("Debugger.getScriptSource", { scriptId });
    const lines = [0, ...[...scriptSource.matchAll(/\n/g)].map(({ index }) => index + 1)];
    this.#sources.set(scriptId, lines);
    return lines;
  }
}

/** Returns the last word of the name that V8 gives a function (`get size`, `sink.deltas`); empty for one without a name. */
function plainName(name: string): string {
  return /(#?[\w$]+)$/.exec(name)?.[1] ?? "";
}
