import { expect, test } from "vitest";
import { Placeholders } from "../../../../engine/conversation/placeholders.ts";

const joined = (spans: readonly { readonly text: string }[] | undefined) => spans?.map(({ text }) => text).join("");

test("texts are restored at their placeholders, marked as the caller's", () => {
  const placeholders = new Placeholders();
  const spans = placeholders.restore(`<user>${placeholders.forText("hi")}</user>`);
  expect(spans?.map(({ text, origin }) => [text, origin])).toEqual([
    ["<user>", "template"],
    ["hi", "caller"],
    ["</user>", "template"],
  ]);
});

test.each([0, 1, 2, 3])("a text that the template encoded as JSON %i times is restored in that encoding", (times) => {
  const text = 'a "quoted" \\ line\n';
  const placeholders = new Placeholders();
  const encode = (value: string) => {
    let result = value;
    for (let count = 0; count < times; count++) result = JSON.stringify(result);
    return result;
  };
  expect(joined(placeholders.restore(encode(placeholders.forText(text))))).toBe(encode(text));
});

test("a quoted text is held in its quoted form, and stays the caller's", () => {
  const placeholders = new Placeholders();
  const quoted = placeholders.quoted(`a ${placeholders.forText("b\n")}`, (text) => `'${text.replace("\n", "\\n")}'`);
  const spans = placeholders.restore(`[${quoted}]`);
  expect(spans?.map(({ text, origin }) => [text, origin])).toEqual([
    ["['", "template"],
    ["a b\\n", "caller"],
    ["']", "template"],
  ]);
  expect(placeholders.quoted("a", (text) => `"${text}"`)).toBe('"a"');
});

test.each([
  ["shortened", (placeholder: string) => placeholder.slice(0, -2)],
  ["shortened to almost nothing", (placeholder: string) => placeholder.slice(0, 2)],
  ["in capitals", (placeholder: string) => placeholder.toUpperCase()],
  ["in capitals and JSON", (placeholder: string) => JSON.stringify(placeholder).toUpperCase()],
])("a changed placeholder is detected: %s", (_name, change) => {
  const placeholders = new Placeholders();
  expect(placeholders.restore(change(placeholders.forText("hi")))).toBeUndefined();
});

test("held text that looks like the placeholder of another rendering is only text", () => {
  const foreign = new Placeholders().forText("other");
  const placeholders = new Placeholders();
  expect(Placeholders.mustHold(foreign)).toBe(true);
  expect(joined(placeholders.restore(placeholders.forText(foreign)))).toBe(foreign);
});
