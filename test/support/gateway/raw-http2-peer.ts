import { once } from "node:events";
import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { Flag, FrameCutter, FrameType, frameHead, PREFACE } from "../../../gateway/upstream/wire/http2/frames.ts";
import { HeaderReader, type Headers, headerBlock } from "../../../gateway/upstream/wire/http2/hpack.ts";
import { until } from "../until.ts";

export type CameFrame = {
  readonly type: number;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
};

export function frame(type: number, flags: number, streamId: number, payload: Uint8Array = Buffer.alloc(0)): Buffer {
  return Buffer.concat([frameHead(payload.length, type, flags, streamId), payload]);
}

export function uint32(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [at, value] of values.entries()) bytes.writeUInt32BE(value, at * 4);
  return bytes;
}

export function settings(...parameters: readonly (readonly [id: number, value: number])[]): Buffer {
  return Buffer.concat(parameters.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), uint32(value)])));
}

export function headersFrame(streamId: number, fields: Headers, flags: number = Flag.END_HEADERS): Buffer {
  return frame(FrameType.HEADERS, flags, streamId, headerBlock(Object.entries(fields)));
}

/** The peer of one HTTP/2 connection, which sends arbitrary frames and records received ones. */
export class RawHttp2Peer {
  readonly frames: CameFrame[] = [];
  readonly #server: Server;
  #socket: Socket | undefined;
  #preface = Buffer.alloc(0);

  private constructor() {
    const cutter = new FrameCutter(16_384, (type, flags, streamId, bytes, from, to) => {
      this.frames.push({ type, flags, streamId, payload: Buffer.from(bytes.subarray(from, to)) });
      return true;
    });
    this.#server = createServer((socket) => {
      this.#socket = socket;
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("data", (bytes) => {
        const missing = PREFACE.length - this.#preface.length;
        this.#preface = Buffer.concat([this.#preface, bytes.subarray(0, missing)]);
        cutter.take(bytes.subarray(missing));
      });
    });
  }

  static async start(): Promise<RawHttp2Peer> {
    const peer = new RawHttp2Peer();
    peer.#server.listen(0, "127.0.0.1");
    await once(peer.#server, "listening");
    return peer;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get greeted(): boolean {
    return this.#preface.equals(PREFACE);
  }

  send(...pieces: readonly Uint8Array[]): void {
    if (!this.#socket) throw new Error("no client has connected");
    this.#socket.write(Buffer.concat(pieces));
  }

  async trickle(bytes: Buffer): Promise<void> {
    for (let at = 0; at < bytes.length; at += 1) {
      this.send(bytes.subarray(at, at + 1));
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  of(type: number, streamId?: number): CameFrame[] {
    return this.frames.filter(
      (found) => found.type === type && (streamId === undefined || found.streamId === streamId),
    );
  }

  async came(type: number, streamId?: number): Promise<CameFrame> {
    await until(() => this.of(type, streamId).length > 0, `a frame of type ${type} comes`);
    return this.of(type, streamId)[0] as CameFrame; // it exists
  }

  bodyBytes(streamId: number): number {
    return this.of(FrameType.DATA, streamId).reduce((sum, { payload }) => sum + payload.length, 0);
  }

  /** Resolves to the headers of a stream, once they have arrived. The peer reads those of one stream only. */
  async headersOf(streamId: number): Promise<Headers | undefined> {
    const { payload } = await this.came(FrameType.HEADERS, streamId);
    return new HeaderReader(64 * 1024).read(payload, 0, payload.length);
  }

  /** Resolves when all frames sent so far have arrived: the client answers a PING sent after them. */
  async settled(): Promise<void> {
    const before = this.of(FrameType.PING).length;
    this.send(frame(FrameType.PING, 0, 0, Buffer.alloc(8, 7)));
    await until(() => this.of(FrameType.PING).length > before, "the ping is answered");
  }

  close(): void {
    this.#socket?.destroy();
    this.#server.close();
  }
}
