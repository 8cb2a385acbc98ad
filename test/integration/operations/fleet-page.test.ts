import { expect, test } from "vitest";
import { becomes } from "../../support/becomes.ts";
import { administeredService } from "../../support/gateway/administered-service.ts";

const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";

const rig = administeredService();

type Row = Readonly<Record<string, unknown>>;
type Fleet = {
  readonly overload: Row;
  readonly total: Row;
  readonly models: readonly Row[];
  readonly nodes: readonly Row[];
};
const fleet = async () => (await rig.admin.json("/fleet")) as unknown as Fleet;

test("/fleet counts requests and times to first token of the gateway, its models and its nodes", async () => {
  const modelOf = ({ models }: Fleet) => models.find(({ model }) => model === MODEL);
  const before = await fleet();
  await rig.service.stream(CHAT);
  await rig.service.reply(CHAT);
  const requests = Number(modelOf(before)?.requests) + 2;
  await becomes(async () => {
    const now = await fleet();
    return modelOf(now)?.requests === requests && Number(modelOf(now)?.p50Ms) > 0;
  }, "both requests are counted");
  const after = await fleet();
  expect(modelOf(after)).toMatchObject({ nodes: 1, healthy: 1, active: 0, queued: 0, errors: 0 });
  expect(after.total).toMatchObject({ active: 0, queued: 0, connections: 0 });
  const [node, ...others] = after.nodes;
  const { address } = rig.service.engine;
  expect([node, others]).toEqual([
    expect.objectContaining({ address, engine: "1", flags: [], drained: false, errors: 0 }),
    [],
  ]);
  expect(node?.models).toContain(MODEL);
  expect(node?.total).toBe(Number(before.nodes[0]?.total) + 2);
  expect(await rig.admin.json("/fleet")).toMatchObject({ state: "LIVE" });
});

test("/fleet counts the tokens of answers that were not streamed, and names the overload actions in force", async () => {
  const { stats, overload } = rig.service.gateway;
  const counted = () => stats.foldedTokens.get(MODEL) ?? 0;
  const before = counted();
  await rig.service.reply(CHAT);
  await becomes(async () => counted() === before + 7, "the tokens are counted");
  expect(Number((await fleet()).total.tokensPerSecond)).toBeGreaterThan(0);
  expect((await fleet()).overload).toEqual({
    actions: [],
    pressures: Object.fromEntries(Object.keys(overload.pressures).map((resource) => [resource, expect.any(Number)])),
  });
});

test("/fleet shows that a node is drained", async () => {
  const { address } = rig.service.engine;
  await rig.admin.post(`/endpoint/${address}/drain`);
  const [node] = (await fleet()).nodes;
  expect(node).toMatchObject({ flags: ["/draining"], drained: true, downSinceMs: expect.any(Number) });
  expect((await fleet()).nodes).toMatchObject([{ downSinceMs: node?.downSinceMs }]);
  await rig.admin.post(`/endpoint/${address}/undrain`);
  const [healthy] = (await fleet()).nodes;
  expect(healthy).toMatchObject({ flags: [], drained: false });
  expect(healthy).not.toHaveProperty("downSinceMs");
});

test("the files of the page name no other origin, write no markup, and have a strict policy", async () => {
  const names = ["/"];
  const texts: string[] = [];
  for (const name of names) {
    const reply = await rig.admin.get(name);
    expect([name, reply.status]).toEqual([name, 200]);
    const policy = reply.headers.get("content-security-policy") ?? "";
    expect(policy).toContain("default-src 'none'");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/unsafe|\*|http/);
    const body = await reply.text();
    texts.push(body);
    for (const [, file = ""] of body.matchAll(/(?:"\/page|from "\.)\/([\w.]+)"/g))
      if (!names.includes(`/page/${file}`)) names.push(`/page/${file}`);
  }
  expect(names).toHaveLength(8);
  for (const body of texts) {
    expect(body).not.toMatch(/https?:\/\//);
    expect(body).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\son\w+=|eval\(/);
  }
  for (const name of ["/page/page.ts", "/page/..%2fpage.css", "/page/"])
    expect((await rig.admin.get(name)).status).toBe(404);
});
