import { expect, test } from "vitest";
import { administeredService } from "../../support/gateway/administered-service.ts";
import { until } from "../../support/until.ts";

const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";

const rig = administeredService();

type Live = { p50?: number; clusters: { model: string; requests: number; deltas: number; endpoints: object[] }[] };
const live = async () => {
  const { p50, clusters } = (await rig.admin.json("/live")) as unknown as Live;
  const cluster = clusters.find(({ model }) => model === MODEL);
  if (!cluster) throw new Error("no cluster");
  return { p50, ...cluster };
};

test("/live counts requests, deltas and times to first token as they come", async () => {
  const before = await live();
  await rig.service.stream(CHAT);
  await rig.service.reply(CHAT);
  await until(() => rig.service.gateway.stats.live.model(MODEL).requests === before.requests + 2, "both are counted");
  const after = await live();
  expect(after.deltas).toBeGreaterThanOrEqual(before.deltas + 2);
  expect(after.p50).toBeGreaterThan(0);
  expect(after.endpoints).toMatchObject([{ address: rig.service.engine.address, healthFlags: [], rqActive: 0 }]);
});

test("the files of the page name no other origin, write nothing as markup, and stand under a strict policy", async () => {
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
  expect(names).toHaveLength(7);
  for (const body of texts) {
    expect(body.replaceAll("http://www.w3.org/2000/svg", "")).not.toMatch(/https?:\/\//);
    expect(body).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\son\w+=|eval\(/);
  }
  for (const name of ["/page/page.ts", "/page/..%2fpage.css", "/page/"])
    expect((await rig.admin.get(name)).status).toBe(404);
});
