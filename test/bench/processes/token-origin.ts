import { setImmediate as turn } from "node:timers/promises";
import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Server, ServerCredentials, type ServerWritableStream } from "@grpc/grpc-js";
import {
  CONTEXT_TOKENS,
  stampTokens,
  TOKENIZED_MODEL,
  textOf,
  VOCABULARY_SIZE,
  WORD_TOKEN,
} from "../references/stamp-tokenizer.ts";
import { type Directive, parseDirective } from "./directive.ts";
import type { Pace } from "./pacer.ts";
import { nowUs } from "./stamp.ts";

/*
 * The part of vLLM's gRPC service (`vllm.grpc.engine.VllmEngine`, as called by SMG 1.13) for a gateway that tokenizes
 * itself: requests and replies contain tokens. Fields are read and written by number.
 */

const SERVICE = "/vllm.grpc.engine.VllmEngine";
const tag = (field: number, type: number) => ((field << 3) | type) >>> 0;
const VARINT = WireType.Varint;
const DELIMITED = WireType.LengthDelimited;

/** The field numbers of a GenerateRequest, and of its prompt. */
const PROMPT = 2;
const STREAMED = 5;
const PROMPT_TOKENS = 2;
/** The bytes at the end of a prompt's tokens that contain the directive. */
const LAST_BYTES = 600;

const HEALTHY = new BinaryWriter().uint32(tag(1, VARINT)).bool(true).finish();
const SERVER_INFO = new BinaryWriter().uint32(tag(5, DELIMITED)).string("vllm-grpc").finish();

type Asked = { readonly directive: Directive; readonly streamed: boolean };

/**
 * Starts a server that plays directives in tokens over gRPC, as vLLM does for a gateway that tokenizes.
 * `tokenizerFolder` is the path of the tokenizer for that gateway. `reportLeft` receives the id of a request that its
 * caller cancelled. Resolves to the port.
 */
export async function startTokenOrigin(
  tokenizerFolder: string,
  paceOf: (directive: Directive) => Pace | undefined,
  reportLeft: (id: string) => void,
): Promise<number> {
  const server = new Server({ "grpc.max_receive_message_length": -1 });
  const info = modelInfo(tokenizerFolder);
  const same = (bytes: Buffer) => bytes;
  const shape = { requestStream: false, responseStream: false };
  const serializers = {
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  };
  const method = (name: string, responseStream = false) => ({
    ...{ path: `${SERVICE}/${name}`, ...shape, responseStream, ...serializers },
  });
  const said = (bytes: Uint8Array) => (_call: unknown, done: (error: null, reply: Buffer) => void) =>
    done(null, Buffer.from(bytes));
  server.addService(
    {
      HealthCheck: method("HealthCheck"),
      GetModelInfo: method("GetModelInfo"),
      GetServerInfo: method("GetServerInfo"),
      Abort: method("Abort"),
      Generate: method("Generate", true),
    },
    {
      HealthCheck: said(HEALTHY),
      GetModelInfo: said(info),
      GetServerInfo: said(SERVER_INFO),
      Abort: said(new Uint8Array()),
      Generate: (call: ServerWritableStream<Buffer, Buffer>) => {
        const asked = askedFor(call.request);
        const { id } = asked.directive;
        if (id !== undefined) call.on("cancelled", () => reportLeft(id));
        void play(asked, paceOf(asked.directive), call);
      },
    },
  );
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    );
  });
}

async function play(
  { directive, streamed }: Asked,
  pace: Pace | undefined,
  call: ServerWritableStream<Buffer, Buffer>,
): Promise<void> {
  const { events, eventsPerWrite } = directive;
  try {
    if (!streamed) {
      call.write(
        complete(
          events,
          Array.from({ length: events }, () => WORD_TOKEN),
        ),
      );
      return;
    }
    for (let sent = 0; sent < events && !call.cancelled; sent += eventsPerWrite) {
      // Without a turn of the event loop a cancellation is never detected.
      if (sent > 0) await (pace ? pace.tick() : turn());
      const tokens = stampTokens(nowUs());
      const count = Math.min(eventsPerWrite, events - sent);
      if (!call.write(chunk((sent + count) * tokens.length, Array.from({ length: count }, () => tokens).flat())))
        await drained(call);
    }
    if (!call.cancelled) call.write(complete(events, []));
  } finally {
    pace?.end();
    call.end();
  }
}

