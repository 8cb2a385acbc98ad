import { once } from "node:events";
import { type ClientOptions, WebSocket } from "ws";
import { FrameClient } from "../http/frame-client.ts";
import type { Edge } from "./edge-caller.ts";

/** Opens a WebSocket for responses through an edge. Rejects if it is refused. */
export async function socketThrough({ port, ca, key }: Edge): Promise<FrameClient> {
  const headers = { authorization: `Bearer ${key}` };
  const options: ClientOptions = { ...{ ca, servername: "localhost" }, headers };
  const ws = new WebSocket(`wss://127.0.0.1:${port}/v1/responses`, options);
  const client = new FrameClient(ws);
  await Promise.race([once(ws, "open"), once(ws, "close").then(() => Promise.reject(new Error("no socket")))]);
  return client;
}
