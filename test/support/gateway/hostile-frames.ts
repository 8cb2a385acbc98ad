import { Flag, FrameType, frameHead, Setting } from "../../../gateway/upstream/wire/http2/frames.ts";
import { headerBlock } from "../../../gateway/upstream/wire/http2/hpack.ts";
import { framed, prefixOf } from "../../../gateway/upstream/wire/message-cutter.ts";
import type { SeededRandom } from "../seeded-random.ts";
import { frame, headersFrame, settings, uint32 } from "./raw-http2-peer.ts";

const LAST = Flag.END_STREAM | Flag.END_HEADERS;

/** Makes frames of a broken or hostile node: rules are kept as often as broken, so that calls get far, too. */
export class HostileFrames {
  readonly #random: SeededRandom;

  constructor(random: SeededRandom) {
    this.#random = random;
  }

  /** Returns the node's first SETTINGS, and its stream limit. */
  settings(): { readonly bytes: Buffer; readonly maxStreams: number } {
    const maxStreams = this.#random.pick([1, 2, 100, 100]);
    const window = this.#random.pick([0, 1, 1_000, 65_535, 0x7fff_ffff]);
    const chosen = settings([Setting.MAX_CONCURRENT_STREAMS, maxStreams], [Setting.INITIAL_WINDOW_SIZE, window]);
    return { bytes: frame(FrameType.SETTINGS, 0, 0, chosen), maxStreams };
  }

