import { constants, type Http2Session, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { Metadata, type ServerInterceptingCallInterface, status } from "@grpc/grpc-js";
import type { FailedCall } from "../../deploy/runtime/grpc/failed-call.ts";
import type { EndingStatus } from "../../deploy/runtime/grpc/status-details.ts";
import type { ApiError } from "../errors.ts";
import { statusOf } from "../formats/error-envelope.ts";
import type { LimitedRequest } from "../http/access/rate-limit.ts";
import type { RequestRecord } from "../http/record/request-record.ts";
import type { ReplyUnderWay } from "../http/request-context.ts";
import type { InflightBody } from "../overload/inflight-bodies.ts";
import { failedRpc } from "./failed-rpc.ts";

/** A call of a gRPC client as those see it who settle something at its end, and as its method answers it. */
export class RpcCall implements ReplyUnderWay {
  /** The record of the call. */
  readonly record: RequestRecord;
  /** The headers of the call, as Node would have them of HTTP. */
  readonly headers: IncomingHttpHeaders;
  /** The address that the call came from. */
  readonly address: string;
  /** What the message of the call takes up of the room of all bodies; undefined until the call has passed its key's limits. */
  body: InflightBody | undefined;
  /** The call as its key's limits see it; undefined until its key is known. */
  limited: LimitedRequest | undefined;
  readonly #stream: ServerHttp2Stream;
  readonly #call: ServerInterceptingCallInterface;
  readonly #metadata = new Metadata();
  #bytesOut = 0;
  #committed = false;
  #error: ApiError | undefined;
  #ended: EndingStatus | undefined;
  #raised = false;
  #sentMetadata = false;

  /** Makes the call that runs on `stream`, as `call` of grpc-js, and answers it with the id of its record. */
  constructor(
    { record, headers, address }: Pick<RpcCall, "record" | "headers" | "address">,
    call: ServerInterceptingCallInterface,
    stream: ServerHttp2Stream,
  ) {
    this.record = record;
    this.headers = headers;
    this.address = address;
    this.#call = call;
    this.#stream = stream;
    this.tell({ "x-request-id": record.requestId });
  }

  /** The connection that the call runs on; undefined once it is gone. */
  get session(): Http2Session | undefined {
    return this.#stream.session;
  }

  /** Whether nobody can get the reply any more. */
  get destroyed(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  /** Whether something of the answer, or the status of the call, has been sent. */
  get headersSent(): boolean {
    return this.#committed || (this.#ended !== undefined && !this.#raised);
  }

  /** The status of the reply as HTTP has it: 200 once something of an answer was sent. */
  get statusCode(): number {
    return this.#committed || !this.#error ? 200 : statusOf(this.#error, "a");
  }

  /** Whether the call was ended here, and not by its caller. */
  get writableFinished(): boolean {
    return this.#ended !== undefined && !this.#raised;
  }

  /** The bytes of messages that were sent. */
  get bytesOut(): number {
    return this.#bytesOut;
  }

  /** The name of the status that the call ended with: that of a call that was cancelled where none was sent. */
  get grpcStatus(): string {
    return status[this.#ended?.code ?? status.CANCELLED] ?? "UNKNOWN";
  }

  /** Calls `listener` when the call is over or its caller has left, which no call is twice. */
  on(event: "close", listener: () => void): unknown {
    return this.#stream.on(event, listener);
  }

  /** Adds metadata to that which goes to the caller in front of the first message, or with the status. */
  tell(headers: Readonly<Record<string, string | number>>): void {
    for (const [name, value] of Object.entries(headers)) this.#metadata.set(name, String(value));
  }

  /** Notes that a message of so many bytes is about to be sent; `commits` says whether it cannot be taken back. */
  writes(bytes: number, commits: boolean): void {
    if (!this.#sentMetadata) this.#call.sendMetadata(this.#metadata);
    this.#sentMetadata = true;
    this.#bytesOut += bytes;
    this.#committed ||= commits;
  }

  /** Ends the call with an error before its method was reached. */
  refuse(error: ApiError): void {
    this.#call.sendStatus(this.failure(error));
  }

  /** Returns the status with which the call fails, and records why. */
  failure(error: ApiError): FailedCall {
    this.record.refused(error.detail);
    this.#error ??= error;
    const failed = failedRpc(error);
    if (!this.#sentMetadata) failed.metadata.merge(this.#metadata);
    return failed;
  }

  /** Notes the status that the call is about to end with; `raised` is true where grpc-js ends it by itself. */
  ends(ended: EndingStatus, raised: boolean): void {
    // Nobody hears of a status once the caller has left.
    if (this.#ended || this.destroyed) return;
    this.#ended = ended;
    this.#raised = raised;
  }

  /** Ends the connection of the call once those that run on it are over. */
  endConnection(): void {
    this.#stream.session?.close();
  }

  /** Cuts the call: nothing more is sent, whatever waits for its reader. */
  cut(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }
}
