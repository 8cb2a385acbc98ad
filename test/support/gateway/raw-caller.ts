import { afterEach, expect } from "vitest";
import type { Script } from "../engine/scripted-backend.ts";
import { head, RawConnection, type RawReply } from "../http/raw-http.ts";
import { type ScriptedService, serviceOfFile } from "./scripted-service.ts";

/** Largest body of the gateway of a `RawCaller` by default, in bytes. */
export const MAX_BODY = 64 * 1024;

/** Short, because tests wait for them: `requestTimeoutMs` is the time in which a request has to arrive. */
const SHORT = { maxBodyBytes: MAX_BODY, timeouts: { requestTimeoutMs: 1_500 } };

export const HOST = "host: gateway.test";
export const JSON_TYPE = "content-type: application/json";

export const CHAT = JSON.stringify({ model: "svc-qwen", messages: [{ role: "user", content: "hi" }] });

/** Raw requests to a gateway in front of a scripted engine. Whatever a request does, the next one is served. */
export class RawCaller {
  readonly #open: RawConnection[] = [];
  readonly #service: ScriptedService;

  constructor(script: Script, limits = SHORT) {
    this.#service = serviceOfFile({ gateway: limits }, script);
    afterEach(async () => {
      for (const connection of this.#open.splice(0)) connection.destroy();
      expect((await this.gateway.get("/v1/models")).status).toBe(200);
    });
  }

  get engine(): ScriptedService["engine"] {
    return this.#service.engine;
  }

  get gateway(): ScriptedService["gateway"] {
    return this.#service.gateway;
  }

  get auth(): string {
    return `authorization: Bearer ${this.gateway.key}`;
  }

  async connection(): Promise<RawConnection> {
    const connection = await RawConnection.open(this.gateway.port);
    this.#open.push(connection);
    return connection;
  }

  async sent(bytes: string): Promise<RawReply> {
    return (await this.connection()).write(bytes).reply();
  }

  /** Sends these bytes on a new connection: they are refused, and the connection ends. */
  async refused(bytes: string, status: number | readonly number[], envelope: "a" | "b" = "a"): Promise<void> {
    const one = (await this.connection()).write(bytes);
    expectRefusal(await one.reply(), status, envelope);
    await one.untilClosed();
  }

  get(path: string, ...fields: readonly string[]): string {
    return head(`GET ${path} HTTP/1.1`, HOST, this.auth, ...fields);
  }

  post(path: string, body: string, fields: readonly string[] = [`content-length: ${body.length}`]): string {
    return head(`POST ${path} HTTP/1.1`, HOST, this.auth, JSON_TYPE, ...fields) + body;
  }

  chat(...fields: readonly string[]): string {
    return this.post("/v1/chat/completions", CHAT, [`content-length: ${CHAT.length}`, ...fields]);
  }
}

/** Fails unless this is a complete envelope with a request id, without the canary word of the request. */
export function expectRefusal(reply: RawReply, status: number | readonly number[], envelope: "a" | "b" = "a"): void {
  expect([status].flat()).toContain(reply.status);
  expect(reply.headers.get("content-type")).toBe("application/json; charset=utf-8");
  const id = reply.headers.get("x-request-id");
  expect(id).toMatch(/^req_[0-9a-zA-Z]{24,}$/);
  expect(reply.headers.get("request-id")).toBe(id);
  const body = JSON.parse(reply.body);
  expect(typeof body.error.message).toBe("string");
  if (envelope === "a") expect(Object.keys(body.error).sort()).toEqual(["code", "message", "param", "type"]);
  else expect(body).toMatchObject({ type: "error", request_id: id });
  expect(reply.body).not.toContain("evil");
}
