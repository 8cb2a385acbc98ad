import { describe, expect, test } from "vitest";
import { GenerateRequest, GenerateResponse } from "../../../proto/gen/svc/inference/v1/inference_service.ts";
import { framed, rawCall } from "../../support/engine/raw-generate.ts";
import { ANSWER_PATHS, bodyFor } from "../../support/http/answer-check.ts";
import { streamOnce } from "../../support/processes/closed-loop.ts";
import { Fleet, healthy } from "../../support/processes/fleet.ts";
import { generateRequest } from "../../support/requests/generate-request.ts";
import { covering } from "../../support/size.ts";

/* Nodes and gateways of other versions, or with a wrong clock. */

const fleet = new Fleet();

describe("H14", () => {
  function withClockOff(hours: number): readonly string[] {
    const module = `globalThis.Date=class extends Date{constructor(...a){super(...(a.length?a:[Date.now()]))}static now(){return super.now()+${hours}*36e5}}`;
    return ["env", `NODE_OPTIONS=--import=data:text/javascript,${encodeURIComponent(module)}`];
  }

  // Without FULL=1 both sides and both directions, but not each with each.
  const rows = covering(
    ["node", "gateway"].flatMap((whose) => [1, -1].map((hours) => ({ whose, hours }))),
    ({ whose }) => whose,
    ({ hours }) => String(hours),
  );

  test.each(rows)("H14 the clock of a $whose that is off by $hours hour breaks nothing", async ({ whose, hours }) => {
    const through = (of: string) => (of === whose ? withClockOff(hours) : []);
    const node = await fleet.engine("node", {}, undefined, { through: through("node") });
    const gateway = await fleet.gateway({ endpoints: [{ address: node.address }] }, {}, through("gateway"));
    await healthy(gateway, node.address);
    for (const path of ANSWER_PATHS)
      expect(await streamOnce(gateway, path, "hi")).toMatchObject({ status: 200, end: "complete" });
    const counted = await gateway.post("/v1/messages/count_tokens", bodyFor("/v1/messages", "hi"));
    expect(counted.status).toBe(200);
  });
});

test("J8 a node ignores unknown fields of a newer gateway", async () => {
  const node = await fleet.engine("old");
  const request = generateRequest({ maxOutputTokens: 5 });
  // Field 1000 with the number 1, and field 1001 with the text "new".
  const unknown = Buffer.from([0xc0, 0x3e, 0x01, 0xca, 0x3e, 0x03, ...Buffer.from("new")]);
  const message = framed(Buffer.concat([GenerateRequest.encode(request).finish(), unknown]));
  const path = "/svc.inference.v1.InferenceService/Generate";
  const call = rawCall(node.address, path, { "x-header-of-tomorrow": "new" }, message);
  fleet.onEnd(() => call.stop());
  const pieces: Buffer[] = [];
  call.stream.on("data", (piece) => pieces.push(piece));
  expect((await call.status)["grpc-status"]).toBe("0");
  const first = Buffer.concat(pieces);
  const { events } = GenerateResponse.decode(first.subarray(5, 5 + first.readUInt32BE(1)));
  expect(events[0]?.kind?.$case).toBe("started");
});
