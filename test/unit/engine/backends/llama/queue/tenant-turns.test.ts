import { describe, expect, test } from "vitest";
import { TenantTurns } from "../../../../../../engine/backends/llama/queue/tenant-turns.ts";

type Item = { readonly tenant: string; readonly priority: number; readonly cost: number; readonly name: string };

/** "a1:50" is item a1 of tenant a, which costs 50. */
function items(...words: readonly string[]): Item[] {
  return words.map((word) => {
    const [name = "", cost, priority] = word.split(":");
    return { tenant: name.charAt(0), priority: Number(priority ?? 0), cost: Number(cost ?? 100), name };
  });
}

function turnsOf(...words: readonly string[]): TenantTurns<Item> {
  const turns = new TenantTurns<Item>();
  for (const item of items(...words)) turns.push(item);
  return turns;
}

function serveAll(turns: TenantTurns<Item>): string {
  const names: string[] = [];
  for (let item = turns.next(); item; item = turns.next()) {
    turns.serve(item);
    names.push(item.name);
  }
  return names.join(" ");
}

describe("turns", () => {
  const cases: readonly [name: string, waiting: string, served: string][] = [
    ["one tenant is served as it came", "a1 a2 a3", "a1 a2 a3"],
    ["tenants alternate", "a1 a2 a3 b1 b2 c1", "c1 b1 a1 b2 a2 a3"],
    ["what is shared is cost, not the number of items", "a1:300 a2:300 b1 b2 b3 b4", "b1 b2 a1 b3 b4 a2"],
    ["within a tenant a higher priority goes first", "a1 a2:100:1 a3:100:1 b1", "b1 a2 a3 a1"],
  ];
  test.each(cases)("%s", (_name, waiting, served) => {
    expect(serveAll(turnsOf(...waiting.split(" ")))).toBe(served);
    expect(turnsOf(...waiting.split(" ")).order()).toHaveLength(waiting.split(" ").length);
  });

  test("the order that is foretold is the order of serving", () => {
    const waiting = ["a1:70", "a2:10", "b1:55", "c1:200", "b2:31", "a3:90"];
    const foretold = turnsOf(...waiting).order();
    expect(foretold.map(({ name }) => name).join(" ")).toBe(serveAll(turnsOf(...waiting)));
  });

  test("whoever comes again and again gets every second turn beside a flood, and no more", () => {
    const turns = turnsOf(...Array.from({ length: 20 }, (_, i) => `a${i}`));
    let served = "";
    for (let i = 0; i < 10; i += 1) {
      if (turns.count("b") === 0) for (const item of items("b")) turns.push(item);
      const item = turns.next();
      if (item) turns.serve(item);
      served += item?.tenant;
    }
    expect(served).toBe("bababababa");
  });

  test("five tenants with requests of all sizes get the same number of tokens", () => {
    const turns = new TenantTurns<Item>();
    const sizes = [20, 50, 100, 400, 1000];
    const tokens = new Map<string, number>();
    const refill = (tenant: string) => {
      const cost = sizes["abcde".indexOf(tenant)] ?? 1;
      turns.push({ tenant, priority: 0, cost, name: tenant });
    };
    for (const tenant of "abcde") for (let i = 0; i < 3; i += 1) refill(tenant);
    for (let total = 0; total < 200_000; ) {
      const item = turns.next();
      if (!item) throw new Error("nobody waits");
      turns.serve(item);
      refill(item.tenant);
      total += item.cost;
      tokens.set(item.tenant, (tokens.get(item.tenant) ?? 0) + item.cost);
    }
    const all = [...tokens.values()];
    const sum = all.reduce((a, b) => a + b, 0);
    const jain = sum ** 2 / (all.length * all.reduce((a, b) => a + b * b, 0));
    expect(jain).toBeGreaterThan(0.99);
  });
});

describe("leaving", () => {
  test("takes an item out wherever it stands, once", () => {
    const turns = turnsOf("a1", "a2", "b1");
    const second = turns.order().find(({ name }) => name === "a2");
    if (!second) throw new Error("it is not there");
    expect([turns.remove(second), turns.remove(second)]).toEqual([true, false]);
    expect([turns.count(), turns.count("a"), turns.count("x")]).toEqual([2, 1, 0]);
    expect(serveAll(turns)).toBe("a1 b1");
  });

  test("gives nobody the turns for which it had waited", () => {
    const turns = turnsOf("a1:10000", ...Array.from({ length: 5 }, (_, i) => `a2${i}`));
    for (let i = 0; i < 50; i += 1) {
      for (const item of items("b")) turns.push(item);
      const item = turns.next();
      if (item) turns.serve(item);
    }
    const [giant] = turns.order().filter(({ name }) => name === "a1");
    if (giant) turns.remove(giant);
    for (const item of items("b1", "b2", "b3")) turns.push(item);
    expect(serveAll(turns)).toBe("a20 b1 a21 b2 a22 b3 a23 a24");
  });
});
