import { connect, type Socket } from "node:net";
import { MARK, nowUs, STAMP_LENGTH, stampedUs } from "./processes/requests.ts";

type Target = { readonly name: string; readonly port: number };

const HEAD_OK = "HTTP/1.1 200";
/** Milliseconds, in all and per stream: a slower target could not run all of them, even on a busy machine. */
const OPEN_MS = 30_000;
const OPEN_EACH_MS = 100;
/** Streams that open at the same time: one after another, each waits for the turns of a busy machine. */
const OPENERS = 64;

/** Opens many streams to one target, each over its own socket, and reads them without delay. */
export class LoadClient {
  readonly #sockets: Socket[] = [];
  #open = 0;
  #events = 0;
  #delaysMs: number[] = [];
  #gapsMs: number[] = [];

  private constructor() {}

  /** Opens the streams; resolves when each has had an event. Rejects if one is refused, or at the time limit. */
  static async open(target: Target, requests: readonly string[]): Promise<LoadClient> {
    const client = new LoadClient();
    const waiting = requests.values();
    const openNext = async () => {
      for (const request of waiting) await client.#stream(target, request);
    };
    const late = setTimeout(
      () => client.close(new Error(`${target.name} opened ${client.#open} of ${requests.length} streams in time`)),
      OPEN_MS + OPEN_EACH_MS * requests.length,
    );
    try {
      await Promise.all(Array.from({ length: OPENERS }, openNext));
      return client;
    } catch (error) {
      client.close();
      throw error;
    } finally {
      clearTimeout(late);
    }
  }

  start(): void {
    this.#events = 0;
    this.#delaysMs = [];
    this.#gapsMs = [];
  }

  /** Returns the events since `start`, their delays from the engine's write, and the gaps between reads of a stream. */
  read() {
    return { events: this.#events, delaysMs: this.#delaysMs, gapsMs: this.#gapsMs };
  }

  close(error?: Error): void {
    for (const socket of this.#sockets) socket.destroy(error);
  }

  #stream({ name, port }: Target, request: string): Promise<void> {
    const socket = connect({ port, host: "127.0.0.1", noDelay: true });
    this.#sockets.push(socket);
    return new Promise((resolve, reject) => {
      let hasReply = false;
      let rest = "";
      let lastUs = 0;
      socket.once("connect", () => socket.write(request));
      socket.on("data", (bytes) => {
        const head = bytes.toString("latin1", 0, HEAD_OK.length);
        if (!hasReply && head !== HEAD_OK) reject(new Error(`${name} answered "${head}"`));
        hasReply = true;
        const before = this.#events;
        rest = this.#take(rest + bytes.toString("latin1"));
        if (this.#events === before) return;
        if (lastUs === 0) this.#open += 1;
        resolve();
        const readUs = nowUs();
        if (lastUs > 0) this.#gapsMs.push((readUs - lastUs) / 1000);
        lastUs = readUs;
      });
      socket.once("error", reject);
      socket.once("close", () => reject(new Error(`${name} closed a stream`)));
    });
  }

  #take(text: string): string {
    const readUs = nowUs();
    let at = text.indexOf(MARK);
    for (let end = 0; at !== -1; at = text.indexOf(MARK, end)) {
      if (at + STAMP_LENGTH > text.length) break;
      end = at + STAMP_LENGTH;
      this.#events += 1;
      const writtenUs = stampedUs(text, at);
      if (writtenUs !== undefined) this.#delaysMs.push((readUs - writtenUs) / 1000);
    }
    return at === -1 ? "" : text.slice(at);
  }
}
