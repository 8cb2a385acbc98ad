import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { PAGE, PAGE_SECURITY_POLICY } from "../../../../../../gateway/http/admin/page/page.ts";

test("the policy lets exactly the page's own style and script run", () => {
  for (const name of ["style", "script"]) {
    const blocks = [...PAGE.matchAll(new RegExp(`<${name}(?: type="module")?>(.*?)</${name}>`, "gs"))];
    expect(blocks).toHaveLength(1);
    const hash = createHash("sha256")
      .update(blocks[0]?.[1] ?? "")
      .digest("base64");
    expect(PAGE_SECURITY_POLICY).toContain(`${name}-src 'sha256-${hash}'`);
  }
  expect(PAGE_SECURITY_POLICY).not.toContain("unsafe");
  expect(PAGE_SECURITY_POLICY).toContain("default-src 'none'");
});

test("the page fetches nothing from elsewhere, and writes nothing as markup", () => {
  expect(PAGE).not.toMatch(/(src|href)="(https?:)?\/\//);
  expect(PAGE).not.toMatch(/innerHTML|outerHTML|insertAdjacentHTML|document\.write|\son\w+=/);
});
