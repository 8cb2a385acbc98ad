import { expect, test } from "vitest";
import { connectionsFor, openFilesLimit } from "../../../../gateway/overload/open-files.ts";

test("the soft limit counts, in Linux's format", () => {
  const text = [
    "Limit                     Soft Limit           Hard Limit           Units     ",
    "Max processes             95961                95961                processes ",
    "Max open files            1024                 524288               files     ",
  ].join("\n");
  expect(openFilesLimit(text)).toBe(1_024);
  expect(openFilesLimit("Max open files            unlimited            unlimited            files")).toBeUndefined();
  expect(openFilesLimit("")).toBeUndefined();
});

test("a quarter of the descriptors is left to everything else", () => {
  expect([256, 1_024, 1].map(connectionsFor)).toEqual([192, 768, 1]);
});
