import { execFile, execFileSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FinishReason, type GenerateRequest } from "../../proto/gen/svc/inference/v1/inference_service.ts";
import { Modality } from "../../proto/gen/svc/inference/v1/node_service.ts";
import {
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
import {
  blockEnd,
  delta,
  finished,
  reasoningStart,
  started,
  textAnswer,
  textStart,
  toolCallStart,
} from "../support/events/events.ts";
import { type ScriptedService, startScriptedService } from "../support/gateway/scripted-service.ts";

/* The page to try the API in a real browser, over a real gateway. */

const MARKUP = `<img src=x onerror="document.title='hit'">`;
const LAST = `[...document.querySelectorAll("#log article")].at(-1)`;
const CALLED = finished(FinishReason.TOOL_CALLS);
const FORMATS = ["chat", "messages", "responses"] as const;
const ROOT = join(import.meta.dirname, "../..");
/** A picture of one pixel. */
const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);

/** Python with both official packages, if there is one. */
const PYTHON = [join(ROOT, ".tools/bin/python"), "python3"].find((python) => {
  try {
    execFileSync(python, ["-c", "import openai, anthropic"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
});

/** Returns the parts of a request that do not differ when it is sent again. */
const comparable = ({ messages, sampling, outputConstraint, model, stream }: GenerateRequest) => ({
  ...{ messages, sampling, outputConstraint, model, stream },
});

describe.skipIf(!HAS_BROWSER)(`the page to try the API${NO_BROWSER}`, () => {
  let service: ScriptedService;
  let opened: OpenPage;

  beforeAll(async () => {
    service = await startScriptedService({
      engine: { inputModalities: [Modality.TEXT, Modality.IMAGE] },
      gateway: { tryIt: {} },
    });
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

  /** Presses a button of an article, the last one by default. */
  const press = (name: string, article = LAST) =>
    opened.page.evaluate(
      `[...${article}.querySelectorAll("button")].find((one) => one.textContent === ${JSON.stringify(name)}).click()`,
    );

  /** Shows one of the views of the last answer, and resolves to its text. */
  async function view(name: string): Promise<string> {
    await press(name);
    return last(`.querySelector(".wire").innerText`);
  }

  const messages = () => service.lastRequest().messages;
  const kept = () => opened.page.evaluate<string>("JSON.stringify(sessionStorage)");

  test("the page to try the API says what to do without a key, and takes it from the address, out of it, and keeps it for the tab", async () => {
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
    expect(await kept()).toBe(JSON.stringify({ "api-key": service.gateway.key }));
    expect(await page.evaluate<number>(`document.querySelectorAll("#examples button").length`)).toBe(4);
  });

  test("the page to try the API shows the API description, down to the fields of a request", async () => {
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
        "h4 First",
        `ul one ${MARKUP}`,
        "pre let a;",
      ]);
      expect(await last(`.querySelector(".facts").innerText`)).toMatch(
        /^done in [\d.]+ s, first token after .*\d+ tokens in.*, \d+ out \([\d.]+ a second\), req_\w+$/,
      );
      const events = await view("Events");
      if (stream) expect(events).toMatch(/^\+\d\.\d{3} s (chat\.completion\.chunk|message_start|response\.created)/);
      else expect(events).toContain("tick Stream");
      expect(await view("Reply")).toMatch(
        stream ? /^HTTP 200\n.*x-request-id: req_.*First/s : /^HTTP 200\n.*x-request-id: req_.*usage {\d}/s,
      );
      const curl = await view("curl");
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
    "carries parallel calls in %s to the end of their turn, streamed: %s",
    async (format, stream) => {
      const { page, text } = opened;
      await page.click("#clear");
      await page.selectOption("#format", format);
      await (stream ? page.check("#stream") : page.uncheck("#stream"));
      const call = (index: number, city: string) => [
        ...[toolCallStart(index, "get_weather"), delta(index, `{"city":"${city}"}`), blockEnd(index)],
      ];
      service.play(() => [[started(), ...call(0, "Oslo"), ...call(1, "Rome"), CALLED]]);
      await page.click("#examples button:nth-of-type(3)");
      await opened.shown(`${FREE} && document.querySelector(".results")?.offsetParent`);
      await page.fill("#text", "And now?");
      await page.press("#text", "Enter");
      expect(await text("#status")).toContain("Send the results of the calls first");
      await press("Fill in an example");
      expect(
        await page.evaluate<string[]>(`[...document.querySelectorAll(".results textarea")].map(({ value }) => value)`),
      ).toEqual([expect.stringContaining('"city":"Oslo"'), expect.stringContaining('"city":"Rome"')]);
      await page.fill(".results label:nth-of-type(2) textarea", "Sun in Rome.");
      service.play(() => [textAnswer("Rain in Oslo, sun in Rome.")]);
      await page.click(".results button[type=submit]");
      await opened.shown(`${FREE} && ${LAST}.innerText.includes("sun in Rome")`);
      const said = JSON.stringify(messages());
      expect(said).toMatch(/_0".*Oslo.*_1".*Rome.*_0".*rainy.*_1".*Sun in Rome\./);
      expect(
        await page.evaluate<number>(
          `[...document.querySelectorAll(".results")].filter((one) => one.offsetParent).length`,
        ),
      ).toBe(0);
      service.play(() => [textAnswer("Third.")]);
      await ask("And now?");
      expect(await last(".innerText")).toContain("Third.");
      expect(messages()).toHaveLength(6);
      await page.uncheck("#with-tools");
    },
  );

  test("the page to try the API sends reasoning back behind a call, in the format that it came in", async () => {
    const { page } = opened;
    for (const format of FORMATS) {
      await page.click("#clear");
      await page.selectOption("#format", format);
      await page.evaluate(`document.querySelector("#settings details").open = true`);
      await page.selectOption("#effort", "low");
      service.play(() => [
        [started(), reasoningStart(0), delta(0, "They ask for Oslo."), blockEnd(0)],
        [toolCallStart(1, "get_weather"), delta(1, '{"city":"Oslo"}'), blockEnd(1), CALLED],
      ]);
      await page.check("#stream");
      await page.click("#examples button:nth-of-type(3)");
      await opened.shown(`${FREE} && document.querySelector(".results")?.offsetParent`);
      expect(await last(`.querySelector(".reasoning").innerText`)).toBe("They ask for Oslo.");
      await page.fill(".results textarea", "Rain.");
      service.play(() => [textAnswer("It rains.")]);
      await page.click(".results button[type=submit]");
      await opened.shown(`${FREE} && ${LAST}.innerText.includes("It rains.")`);
      expect([format, JSON.stringify(messages())]).toEqual([format, expect.stringContaining("They ask for Oslo.")]);
    }
    await page.selectOption("#effort", "");
    await page.uncheck("#with-tools");
  });

  test("the page to try the API keeps conversations for the tab, opens, exports and deletes them, and keeps nothing where that is off", async () => {
    const { page, shown, text } = opened;
    await page.evaluate("sessionStorage.removeItem('talks')");
    await page.reload();
    for (const name of ["One", "Two"]) {
      await page.click("#clear");
      service.play(() => [textAnswer(`**${name}** it is. ${MARKUP}`)]);
      await ask(`Say ${name}.`);
    }
    await page.reload();
    await shown(`document.querySelectorAll("#model option").length > 1`);
    expect(await text("#log")).toMatch(/Say Two\..*Two it is\. <img.*done in .*req_/s);
    expect(await page.evaluate<string>(`${LAST}.querySelector("strong").innerText`)).toBe("Two");
    expect(await page.evaluate<string>("document.querySelector('#talks').innerText")).toBe("Say One.\nSay Two.");
    await page.evaluate(
      `(() => { const list = document.querySelector("#talks"); list.selectedIndex = 0; list.dispatchEvent(new Event("change")); })()`,
    );
    expect(await text("#log")).toContain("One it is.");
    service.play(() => [textAnswer("On it goes.")]);
    await ask("And?");
    expect(messages()).toHaveLength(3);
    const [file] = await Promise.all([page.waitForEvent("download"), page.click("#export")]);
    const exported = await readFile(await file.path(), "utf8");
    expect(JSON.parse(exported).turns.map(({ text: said }: { text: string }) => said)).toEqual([
      ...["Say One.", `**One** it is. ${MARKUP}`, "And?", "On it goes."],
    ]);
    expect(exported).not.toContain(service.gateway.key);
    expect(JSON.parse(await kept()).talks).not.toContain(service.gateway.key);
    await page.click("#delete");
    expect(await text("#log")).toContain("Two it is.");
    await page.uncheck("#keep");
    expect(await kept()).toBe('{"keep":"off"}');
    await page.reload();
    expect(await text("#log")).toBe("");
    expect(await kept()).toBe('{"keep":"off"}');
    await page.check("#keep");
    await page.goto(`${service.gateway.baseUrl}/#key=${service.gateway.key}`);
    await shown(`document.querySelectorAll("#model option").length > 1`);
  });

  test("the page to try the API asks anew for an answer, and replaces a message with all behind it", async () => {
    const { page, text } = opened;
    await page.click("#clear");
    for (const name of ["One", "Two"]) {
      service.play(() => [textAnswer(`${name}.`)]);
      await ask(`Say ${name}.`);
    }
    service.play(() => [textAnswer("Other.")]);
    await press("Regenerate");
    await opened.shown(`${FREE} && ${LAST}.innerText.includes("Other.")`);
    expect(await text("#log")).not.toContain("\nTwo.\n");
    expect(messages()).toHaveLength(3);
    await press("Edit", `document.querySelector("#log article")`);
    expect(await page.evaluate<number>(`document.querySelectorAll("#log .old").length`)).toBe(4);
    await page.click("#cancel");
    expect(await page.evaluate<number>(`document.querySelectorAll("#log .old").length`)).toBe(0);
    await press("Edit", `document.querySelector("#log article")`);
    expect(await page.evaluate<string>(`document.querySelector("#text").value`)).toBe("Say One.");
    service.play(() => [textAnswer("Three.")]);
    await ask("Say three.");
    expect(messages()).toHaveLength(1);
    expect(await text("#log")).toMatch(/^You\s+Say three\./);
    expect(await text("#log")).not.toMatch(/One|Two|Other/);
    await page.check("#with-tools");
    await page.fill("#tools", "[{}]");
    await press("Regenerate");
    await opened.shown(`${FREE} && document.querySelector("#status").innerText.startsWith("failed, status 400")`);
    expect(await text("#log")).toMatch(/Say three\..*Three\..*tools/s);
    await page.reload();
    await opened.shown(`document.querySelectorAll("#model option").length > 1`);
    expect(await text("#log")).toMatch(/Say three\..*Three\./s);
    opened.faults.splice(0);
  });

  test("the page to try the API shows one request in two formats side by side, and goes on with the first", async () => {
    const { page } = opened;
    await page.click("#clear");
    await page.selectOption("#format", "responses");
    await page.check("#with-compare");
    await page.selectOption("#format-2", "messages");
    let count = 0;
    service.play(() => {
      count += 1;
      return [textAnswer(`Answer ${count}.`)];
    });
    await page.fill("#text", "Twice?");
    await page.press("#text", "Enter");
    await opened.shown(`${FREE} && document.querySelectorAll(".pair article").length === 2`);
    const heads = `[...document.querySelectorAll(".pair h3")].map((head) => head.innerText)`;
    expect(await page.evaluate<string[]>(heads)).toEqual(["svc-qwen, responses", "svc-qwen, messages"]);
    const first = await page.evaluate<string>(`document.querySelector(".pair .text").innerText`);
    await page.uncheck("#with-compare");
    await ask("And?");
    expect(JSON.stringify(messages()[1])).toContain(first);
    expect(messages()).toHaveLength(3);
  });

  test.each(FORMATS)("the page to try the API sends an image and the further fields that %s has", async (format) => {
    const { page } = opened;
    await page.click("#clear");
    await page.selectOption("#format", format);
    await page.evaluate(`document.querySelector("#settings details").open = true`);
    const has = (id: string) => page.evaluate<boolean>(`document.querySelector("#${id}").offsetParent !== null`);
    expect([await has("seed"), await has("stop-texts")]).toEqual([format === "chat", format !== "responses"]);
    for (const [id, value] of [
      ["top-p", "0.5"],
      ["cache-key", "mine"],
      ["stop-texts", "END\nSTOP"],
      ["seed", "7"],
    ] as const)
      if (await has(id)) await page.fill(`#${id}`, value);
    await page.selectOption("#effort", "high");
    await page.check("#with-tools");
    await page.uncheck("#parallel");
    await page.setInputFiles("#images", { name: "dot.png", mimeType: "image/png", buffer: PIXEL });
    service.play(() => [textAnswer("A dot.")]);
    await ask("What is this?");
    const request = service.lastRequest();
    expect(JSON.stringify(request.messages)).toContain("image/png");
    const stop = format === "responses" ? [] : ["END", "STOP"];
    expect(request.sampling).toMatchObject({ topP: 0.5, stop, ...(format === "chat" && { seed: 7 }) });
    const body = JSON.parse((await view("curl")).split("-d '")[1]?.slice(0, -1) ?? "");
    expect(JSON.stringify(body)).toMatch(/"(parallel_tool_calls":false|disable_parallel_tool_use":true)/);
    expect(JSON.stringify(body)).toMatch(/"(prompt_cache_key|user_id)":"mine"/);
    expect(JSON.stringify(body)).toMatch(/"(reasoning_)?effort":"high"/);
    expect(await page.evaluate<number>(`document.querySelectorAll("#log img").length`)).toBe(1);
    for (const id of ["top-p", "cache-key"]) await page.fill(`#${id}`, "");
    await page.evaluate(`for (const id of ["seed", "stop-texts"]) document.getElementById(id).value = ""`);
    await page.selectOption("#effort", "");
    await page.uncheck("#with-tools");
    await page.check("#parallel");
  });

  test("the page to try the API folds and colours JSON, and opens it part by part", async () => {
    const { page } = opened;
    await page.click("#clear");
    await page.uncheck("#stream");
    service.play(() => [textAnswer("Hello.")]);
    await ask("Hello?");
    expect(await view("Request")).toMatch(/^POST \/v1\/responses\s+{\d+}/);
    expect(await page.evaluate<string>(`${LAST}.querySelector(".json .string").innerText`)).toBe('"svc-qwen"');
    const closed = `${LAST}.querySelector(".wire details:not([open])")`;
    expect(await page.evaluate<number>(`${closed}.childElementCount`)).toBe(1);
    await page.evaluate(`${closed}.open = true`);
    await opened.shown(`${LAST}.querySelectorAll(".wire details:not([open])").length === 0`);
    await page.check("#stream");
  });

  test.each(FORMATS.flatMap((format) => [[format, true] as const, [format, false] as const]))(
    "shows programs that send the request of %s again, streamed: %s",
    async (format, stream) => {
      const { page } = opened;
      await page.click("#clear");
      await page.selectOption("#format", format);
      await (stream ? page.check("#stream") : page.uncheck("#stream"));
      await page.fill("#system", 'It\'s "brief" \\ now.');
      service.play(() => [textAnswer('{"city":"Rome","days":3}')]);
      await page.click("#examples button:nth-of-type(4)");
      await opened.shown(`${FREE} && ${LAST}.innerText.includes("Rome")`);
      const sent = JSON.stringify(comparable(service.lastRequest()));
      const folder = await mkdtemp(join(tmpdir(), "svc-code-"));
      try {
        for (const [name, program] of [
          ["curl", ["sh"]],
          ["TypeScript", ["node"]],
          ...(PYTHON ? [["Python", [PYTHON]] as const] : []),
        ] as const) {
          const seen = service.engine.backend.requests.length;
          const file = join(ROOT, "node_modules", `.svc-code-${process.pid}.mjs`);
          const path = name === "TypeScript" ? file : join(folder, "program");
          await writeFile(path, await view(name));
          try {
            const { stdout } = await promisify(execFile)(program[0], [path], {
              env: { ...process.env, KEY: service.gateway.key },
            });
            expect(stdout).toContain("Rome");
          } finally {
            await rm(path);
          }
          expect(service.engine.backend.requests).toHaveLength(seen + 1);
          expect([name, JSON.stringify(comparable(service.lastRequest()))]).toEqual([name, sent]);
        }
        expect(await view("Agents")).toContain(
          format === "messages" ? "ANTHROPIC_BASE_URL='http" : "/v1' OPENAI_API_KEY",
        );
      } finally {
        await rm(folder, { recursive: true });
        await page.fill("#system", "");
        await page.uncheck("#with-schema");
      }
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

  test("the page to try the API shows refusals in each format as they came, and keeps them out of the conversation", async () => {
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
    await page.reload();
    await opened.shown(`document.querySelectorAll("#model option").length > 1`);
    // A refused request is said in the console, too.
    opened.faults.splice(0);
  });

  test("the page to try the API fits a phone, has other colours in the dark, and labels every field", async () => {
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

  test.each(LOOKS)(
    "the page to try the API breaks no rule of accessibility, $width pixels wide, $colorScheme",
    async (look) => {
      const { page } = opened;
      await page.click("#clear");
      expect(await violations(page, look)).toEqual([]);
      await page.evaluate(`for (const one of document.querySelectorAll("#request, #request details")) one.open = true`);
      await page.check("#with-tools");
      await page.check("#with-compare");
      service.play(() => [
        [started(), textStart(0), delta(0, "# Head\n\n- `one`"), blockEnd(0)],
        [toolCallStart(1, "get_weather"), delta(1, "{}"), blockEnd(1), CALLED],
      ]);
      await ask("Both?");
      await page.uncheck("#with-compare");
      for (const name of ["Text", "Events", "Reply", "Request", "curl"]) {
        await press(name, `document.querySelector(".pair")`);
        await page.evaluate(`document.querySelector(".wire summary")?.click()`);
        expect([name, await violations(page, look)]).toEqual([name, []]);
      }
      await page.click("#show-reference");
      expect(await violations(page, look)).toEqual([]);
      await page.click("#show-reference");
      await page.uncheck("#with-tools");
    },
  );

  test("the page to try the API is all within reach of the keyboard", async () => {
    const { page } = opened;
    await press("Text", `document.querySelector(".pair")`);
    expect(await unreached(page)).toEqual([]);
  });

  test("the policy of the page to try the API is kept: nothing was refused, and nothing fetched from elsewhere", () => {
    expect(opened.faults).toEqual([]);
    const elsewhere = opened.fetched.filter(
      (url) => !url.startsWith(service.gateway.baseUrl) && !url.startsWith("data:"),
    );
    expect(elsewhere).toEqual([]);
  });
});
