import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FinishReason } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { FITS, HAS_BROWSER, NO_BROWSER, type OpenPage, openPage, PHONE } from "../support/browser-page.ts";
import { blockEnd, delta, finished, started, textAnswer, toolCallStart } from "../support/events/events.ts";
import { type ScriptedService, startScriptedService } from "../support/gateway/scripted-service.ts";

/* The page to try the API in a real browser, over a real gateway. */

const MARKUP = `<img src=x onerror="document.title='hit'">`;
const LAST = `[...document.querySelectorAll("#log article")].at(-1)`;
const CALLED = finished(FinishReason.TOOL_CALLS);
const FORMATS = ["chat", "messages", "responses"] as const;

describe.skipIf(!HAS_BROWSER)(`the page to try the API${NO_BROWSER}`, () => {
  let service: ScriptedService;
  let opened: OpenPage;

  beforeAll(async () => {
    service = await startScriptedService({ gateway: { tryIt: {} } });
    opened = await openPage();
  });
  afterAll(async () => {
    await opened?.close();
    await service?.stop();
  });

  const FREE = `!document.querySelector("#send").disabled`;
  const last = (what: string) => opened.page.evaluate<string>(`${LAST}${what}`);

  async function ask(text: string): Promise<void> {
    await opened.page.fill("#text", text);
    await opened.page.press("#text", "Enter");
    await opened.shown(`${FREE} && document.querySelector("#text").value === ""`);
  }

  /** Shows one of the views of the last answer, and resolves to its text. */
  async function view(name: string): Promise<string> {
    await opened.page.evaluate(
      `[...${LAST}.querySelectorAll(".views button")].find((one) => one.textContent === ${JSON.stringify(name)}).click()`,
    );
    return last(`.querySelector(".wire").innerText`);
  }

  test("says what to do without a key, and takes it from the address, out of it, and keeps it for the tab", async () => {
    const { page, text, shown } = opened;
    await page.goto(`${service.gateway.baseUrl}/`);
    await page.fill("#text", "Hello");
    await page.press("#text", "Enter");
    expect(await text("#status")).toContain("Paste the API key first");
    expect(await page.evaluate<string>("document.activeElement.id")).toBe("key");
    expect(await page.evaluate<string>("document.querySelector('nav a').pathname")).toBe("/openapi.json");
    await page.goto(`${service.gateway.baseUrl}/#key=${service.gateway.key}`);
    await shown(`document.querySelectorAll("#model option").length > 1`);
    expect(page.url()).toBe(`${service.gateway.baseUrl}/`);
    await page.reload();
    await shown(`document.querySelectorAll("#model option").length > 1`);
    expect(await page.evaluate<string>("JSON.stringify([localStorage, document.cookie])")).toBe('[{},""]');
    expect(await page.evaluate<number>("sessionStorage.length")).toBe(1);
    expect(await page.evaluate<number>(`document.querySelectorAll("#examples button").length`)).toBe(4);
  });

  test("shows the API description, down to the fields of a request", async () => {
    const { page, shown, text } = opened;
    const open = (selector: string) => page.evaluate(`document.querySelector("${selector}").open = true`);
    const height = () => page.evaluate<number>(`document.querySelector("#reference").offsetHeight`);
    expect(await height()).toBe(0);
    await page.click("#show-reference");
    await shown(`document.querySelectorAll("#reference > details").length > 8`);
    await open("#reference details");
    await shown(`document.querySelector("#reference details details")`);
    await open("#reference details details");
    await shown(`document.querySelector("#reference dl")`);
    expect(await text("#reference dl")).toContain("messages list of ChatMessage, required\nThe conversation so far.");
    await page.click("#show-reference");
    expect(await height()).toBe(0);
  });

  test.each(FORMATS.flatMap((format) => [[format, true] as const, [format, false] as const]))(
    "talks in %s, streamed: %s, continues the conversation, and shows what went over the wire",
    async (format, stream) => {
      const { page } = opened;
      await page.click("#clear");
      await page.selectOption("#format", format);
      await (stream ? page.check("#stream") : page.uncheck("#stream"));
      service.play(() => [textAnswer(`# First\n\n- *one* ${MARKUP}\n\n\`\`\`\nlet a;\n\`\`\``)]);
      await ask("What's first?");
      expect(await last(".innerText")).toContain(MARKUP);
      const parts = `.querySelector(".text").children].map((one) => one.localName + " " + one.innerText)`;
      expect(await page.evaluate<string[]>(`[...${LAST}${parts}`)).toEqual([
        "h5 First",
        `ul one ${MARKUP}`,
        "pre let a;",
      ]);
      expect(await last(`.querySelector(".facts").innerText`)).toMatch(
        /^done in [\d.]+ s, first token after .*\d+ tokens in.*, \d+ out, req_\w+$/,
      );
      const events = await view("Events");
      if (stream) expect(events).toMatch(/^\+\d\.\d{3} s\n(event|data): /);
      else expect(events).toContain("tick Stream");
      expect(await view("Raw reply")).toMatch(/^HTTP 200\n.*x-request-id: req_.*First/s);
      const curl = await view("Request as curl");
      expect(curl).toContain(`'${service.gateway.baseUrl}/v1/${format === "chat" ? "chat/completions" : format}'`);
      expect(curl).toContain("Bearer $KEY");
      expect(curl).toContain("What'\\''s first?");
      expect(curl).not.toContain(service.gateway.key);
      service.play(() => [textAnswer("Second.")]);
      await ask("And then?");
      expect(await last(".innerText")).toContain("Second.");
      const roles = service.lastRequest().messages.map(({ role }) => role);
      expect(roles).toHaveLength(3);
      expect(new Set([roles[0], roles[2]]).size).toBe(1);
      expect(roles[1]).not.toBe(roles[0]);
      expect(await page.evaluate<string>("document.title")).toBe("Try the API");
    },
  );

  test.each(FORMATS.flatMap((format) => [[format, true] as const, [format, false] as const]))(
    "sends tools and a schema in %s, and shows calls, streamed: %s",
    async (format, stream) => {
      const { page } = opened;
      await page.selectOption("#format", format);
      await (stream ? page.check("#stream") : page.uncheck("#stream"));
      service.play(() => [
        [started(), toolCallStart(0, "get_weather"), delta(0, '{"city":"Oslo"}'), blockEnd(0), CALLED],
      ]);
      await page.click("#clear");
      await page.click("#examples button:nth-of-type(3)");
      await opened.shown(`${FREE} && ${LAST}.querySelector(".call")`);
      expect(await page.evaluate<number>(`document.querySelector("#examples").offsetHeight`)).toBe(0);
      expect(await last(`.querySelector(".call").innerText`)).toMatch(/^calls get_weather {"city": ?"Oslo"}$/);
      expect(service.lastRequest().tools.map(({ name }) => name)).toEqual(["get_weather"]);
      service.play(() => [textAnswer('{"city":"Rome","days":3}')]);
      await page.click("#clear");
      await page.click("#examples button:nth-of-type(4)");
      await opened.shown(`${FREE} && ${LAST}.innerText.includes("Rome")`);
      expect(JSON.stringify(service.lastRequest().outputConstraint)).toContain("Oslo");
      expect(service.lastRequest().tools).toEqual([]);
      await page.uncheck("#with-schema");
    },
  );

  test("shows refusals in each format as they came, and keeps them out of the conversation", async () => {
    const { page } = opened;
    for (const format of FORMATS) {
      await page.click("#clear");
      await page.selectOption("#format", format);
      await page.evaluate(
        `document.querySelector("#model").add(new Option("no-such-model", "no-such-model", true, true))`,
      );
      await page.fill("#text", "Hello?");
      await page.press("#text", "Enter");
      await opened.shown(`${FREE} && document.querySelector("#status").innerText.startsWith("failed, status 4")`);
      expect(JSON.parse(await last(`.querySelector(".said pre").innerText`))).toHaveProperty("error.message");
      expect(await page.evaluate<string>(`document.querySelector("#log h3").innerText`)).toContain("not part");
      expect(await page.evaluate<string>(`document.querySelector("#text").value`)).toBe("Hello?");
    }
    await page.selectOption("#model", "svc-qwen");
    await page.check("#with-tools");
    await page.fill("#tools", "[{");
    await page.press("#text", "Enter");
    expect(await opened.text("#status")).toContain("Tools, as JSON: ");
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