  /** Returns the bytes of 1 to 20 frames, some of them invalid; in one of four cases one byte is changed. */
  some(): Buffer {
    const bytes = Buffer.concat(
      Array.from({ length: 1 + this.#random.below(this.#random.pick([4, 20])) }, () => this.#any()),
    );
    if (this.#one(4) && bytes.length > 0) bytes[this.#random.below(bytes.length)] = this.#random.below(256);
    return bytes;
  }

  #any(): Buffer {
    const made = this.#random.pick(MAKERS)(this, this.#id());
    if (this.#one(30)) made.writeUIntBE(this.#random.pick([0, 1, 16_384, 16_385, 0xff_ffff]), 0, 3);
    if (this.#one(30)) made[4] = this.#random.below(256);
    return made;
  }

  #id(): number {
    return this.#one(15) ? this.#random.pick([0, 2, 5, 0x7fff_ffff]) : this.#random.pick([1, 3]);
  }

  #one(times: number): boolean {
    return this.#random.below(times) === 0;
  }

  #noise(most: number): Buffer {
    return Buffer.from(Array.from({ length: this.#random.below(most) }, () => this.#random.below(256)));
  }

  /** Returns a complete answer, or one without its status or its end. */
  answer(id: number): Buffer {
    const messages = Array.from({ length: this.#random.below(4) }, () => framed(this.#noise(200)));
    const pieces = this.#one(2) ? messages : [Buffer.concat(messages)];
    const status = { "grpc-status": this.#random.pick(["0", "0", "0", "14", "99", "x"]) };
    return Buffer.concat([
      headersFrame(id, { ":status": "200", "content-type": "application/grpc" }),
      ...pieces.map((piece) => frame(FrameType.DATA, 0, id, piece)),
      headersFrame(id, this.#one(8) ? {} : status, this.#one(8) ? Flag.END_HEADERS : LAST),
    ]);
  }

  /** Returns DATA: messages, parts of them, garbage or no bytes, with valid or invalid padding. */
  data(id: number): Buffer {
    const message = framed(this.#noise(1_000));
    const payload = this.#random.pick([
      () => message,
      () => message.subarray(0, this.#random.below(message.length)),
      () => Buffer.concat([message, message, message.subarray(0, 7)]),
      () => prefixOf(this.#random.pick([1, 100_000, 2_000_000, 0xffff_ffff])),
      () => this.#noise(40),
      () => Buffer.alloc(0),
      () => Buffer.alloc(16_384),
    ])();
    const end = this.#one(10) ? Flag.END_STREAM : 0;
    if (!this.#one(4)) return frame(FrameType.DATA, end, id, payload);
    const padding = this.#random.below(256);
    const zeros = Buffer.alloc(this.#one(4) ? this.#random.below(20) : padding);
    const padded = Buffer.concat([Buffer.from([padding]), payload.subarray(0, 16_000), zeros]);
    return frame(FrameType.DATA, end | Flag.PADDED, id, padded);
  }

  bytes(id: number): Buffer {
    const message = framed(this.#noise(200));
    return Buffer.concat([...message].map((byte) => frame(FrameType.DATA, 0, id, Buffer.from([byte]))));
  }

  /** Returns headers in one or several frames, possibly interrupted by other frames. */
  headers(id: number): Buffer {
    const block = this.#block();
    const flags = (this.#one(3) ? Flag.END_STREAM : 0) | (this.#one(10) ? Flag.PADDED : 0);
    if (!this.#one(3))
      return frame(FrameType.HEADERS, flags | Flag.END_HEADERS | (this.#one(10) ? Flag.PRIORITY : 0), id, block);
    const parts = this.#random.pick([1, 2, 10, 70]);
    const size = Math.ceil(block.length / parts);
    const rest = Array.from({ length: parts }, (_, at) => {
      const end = at === parts - 1 && !this.#one(5) ? Flag.END_HEADERS : 0;
      return frame(FrameType.CONTINUATION, end, id, block.subarray((at + 1) * size, (at + 2) * size));
    });
    const between = this.#one(10) ? frame(FrameType.PING, 0, 0, Buffer.alloc(8)) : Buffer.alloc(0);
    return Buffer.concat([frame(FrameType.HEADERS, flags, id, block.subarray(0, size)), between, ...rest]);
  }

  /** Returns a header block: valid, against the rules of HTTP, or of HPACK parts that may not fit. */
  #block(): Buffer {
    const text = this.#noise(60).toString("latin1");
    return this.#random.pick([
      () => headerBlock([[":status", this.#random.pick(["200", "100", "103", "404", "503", "x"])]]),
      () => headerBlock([["grpc-status", this.#random.pick(["0", "2", "17", "-1"])]]),
      () => headerBlock([["grpc-message", this.#random.pick(["%", "%zz", "%41%ff", text])]]),
      () => headerBlock([[this.#random.pick(["Name", "", text]), text]]),
      () => headerBlock([["x", "y".repeat(this.#random.below(16_000))]]),
      // A literal with a new name, a table size update, and indexed fields.
      () => Buffer.concat([Buffer.from([0x40, 1, 0x61, 5]), Buffer.from("value")]),
      () => Buffer.from([0x20 | this.#random.below(32), 0xff, 0x80 | this.#random.below(128), this.#random.below(128)]),
      () => Buffer.from([0x88, ...Array.from({ length: this.#random.below(40) }, () => 0x80 | this.#random.below(80))]),
      // A Huffman-coded text, possibly invalid.
      () => Buffer.concat([Buffer.from([0x40, 0x81, 0x1f, 0x80 | 20]), this.#noise(30)]),
      () => this.#noise(60),
    ])();
  }

  /** Returns SETTINGS with any parameters, possibly unknown, repeated or truncated. */
  anySettings(): Buffer {
    const count = this.#random.pick([0, 1, 3, 2_700]);
    const values = [0, 1, 4_096, 16_384, 65_535, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff] as const;
    const chosen = Array.from({ length: count }, () => [this.#random.below(9), this.#random.pick(values)] as const);
    const payload = settings(...chosen);
    const cut = this.#one(10) ? this.#random.below(6) : 0;
    return frame(FrameType.SETTINGS, this.#one(8) ? Flag.ACK : 0, this.#one(20) ? 1 : 0, payload.subarray(cut));
  }

  numbers(id: number): Buffer {
    const types = [FrameType.RST_STREAM, FrameType.WINDOW_UPDATE, FrameType.PING, FrameType.GOAWAY, 2, 5, 11, 255];
    const type = types[this.#random.below(types.length)] ?? 0;
    const number = () => this.#random.pick([0, 1, 3, 8, 11, 0x7fff_ffff, 0xffff_ffff]);
    const usual = type === FrameType.PING || type === FrameType.GOAWAY ? 2 : type === FrameType.PRIORITY ? 1.25 : 1;
    const payload = uint32(...Array.from({ length: 4 }, number));
    const length = this.#one(8) ? this.#random.below(17) : usual * 4;
    const ofConnection = type === FrameType.PING || type === FrameType.GOAWAY;
    return frame(
      type,
      this.#one(4) ? Flag.ACK : 0,
      ofConnection && !this.#one(10) ? 0 : id,
      payload.subarray(0, length),
    );
  }

  /** Returns one frame many times: an expensive one of those with few bytes. */
  flood(id: number): Buffer {
    const one = this.#random.pick([
      headersFrame(id, { ":status": "100" }),
      frame(FrameType.DATA, 0, id),
      frame(FrameType.CONTINUATION, 0, id),
      frame(FrameType.PING, 0, 0, Buffer.alloc(8)),
      frame(FrameType.SETTINGS, 0, 0, settings([Setting.INITIAL_WINDOW_SIZE, this.#random.below(100_000)])),
      frame(FrameType.GOAWAY, 0, 0, uint32(0x7fff_ffff, 0)),
      frame(FrameType.WINDOW_UPDATE, 0, id, uint32(1)),
      frameHead(0, FrameType.RST_STREAM, 0, id),
    ]);
    return Buffer.concat(Array.from({ length: this.#random.pick([2, 20, 500]) }, () => one));
  }
}

const MAKERS: readonly [Maker, ...Maker[]] = [
  (frames, id) => frames.answer(id),
  (frames, id) => frames.answer(id),
  (frames, id) => frames.answer(id),
  (frames, id) => frames.data(id),
  (frames, id) => frames.data(id),
  (frames, id) => frames.bytes(id),
  (frames, id) => frames.headers(id),
  (frames, id) => frames.headers(id),
  (frames) => frames.anySettings(),
  (frames, id) => frames.numbers(id),
  (frames, id) => frames.numbers(id),
  (frames, id) => frames.flood(id),
];

type Maker = (frames: HostileFrames, id: number) => Buffer;
