import { IncomingMessage } from "node:http";
import { SOCKET } from "../../routes.ts";
import { pathOf } from "./envelope.ts";

/** Whether Node's parser has seen an upgrade in the head of a request. */
const ASKED = Symbol("upgrade");

/**
 * A request whose upgrade counts only if it is to WebSocket on the path that has sockets. A server with a listener for
 * upgrades gets every upgrade there, without the body: all others have to be answered as plain HTTP.
 */
export class UpgradableRequest extends IncomingMessage {
  declare [ASKED]: unknown;
}

Object.defineProperty(UpgradableRequest.prototype, "upgrade", {
  get(this: UpgradableRequest) {
    // Node closes the connection of a CONNECT.
    return this[ASKED] === true ? this.method === "CONNECT" || isForSocket(this) : this[ASKED];
  },
  set(this: UpgradableRequest, asked: unknown) {
    this[ASKED] = asked;
  },
});

/** A body would be read as frames. */
function isForSocket(request: IncomingMessage): boolean {
  const { upgrade, "content-length": length, "transfer-encoding": coding } = request.headers;
  const hasBody = length !== undefined || coding !== undefined;
  const path = pathOf(request);
  return request.method === "GET" && upgrade?.toLowerCase() === "websocket" && path === SOCKET.path && !hasBody;
}
