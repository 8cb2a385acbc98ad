import { existsSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Workers } from "../../gateway/workers.ts";
import { type ScriptedService, startScriptedService } from "../support/gateway/scripted-service.ts";
import { type RunningAdmin, startAdmin } from "../support/gateway/start-admin.ts";
import { startGateway } from "../support/gateway/start-gateway.ts";

/* The admin page in a real browser, over a real gateway. */

const CHROMIUM = "/usr/bin/chromium";
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const MODEL = "svc-qwen";
const CHAT = "/v1/chat/completions";

/** As much of the browser library as is used here: the library need not be installed to check the types. */
type Page = {
  goto(url: string): Promise<unknown>;
  on(event: "console" | "pageerror" | "request", listener: (what: Said) => void): void;
  evaluate<T>(expression: string): Promise<T>;
  fill(selector: string, text: string): Promise<void>;
  check(selector: string): Promise<void>;
  uncheck(selector: string): Promise<void>;
  emulateMedia(options: { colorScheme: "light" | "dark" }): Promise<void>;
};
type Said = { type?(): string; text?(): string; url?(): string; readonly message?: string };
type Browser = { newPage(): Promise<Page>; close(): Promise<void> };
type Library = { readonly chromium: { launch(options: object): Promise<Browser> } };

async function browserLibrary(): Promise<Library | undefined> {
  // Not known to the compiler, so that its absence is no fault.
  const name: string = "playwright-core";
  return import(name).catch(() => undefined);
}

const library = existsSync(CHROMIUM) ? await browserLibrary() : undefined;
const missing = existsSync(CHROMIUM) ? "playwright-core is not installed" : `there is no ${CHROMIUM}`;

describe.skipIf(!library)(`the admin page${library ? "" : ` (skipped: ${missing})`}`, () => {
  const faults: string[] = [];
  const fetched: string[] = [];
  let service: ScriptedService;
  let admin: RunningAdmin;
  let browser: Browser;
  let page: Page;

  beforeAll(async () => {
    service = await startScriptedService();
    admin = await startAdmin(service.gateway);
    if (!library) throw new Error(missing);
    browser = await library.chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
    page = await browser.newPage();
    page.on("pageerror", ({ message }) => faults.push(String(message)));
    page.on("console", (said) => {
      if (said.type?.() === "error") faults.push(String(said.text?.()));
    });
    page.on("request", (request) => fetched.push(String(request.url?.())));
    await page.goto(admin.url);
    await shown(`document.querySelectorAll("tbody tr").length > 0`);
  });

  afterAll(async () => {
    await browser?.close();
    await admin?.stop();
    await service?.stop();
  });

  /**
   * Until the expression is true in the page. Not by the library's own way to wait, which the page's policy refuses.
   */
  async function shown(expression: string): Promise<void> {
    for (const lastMs = Date.now() + 20_000; !(await page.evaluate<boolean>(expression)); ) {
      if (Date.now() > lastMs) throw new Error(`the page never showed it: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** The text of the first element that matches. */
  const text = (selector: string) =>
    page.evaluate<string>(`document.querySelector(${JSON.stringify(selector)}).innerText`);
  const tile = (name: string) =>
    page.evaluate<string>(
      `[...document.querySelectorAll("dt")].find((dt) => dt.textContent === ${JSON.stringify(name)}).nextSibling.textContent`,
    );
  const visibleRows = () =>
    page.evaluate<number>(`[...document.querySelectorAll("tbody tr")].filter((row) => row.offsetParent).length`);

  test("shows state, clusters and endpoints", async () => {
    expect(await text("#state")).toBe("LIVE");
    expect(await page.evaluate<string[]>(`[...document.querySelectorAll("h2")].map((h) => h.textContent)`)).toContain(
      MODEL,
    );
    expect(await text("tbody tr")).toContain(service.engine.address);
    expect(await text("tbody tr")).toContain("healthy");
    expect(await tile("endpoints healthy")).toBe("1 / 1");
  });

  test("follows what happens", async () => {
    await service.stream(CHAT);
    await shown(
      `[...document.querySelectorAll("dt")].find((dt) => dt.textContent.startsWith("first token p50")).nextSibling.textContent !== "–"`,
    );
    await admin.post(`/endpoint/${service.engine.address}/drain`);
    await shown(`document.querySelector("tbody tr").innerText.includes("draining")`);
    expect(await tile("endpoints healthy")).toBe("0 / 1");
    await admin.post(`/endpoint/${service.engine.address}/undrain`);
    await shown(`document.querySelector("tbody tr").innerText.includes("healthy")`);
    await admin.post("/healthcheck/fail");
    await shown(`document.querySelector("#state").innerText === "DRAINING"`);
    await admin.post("/healthcheck/ok");
  });

  test("filters endpoints by word and by trouble", async () => {
    const all = await visibleRows();
    expect(all).toBeGreaterThan(0);
    await page.fill("#words", "no such endpoint");
    expect(await visibleRows()).toBe(0);
    await page.fill("#words", service.engine.address.slice(0, 9));
    expect(await visibleRows()).toBe(all);
    await page.fill("#words", "");
    await page.check("#troubled");
    expect(await visibleRows()).toBe(0);
    await page.uncheck("#troubled");
    expect(await visibleRows()).toBe(all);
  });

  test("has other colours in the dark", async () => {
    const background = () => page.evaluate<string>(`getComputedStyle(document.body).backgroundColor`);
    await page.emulateMedia({ colorScheme: "light" });
    const light = await background();
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await background()).not.toBe(light);
  });

  test("its policy is kept: nothing was refused, and nothing fetched from elsewhere", () => {
    expect(faults).toEqual([]);
    expect(fetched.filter((url) => !url.startsWith(admin.url) && !url.startsWith("data:"))).toEqual([]);
    expect(fetched).toContain(`${admin.url}/live`);
  });

  test("of several workers shows them all, with links to the others", async () => {
    const workers = new Workers({ index: 2, count: 3 });
    const gateway = await startGateway([service.engine.address]);
    const worker = await startAdmin(gateway, {}, workers);
    workers.take({ workers: [admin.url, worker.url, "http://127.0.0.1:9"] });
    await page.goto(worker.url);
    await shown(`!document.querySelector("#workers").hidden`);
    const rows = await page.evaluate<string[]>(
      `[...document.querySelectorAll("#workers tbody tr")].map((row) => row.innerText.split("\\t").slice(0, 2).join(" "))`,
    );
    expect(rows).toEqual(["1 LIVE", "2 LIVE", "3 no answer", "2 of 3 "]);
    expect(await page.evaluate<string[]>(`[...document.querySelectorAll("#workers a")].map((a) => a.href)`)).toEqual([
      `${admin.url}/`,
      "http://127.0.0.1:9/",
    ]);
    expect(await text("#worker")).toBe("worker 2 of 3");
    expect(faults).toEqual([]);
    await worker.stop();
    await gateway.stop();
    await page.goto(admin.url);
    await shown(`document.querySelectorAll("tbody tr").length > 0`);
    expect(await page.evaluate<boolean>(`document.querySelector("#workers").hidden`)).toBe(true);
  });

  test("says when the gateway answers no more", async () => {
    await admin.stop();
    await shown(`!document.querySelector("#lost").hidden`);
  });
});
