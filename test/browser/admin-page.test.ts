import { execFileSync } from "node:child_process";
import { hostname } from "node:os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { becomes } from "../support/becomes.ts";
import {
  DESKTOP,
  FITS,
  HAS_BROWSER,
  LOOKS,
  NO_BROWSER,
  type OpenPage,
  openPage,
  PHONE,
  unreached,
  violations,
} from "../support/browser-page.ts";
import { type ScriptedService, startScriptedService } from "../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../support/gateway/start-admin.ts";

/* The admin page in a real browser, over a real gateway. */

const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";
const NODE_ROW = `document.querySelector("#nodes tbody tr")`;

/** Runs in the page: replies of `/fleet` have thirty nodes from now on, two of them down, a warning and an overload. */
const manyNodes = `() => {
  const ask = fetch;
  window.fetch = async (path, options) => {
    const reply = await ask(path, options);
    if (!String(path).startsWith("/fleet")) return reply;
    const fleet = await reply.json();
    const down = { flags: ["/failed_active_hc"], healthFailure: "no answer in time", downSinceMs: Date.now() };
    const nodeAt = (_, at) =>
      ({ ...fleet.nodes[0], address: "10.0." + at + ".17:50051", errors: at, ...([13, 20].includes(at) && down) });
    const warnings = [{ level: 40, time: new Date().toISOString(), msg: "the store is away", times: 3 }];
    const pressures = { eventLoopDelay: 0.2, fixedHeap: 0.97, processMemory: 0.6 };
    const overload = { actions: ["releaseKeptAnswers", "stopAcceptingRequests"], pressures };
    return Response.json({ ...fleet, nodes: Array.from({ length: 30 }, nodeAt), warnings, overload });
  };
}`;

