import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FITS, HAS_BROWSER, NO_BROWSER, type OpenPage, openPage, PHONE } from "../support/browser-page.ts";
import { textAnswer } from "../support/events/events.ts";
import { type ScriptedService, startScriptedService } from "../support/gateway/scripted-service.ts";

/* The page to try the API in a real browser, over a real gateway. */

const MARKUP = `<img src=x onerror="document.title='hit'">`;
const LAST = `[...document.querySelectorAll("#log article")].at(-1).innerText`;

describe.skipIf(!HAS_BROWSER)(`the page to try the API${NO_BROWSER}`, () => {
  let service: ScriptedService;
  let opened: OpenPage;

  beforeAll(async () => {
    service = await startScriptedService({ gateway: { tryIt: {} } });
    opened = await openPage();
    await opened.page.goto(`${service.gateway.baseUrl}/`);
    await opened.page.fill("#key", service.gateway.key);
    await opened.page.click("#text");
    await opened.shown(`document.querySelectorAll("#models option").length > 1`);
  });
  afterAll(async () => {
    await opened?.close();
    await service?.stop();
  });

  async function ask(text: string): Promise<void> {
    await opened.page.fill("#text", text);
    await opened.page.click("#send");
    await opened.shown(`!document.querySelector("#send").disabled`);
  }

  test.each([
    ["chat", true],
    ["messages", true],
    ["responses", true],
    ["chat", false],
    ["messages", false],
    ["responses", false],
  ])("talks in %s, streamed: %s, and continues the conversation", async (format, stream) => {
    const { page, shown, text } = opened;
    await page.click("#clear");
    await page.selectOption("#format", format);
    await (stream ? page.check("#stream") : page.uncheck("#stream"));
    service.play(() => [textAnswer(`First ${MARKUP}`)]);
    await ask("What is first?");
    expect(await page.evaluate<string>(LAST)).toContain(`First ${MARKUP}`);
    expect(await text("#status")).toMatch(/^done in [\d.]+ s, first token .*\d+ tokens in, \d+ out$/);
    service.play(() => [textAnswer("Second.")]);
    await ask("And then?");
    await shown(`${LAST}.includes("Second.")`);
    const roles = service.lastRequest().messages.map(({ role }) => role);
    expect(roles).toHaveLength(3);
    expect(new Set([roles[0], roles[2]]).size).toBe(1);
    expect(roles[1]).not.toBe(roles[0]);
    expect(await page.evaluate<string>("document.title")).toBe("Try the API");
  });

  test("shows the request as a command without the key", async () => {
    const { page, text } = opened;
    await page.selectOption("#format", "messages");
    await page.fill("#text", "It's me");
    const curl = await text("#curl");
    expect(curl).toContain(`'${service.gateway.baseUrl}/v1/messages'`);
    expect(curl).toContain(`It'\\''s me`);
    expect(curl).toContain("Bearer $SVC_API_KEY");
    expect(curl).not.toContain(service.gateway.key);
    const kept = await page.evaluate<string>("JSON.stringify([localStorage, sessionStorage, document.cookie])");
    expect(kept).toBe('[{},{},""]');
  });

  test("shows refusals, in each format", async () => {
    const { page } = opened;
    for (const format of ["chat", "messages", "responses"]) {
      await page.selectOption("#format", format);
      await page.fill("#model", "no-such-model");
      await ask("Hello?");
      expect(await page.evaluate<string>(LAST)).toContain("no-such-model");
      expect(await opened.text("#status")).toMatch(/^failed, status 4/);
    }
    await page.fill("#model", "svc-qwen");
    // A refused request is said in the console, too.
    opened.faults.splice(0);
  });

  test("fits a phone, has other colours in the dark, and labels every field", async () => {
    const { page } = opened;
    await page.setViewportSize(PHONE);
    expect(await page.evaluate<boolean>(FITS)).toBe(true);
    const colour = () => page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    await page.emulateMedia({ colorScheme: "light" });
    const light = await colour();
    await page.emulateMedia({ colorScheme: "dark" });
    expect(await colour()).not.toBe(light);
    const unlabelled = `[...document.querySelectorAll("input, select, textarea")].filter((field) => field.labels.length === 0).length`;
    expect(await page.evaluate<number>(unlabelled)).toBe(0);
  });

  test("its policy is kept: nothing was refused, and nothing fetched from elsewhere", () => {
    expect(opened.faults).toEqual([]);
    const elsewhere = opened.fetched.filter(
      (url) => !url.startsWith(service.gateway.baseUrl) && !url.startsWith("data:"),
    );
    expect(elsewhere).toEqual([]);
  });
});
