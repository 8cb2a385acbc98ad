import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { FAULTS, runAt, SCRIPT } from "../../agents/sockets/faults.ts";
import { isDone, socketTask } from "../../agents/sockets/node-client.ts";
import { HAS_ENVOY, NO_ENVOY } from "../../support/edge/envoy-process.ts";

/*
 * The vendor's SDK for Node on a WebSocket through Envoy, at the faults of the lane of agents (`test/agents/run sockets`),
 * which has Codex and the SDK for Python besides.
 */

/** What the SDK shows at each fault. */
const TROUBLES: Readonly<Record<string, RegExp>> = {
  none: /^$/,
  "426: the key has its 32 sockets": /^Unexpected server response: 426$/,
  "401: a wrong key": /^Unexpected server response: 401$/,
  "404: a base address without /v1": /^Unexpected server response: 404$/,
  "no answer: a gateway that stands still": /^Unexpected server response: (?:408|504|503)$/,
  "frame 429: a limit of the key": /^rate_limit_exceeded: Rate limit reached for requests/,
  "frame 503: no engine, and none is waited for": /^(response\.failed server_error|server_is_overloaded): /,
  "response.failed: the only engine is lost for 3 s": /^$/,
  "previous_response_not_found: dropped for memory": /^previous_response_not_found: .*Send the whole conversation/,
  "1001: the socket is old": /^(?:closed with 1001|cannot send on a closed WebSocket)$/,
  "1001: the gateway drains": /^(?:closed with 1001|cannot send on a closed WebSocket)$/,
  "1001: the edge drains": /^(?:closed with 1001|cannot send on a closed WebSocket)$/,
  "cut: the gateway is killed": /^closed with 1006$/,
  "cut: the edge is killed": /^closed with 1006$/,
  "frame 400: an unknown model": /^model_not_found: .*'svc-nope' does not exist/,
};

const given = FAULTS.filter(({ name }) => Object.hasOwn(TROUBLES, name));

test("every row is a fault of the lane", () => {
  expect(given.map(({ name }) => name)).toEqual(Object.keys(TROUBLES));
});

describe.skipIf(!HAS_ENVOY)(`the task of an application with the vendor's SDK (${NO_ENVOY})`, () => {
  test.each(given)("$name", async (fault) => {
    const patience = fault.refused ? 2 : 20;
    const { ran: task } = await runAt(fault, ({ caFile, ...place }) =>
      socketTask({ ...place, ca: readFileSync(caFile), patience }),
    );
    const troubles = TROUBLES[fault.name] ?? /^$/;
    expect(task.troubles.filter((text) => !troubles.test(text))).toEqual([]);
    expect(task.troubles.length > 0).toBe(!troubles.test(""));
    expect(isDone(task, SCRIPT.steps)).toBe(fault.refused?.sdk === undefined);
  });
});