describe.skipIf(!HAS_BROWSER)(`the admin page${NO_BROWSER}`, () => {
  let service: ScriptedService;
  let admin: RunningAdmin;
  let opened: OpenPage;
  const owned: string[] = [];
  const killed: string[] = [];

  beforeAll(async () => {
    service = await startScriptedService();
    const owner = {
      owns: (address: string) => owned.includes(address),
      kill: (address: string) => killed.push(address),
    };
    admin = await startAdmin(service.gateway, {}, { owner });
    opened = await openPage();
    await opened.page.goto(admin.url);
    await opened.shown(`document.querySelectorAll("#nodes tbody tr").length === 1`);
  });

  afterAll(async () => {
    await opened?.close();
    await admin?.stop();
    await service?.stop();
  });

  const tile = (name: string) =>
    `[...document.querySelectorAll("dt")].find((dt) => dt.textContent === ${JSON.stringify(name)}).nextSibling.textContent`;
  const visibleRows = () =>
    opened.page.evaluate<number>(
      `[...document.querySelectorAll("#nodes tbody tr")].filter((row) => row.offsetParent).length`,
    );
  const buttonOf = (name: string) => `#nodes button[aria-label^=${JSON.stringify(name)}]`;

  test("the admin page shows the gateway, each model once and each node once", async () => {
    const { page, text, shown } = opened;
    await shown(`document.querySelector("#state").innerText.startsWith("LIVE, up ")`);
    expect(await text("#host")).toBe(`1.2.3 on ${hostname()}`);
    expect(await page.evaluate<string>("document.title")).toBe(`${hostname()} · svc gateway`);
    expect(await text("#verdict")).toBe("The node is healthy");
    const models = await page.evaluate<string[]>(
      `[...document.querySelectorAll("#models tbody td:first-child")].map((cell) => cell.textContent)`,
    );
    expect(models).toContain(MODEL);
    expect(new Set(models).size).toBe(models.length);
    expect(await page.evaluate<number>(`document.querySelectorAll("#nodes tbody tr").length`)).toBe(1);
    expect(await text("#nodes tbody tr")).toContain(service.engine.address);
    expect(await text("#nodes tbody tr")).toContain("healthy");
    expect(await page.evaluate<string>(tile("nodes healthy"))).toBe("1 / 1");
  });

  test("the admin page counts the requests of a model", async () => {
    for (let times = 0; times < 2; times += 1)
      await (await service.gateway.post(CHAT, { model: MODEL, messages: [{ role: "user", content: "x" }] })).text();
    await opened.shown(`${tile("first token p50, 1 min")} !== "–"`);
    const total = `[...document.querySelectorAll("#models tbody tr")].find((row) => row.cells[0].textContent === "${MODEL}").cells[10].textContent`;
    await opened.shown(`${total} === "2"`);
  });

  test("the admin page shows why prompts were not in caches, with a row for each model and reason", async () => {
    const row = `[...document.querySelector("#misses tbody tr").cells].map((cell) => cell.textContent)`;
    await opened.shown(`document.querySelector("#misses tbody tr")?.offsetParent && ${row}[3] === "2"`);
    const why = "nothing with this beginning came before";
    expect(await opened.page.evaluate<string[]>(row)).toEqual([MODEL, "new", why, "2", "0", "0 %"]);
  });

  test("the admin page drains a node at the second press, and takes it back", async () => {
    const { page, shown, text } = opened;
    await page.click(buttonOf("drain"));
    expect(await text(buttonOf("drain"))).toBe("drain: sure?");
    expect(await page.evaluate<string>(`${NODE_ROW}.innerText`)).toContain("healthy");
    await page.click(buttonOf("drain"));
    await shown(`document.querySelector("#said").innerText.includes("OK")`);
    await shown(`${NODE_ROW}.innerText.includes("draining")`);
    expect(service.gateway.clusters.drained.has(service.engine.address)).toBe(true);
    expect(await text("#verdict")).toMatch(/^1 of 1 nodes draining: 127\.0\.0\.1:\d+, draining, since \d\d:\d\d$/);
    await shown(`document.querySelector(${JSON.stringify(buttonOf("undrain"))})`);
    await page.click(buttonOf("undrain"));
    await shown(`${NODE_ROW}.innerText.includes("healthy")`);
    expect(service.gateway.clusters.drained.size).toBe(0);
  });

  test("the admin page ejects a node at the second press, and takes it back", async () => {
    const { page, shown } = opened;
    await page.click(buttonOf("eject"));
    await page.click(buttonOf("eject"));
    await shown(`${NODE_ROW}.innerText.includes("ejected") && ${NODE_ROW}.innerText.includes(" left")`);
    await page.click(buttonOf("end ejection"));
    await shown(`${NODE_ROW}.innerText.includes("healthy")`);
  });

  test("the admin page has a node killed at the second press, where its engine was started with the gateway", async () => {
    const { page, shown, text } = opened;
    const { address } = service.engine;
    expect(await page.evaluate<number>(`document.querySelectorAll('${buttonOf("kill")}').length`)).toBe(0);
    expect((await admin.post(`/endpoint/${address}/kill`)).status).toBe(404);
    owned.push(address);
    await shown(`document.querySelector('${buttonOf("kill")}')`);
    await page.click(buttonOf("kill"));
    expect(killed).toEqual([]);
    await page.click(buttonOf("kill"));
    await shown(`document.querySelector("#said").innerText.includes("killed")`);
    expect(killed).toEqual([address]);
    expect(await text("#said")).toContain(`kill ${address}`);
    owned.pop();
    await shown(`!document.querySelector('${buttonOf("kill")}')`);
  });

  test("the admin page filters nodes by word and by trouble", async () => {
    const { page } = opened;
    for (const [words, rows] of [
      ["no such node", 0],
      [service.engine.address.slice(0, 9), 1],
      [MODEL, 1],
      ["", 1],
    ] as const) {
      await page.fill("#words", words);
      expect(await visibleRows()).toBe(rows);
    }
    await page.check("#troubled");
    expect(await visibleRows()).toBe(0);
    await page.uncheck("#troubled");
  });

  test("the admin page lists keys by name, and shows what one used and may use, by its id", async () => {
    const { page, shown, text } = opened;
    const key = await service.createKey("--name", "shown", "--models", "all", "--rpm", "60");
    await (await service.post(CHAT, {}, { authorization: `Bearer ${key}` })).text();
    const keyId = key.split("_")[2] ?? "";
    const counted = async () => (await admin.text(`/keys/${keyId}/usage`)).includes('"requests": 1');
    await becomes(counted, "the request counts");
    await page.fill("#key-id", "<b>unknown</b>");
    await page.click("#key-form button");
    await shown(`document.querySelector("#key-said").innerText === "no such key"`);
    await page.evaluate("import('/page/keys.js').then(({ showKeys }) => showKeys())");
    await shown(`document.querySelector("#today tbody")?.innerText.includes("${keyId}")`);
    expect(await text("#today tbody")).toMatch(new RegExp(`shown\\t${keyId}\\t–\\t1\\t0\\t\\d+`));
    await page.click(`#today tr:has(td:nth-child(2)) button`);
    await page.fill("#key-id", keyId);
    await page.click("#key-form button");
    await shown(`!document.querySelector("#usage").hidden`);
    expect(await text("#usage tbody tr")).toMatch(/^31 days\tall\t1\t0\t\d+/);
    expect(await text("#limits tbody")).toContain("60 / minute");
    // A key that is not there is said in the console, too.
    opened.faults.splice(0);
  });

  test("the admin page shows the command that makes a key with its limits", async () => {
    const { page, shown, text } = opened;
    await shown(`document.querySelector("#command").innerText.includes(" --file '")`);
    await page.fill("#new-key [name=file]", "");
    await page.fill("#new-key [name=name]", "it's mine; rm x");
    await page.fill("#new-key [name=rpm]", "60");
    await page.fill("#new-key [name=tokens-per-day]", "5000");
    const [, options = ""] = (await text("#command")).split("npm run --silent keys -- create ");
    const words = execFileSync("sh", ["-c", `printf '%s\\n' ${options}`], { encoding: "utf8" })
      .trim()
      .split("\n");
    expect(words).toEqual([
      ...["--name", "it's mine; rm x", "--models", "all", "--rpm", "60", "--tokens-per-day", "5000"],
    ]);
    const key = await service.createKey(...words);
    expect(await admin.text(`/limits/${key.split("_")[2]}`)).toMatch(/"rpm".*60.*"tokensPerDay".*5000/s);
  });

  test.each([DESKTOP, PHONE])(
    "says on top which nodes of thirty are down and why, with state, errors and orders in view, $width pixels wide",
    async (size) => {
      const { page, shown, text } = opened;
      const down = "10.0.13.17:50051, no answer in time, since ";
      await page.setViewportSize(size);
      await page.evaluate(`(${manyNodes})()`);
      await shown(`document.querySelectorAll("#nodes tbody tr").length === 30`);
      expect(await text("#verdict")).toMatch(
        new RegExp(
          `^Overloaded, new requests are refused: heap at 97 %. 2 of 30 nodes down: ${down}\\d\\d:\\d\\d; 10\\.0\\.20`,
        ),
      );
      expect(await text("#nodes tbody tr")).toContain("failed active health check: no answer in time, since ");
      expect(await text("#warnings tbody")).toContain("the store is away");
      const right = `document.querySelector("#nodes tbody tr").cells[3].getBoundingClientRect().right`;
      expect(await page.evaluate<string>(`document.querySelector("#nodes th:nth-child(4)").textContent`)).toBe(
        "errors",
      );
      expect(await page.evaluate<number>(right)).toBeLessThan(size.width);
      const orders = `[...document.querySelectorAll("#nodes tr:nth-child(3) button")].map((one) => one.getBoundingClientRect().right)`;
      const ends = await page.evaluate<number[]>(orders);
      expect(ends).toHaveLength(2);
      expect(Math.max(...ends)).toBeLessThan(size.width);
      expect(await page.evaluate<number>(`document.querySelector("#nodes .scroll").scrollWidth`)).toBeLessThanOrEqual(
        size.width,
      );
      expect(await page.evaluate<boolean>(FITS)).toBe(true);
      await page.reload();
      await shown(`document.querySelectorAll("#nodes tbody tr").length === 1`);
    },
  );

  test("the admin page fits a phone, and has other colours in the dark", async () => {
    const { page } = opened;
    await page.setViewportSize(PHONE);
    expect(await page.evaluate<boolean>(FITS)).toBe(true);
    await page.setViewportSize({ width: 1280, height: 800 });
    expect(await page.evaluate<boolean>(FITS)).toBe(true);
    const background = () => page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    await page.emulateMedia({ colorScheme: "light" });
    const light = await background();
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await background()).not.toBe(light);
  });

  test.each(LOOKS)("the admin page breaks no rule of accessibility, $width pixels wide, $colorScheme", async (look) => {
    expect(await violations(opened.page, look)).toEqual([]);
  });

  test("the admin page is all within reach of the keyboard", async () => {
    expect(await unreached(opened.page)).toEqual([]);
  });

  test("the policy of the admin page is kept: nothing was refused, and nothing fetched from elsewhere", () => {
    expect(opened.faults).toEqual([]);
    expect(opened.fetched.filter((url) => !url.startsWith(admin.url) && !url.startsWith("data:"))).toEqual([]);
    expect(opened.fetched.filter((url) => url.endsWith("/fleet")).length).toBeGreaterThan(1);
  });

  test("the admin page says when the gateway answers no more", async () => {
    await admin.stop();
    await opened.shown(`!document.querySelector("#lost").hidden`);
  });
});
