import { constants, type Http2Session, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";
import { Metadata, type ServerInterceptingCallInterface, status } from "@grpc/grpc-js";
import type { FailedCall } from "../../deploy/runtime/grpc/failed-call.ts";
import type { EndingStatus } from "../../deploy/runtime/grpc/status-details.ts";
import type { ApiError } from "../errors.ts";
import { statusOf } from "../formats/error-envelope.ts";
import type { LimitedRequest } from "../http/access/rate-limit.ts";
import type { RequestRecord } from "../http/record/request-record.ts";
import type { ReplyUnderWay } from "../http/request-context.ts";
import type { InflightBody } from "../overload/body-budget.ts";
import { failedRpc } from "./failed-rpc.ts";

/** A call of a gRPC client, as its method and the hooks at its end see it. */
export class RpcCall implements ReplyUnderWay {
  readonly record: RequestRecord;
  /** Headers of the call in the form of Node's HTTP headers. */
  readonly headers: IncomingHttpHeaders;
  readonly address: string;
  /** The message's share of the budget for bodies in flight; undefined until the call has passed its key's limits. */
  body: InflightBody | undefined;
  /** The call with the limits of its key; undefined until the key is authenticated. */
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

  /** Makes the call that runs on `stream`, as `call` of grpc-js, with the request id of its record. */
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

  /** Undefined once the connection is closed. */
  get session(): Http2Session | undefined {
    return this.#stream.session;
  }

  /** Whether the reply cannot be delivered any more. */
  get destroyed(): boolean {
    return this.#stream.destroyed || this.#stream.closed;
  }

  /** Whether a message or the status of the call has been sent. */
  get headersSent(): boolean {
    return this.#committed || (this.#ended !== undefined && !this.#raised);
  }

  /** Status of the reply in HTTP terms: 200 once a message of an answer was sent. */
  get statusCode(): number {
    return this.#committed || !this.#error ? 200 : statusOf(this.#error, "a");
  }

  /** Whether the server ended the call, not its caller. */
  get writableFinished(): boolean {
    return this.#ended !== undefined && !this.#raised;
  }

  /** Bytes of sent messages. */
  get bytesOut(): number {
    return this.#bytesOut;
  }

  /** Name of the final status; CANCELLED if none was sent. */
  get grpcStatus(): string {
    return status[this.#ended?.code ?? status.CANCELLED] ?? "UNKNOWN";
  }

  /** Calls `listener` once, when the call has ended or its caller has cancelled it. */
  on(event: "close", listener: () => void): unknown {
    return this.#stream.on(event, listener);
  }

  /** Adds metadata that is sent before the first message, or with the status. */
  tell(headers: Readonly<Record<string, string | number>>): void {
    for (const [name, value] of Object.entries(headers)) this.#metadata.set(name, String(value));
  }

  /** Counts a message that is about to be sent; `commits` marks the answer as committed. */
  writes(bytes: number, commits: boolean): void {
    if (!this.#sentMetadata) this.#call.sendMetadata(this.#metadata);
    this.#sentMetadata = true;
    this.#bytesOut += bytes;
    this.#committed ||= commits;
  }

  /** Ends the call with an error before its method runs. */
  refuse(error: ApiError): void {
    this.#call.sendStatus(this.failure(error));
  }

  /** Returns the status with which the call fails, and records the error. */
  failure(error: ApiError): FailedCall {
    this.record.refused(error.detail);
    this.#error ??= error;
    const failed = failedRpc(error);
    if (!this.#sentMetadata) failed.metadata.merge(this.#metadata);
    return failed;
  }

  /** Records the status with which the call ends; `raised` is true if grpc-js set it. */
  ends(ended: EndingStatus, raised: boolean): void {
    // A status cannot reach a caller that has left.
    if (this.#ended || this.destroyed) return;
    this.#ended = ended;
    this.#raised = raised;
  }

  /** Closes the connection of the call after its open calls have ended. */
  endConnection(): void {
    this.#stream.session?.close();
  }

  /** Resets the call: pending messages are dropped. */
  cut(): void {
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }
}
