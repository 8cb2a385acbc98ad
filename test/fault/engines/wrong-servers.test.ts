import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { expect, test } from "vitest";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { FRONT_MODELS, outcomeOf, startFront } from "../../support/processes/fault-front.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";

const fleet = new Fleet();

async function listening(server: Server): Promise<string> {
  fleet.onEnd(() => void server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test("H5 servers of nonsense, of silence and of HTTP/1 get no request; the only endpoint fails them at once", async () => {
  const nonsense = createServer((socket) => {
    socket.on("error", () => {});
    socket.write(Buffer.alloc(1_024, 0x5a));
  });
  const silence = createServer((socket) => socket.on("error", () => {}));
  const http = createHttpServer((_request, response) => response.end("hello"));
  const wrong = await Promise.all([nonsense, silence, http].map(listening));
  const good = await fleet.engine("good", {}, FRONT_MODELS);
  const gateway = await startFront([...wrong, good.address]);
  fleet.onEnd(() => gateway.end());
  await healthy(gateway, good.address);
  for (const path of ANSWER_PATHS) {
    const answered = await gateway.post(path, bodyFor(path, "hi"));
    expect(answered.status).toBe(200);
    await answered.text();
    const alone = await gateway.post(path, bodyFor(path, "hi", { model: "svc-glm53" }));
    const { status, text, log } = await outcomeOf(gateway, alone);
    expect(status).toBe(path === "/v1/messages" ? 529 : 503);
    expect(log).toMatchObject({ detail: "no_healthy_upstream", response_flags: "UH" });
    expect(log.attempts).toBeUndefined();
    expect(alone.headers.get("retry-after")).toMatch(/^[1-9]\d*$/);
    expect(text).not.toContain("127.0.0.1");
  }
  for (const address of wrong) expect(await gateway.health(address)).toContain("/failed_active_hc");
  expect(await gateway.open()).toBe(0);
});