function drained(call: ServerWritableStream<Buffer, Buffer>): Promise<void> {
  return new Promise((resolve) => {
    call.once("drain", resolve);
    call.once("cancelled", resolve);
  });
}

/** Returns a GenerateResponse with a chunk of the answer; `completionTokens` counts all tokens so far. */
function chunk(completionTokens: number, tokens: readonly number[]): Buffer {
  const writer = new BinaryWriter().uint32(tag(1, DELIMITED)).fork();
  packed(writer, 1, tokens).uint32(tag(2, VARINT)).uint32(1).uint32(tag(3, VARINT)).uint32(completionTokens);
  return Buffer.from(writer.join().finish());
}

function complete(completionTokens: number, tokens: readonly number[]): Buffer {
  const writer = new BinaryWriter().uint32(tag(2, DELIMITED)).fork();
  packed(writer, 1, tokens).uint32(tag(2, DELIMITED)).string("stop");
  writer.uint32(tag(3, VARINT)).uint32(1).uint32(tag(4, VARINT)).uint32(completionTokens);
  return Buffer.from(writer.join().finish());
}

function packed(writer: BinaryWriter, field: number, numbers: readonly number[]): BinaryWriter {
  writer.uint32(tag(field, DELIMITED)).fork();
  for (const number of numbers) writer.uint32(number);
  return writer.join();
}

function modelInfo(tokenizerFolder: string): Uint8Array {
  const writer = new BinaryWriter().uint32(tag(1, DELIMITED)).string(tokenizerFolder);
  writer.uint32(tag(2, VARINT)).bool(true);
  writer.uint32(tag(3, VARINT)).uint32(CONTEXT_TOKENS).uint32(tag(4, VARINT)).uint32(VOCABULARY_SIZE);
  writer.uint32(tag(6, DELIMITED)).string(TOKENIZED_MODEL).uint32(tag(7, DELIMITED)).string(tokenizerFolder);
  return writer.uint32(tag(13, VARINT)).int32(CONTEXT_TOKENS).finish();
}

/** Returns the directive in the last tokens of a GenerateRequest's prompt, and whether to stream. */
function askedFor(bytes: Uint8Array): Asked {
  const prompt = bytesOf(bytes, PROMPT) ?? new Uint8Array();
  const text = textOf(lastNumbers(bytesOf(prompt, PROMPT_TOKENS) ?? new Uint8Array()));
  const directive = text.slice(text.lastIndexOf("{"), text.lastIndexOf("}") + 1);
  return { directive: parseDirective(directive), streamed: isTrue(bytes, STREAMED) };
}

/** Returns the last packed numbers, at most `LAST_BYTES` bytes of them. */
function lastNumbers(packed: Uint8Array): readonly number[] {
  let from = Math.max(0, packed.length - LAST_BYTES);
  // The byte before a number ends another one.
  while (from > 0 && (packed[from - 1] ?? 0) >= 0x80) from += 1;
  const reader = new BinaryReader(packed.subarray(from));
  const numbers: number[] = [];
  while (reader.pos < reader.len) numbers.push(reader.uint32());
  return numbers;
}

/** Returns the bytes of a field of a message; undefined if it is absent. */
function bytesOf(message: Uint8Array, wanted: number): Uint8Array | undefined {
  return found(message, wanted, DELIMITED, (reader) => reader.bytes());
}

function isTrue(message: Uint8Array, wanted: number): boolean {
  return found(message, wanted, VARINT, (reader) => reader.bool()) ?? false;
}

function found<Value>(
  message: Uint8Array,
  wanted: number,
  wantedType: WireType,
  read: (reader: BinaryReader) => Value,
): Value | undefined {
  const reader = new BinaryReader(message);
  while (reader.pos < reader.len) {
    const [field, type] = reader.tag();
    if (field === wanted && type === wantedType) return read(reader);
    reader.skip(type, field);
  }
  return undefined;
}
