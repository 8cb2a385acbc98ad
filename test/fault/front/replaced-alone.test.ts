import { request } from "node:http";
import { expect, test } from "vitest";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { Fleet } from "../../support/processes/fleet.ts";
import type { GatewayProcess } from "../../support/processes/gateway-process.ts";

/* One gateway without a proxy is replaced by another process on its port, where Node can share one. */

const [MAJOR = 0, MINOR = 0] = process.versions.node.split(".").map(Number);
/** Whether this Node can share a port: of 22 from 22.12 on, and later long-term releases. */
const SHARES = MAJOR >= 24 || (MAJOR === 22 && MINOR >= 12);

const fleet = new Fleet();
const REPLACEMENTS = 2;
/** Some seconds of streaming, so that answers run through each replacement. */
const ANSWERS = { tokensPerSecond: 40, answerTokens: { min: 40, max: 60 }, slots: 50 };

/** Sends a streamed request on a connection of its own. Resolves to what came of it: the end of its text, or the error. */
function ask(port: number, key: string, path: string): Promise<string> {
  const body = JSON.stringify(bodyFor(path as (typeof ANSWER_PATHS)[number], "hi", { stream: true }));
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  return new Promise((resolve) => {
    const sent = request({ host: "127.0.0.1", port, path, method: "POST", agent: false, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece) => {
        text += piece;
      });
      response.on("error", (error) => resolve(String(error)));
      response.on("end", () => resolve(/\[DONE\]|message_stop|response\.completed/.test(text) ? "whole" : text));
    });
    sent.on("error", (error) => resolve(String(error)));
    sent.end(body);
  });
}

if (SHARES)
  test("a gateway is replaced on its port: no request meets a closed one, and all answers end whole", async () => {
    const node = await fleet.engine("node", ANSWERS);
    const endpoints = [{ address: node.address }];
    let gateway = await fleet.gateway({ endpoints }, { listen: { port: 0, enableReusePort: true } });
    const { port, key, keyFile } = gateway;
    const outcomes: string[] = [];
    let over = false;
    const agents = ANSWER_PATHS.flatMap((path) => [path, path]).map(async (path) => {
      while (!over) outcomes.push(await ask(port, key, path));
    });
    const retired: GatewayProcess[] = [];
    for (let count = 0; count < REPLACEMENTS; count += 1) {
      const listen = { port, enableReusePort: true };
      const next = await fleet.gateway({ endpoints }, { listen, keys: { file: keyFile } });
      expect(await next.health(node.address)).toBe("healthy");
      gateway.process.signal("SIGTERM");
      retired.push(gateway);
      gateway = next;
    }
    expect(await Promise.all(retired.map((one) => one.process.ended))).toEqual(retired.map(() => 0));
    over = true;
    await Promise.all(agents);
    expect(outcomes.length).toBeGreaterThan(agents.length);
    expect(outcomes.filter((outcome) => outcome !== "whole")).toEqual([]);
  });
else
  test("a gateway whose Node cannot share a port says so at its start", async () => {
    const listen = { port: 0, enableReusePort: true };
    await expect(fleet.gateway({ endpoints: [] }, { listen })).rejects.toThrow(
      /ended with 2: .*listen\.enableReusePort: needs Node 22\.12/,
    );
  });
