import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { imageFromBase64, imageFromUrl } from "../../../../gateway/formats/parts.ts";
import { ImageDetail } from "../../../../proto/gen/svc/inference/v1/messages.ts";
import { faultOf, thrownBy } from "./thrown-by.ts";

const IMAGES = {
  "image/png": Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 1, 2, 3]),
  "image/jpeg": Buffer.from([0xff, 0xd8, 0xff, 0xe0, 9]),
  "image/gif": Buffer.from("GIF89a..."),
  "image/webp": Buffer.from("RIFF\x01\x02\x03\x04WEBPVP8 "),
};
const png = IMAGES["image/png"].toString("base64");
const path = ["messages", 0, "content", 1, "image_url", "url"];
const param = "messages[0].content[1].image_url.url";

describe("images", () => {
  test.each(Object.entries(IMAGES))("a data URL of %s is taken with its digest", (mimeType, data) => {
    expect(imageFromUrl(`data:${mimeType};base64,${data.toString("base64")}`, path, ImageDetail.LOW)).toEqual({
      source: { $case: "data", value: data },
      mimeType,
      detail: ImageDetail.LOW,
      contentSha256: createHash("sha256").update(data).digest(),
    });
  });

  test.each([
    [`DATA:image/PNG;base64,${png}`, "image/png"],
    [`data:image/png;charset=utf-8;base64,${png}`, "image/png"],
    [`data:image/jpg;base64,${IMAGES["image/jpeg"].toString("base64")}`, "image/jpeg"],
    // The type comes from the data, whatever the client declared.
    [`data:image/gif;base64,${png}`, "image/png"],
    [`data:image/bmp;base64,${IMAGES["image/webp"].toString("base64")}`, "image/webp"],
  ])("%s is as good", (url, mimeType) => {
    expect(imageFromUrl(url, path).mimeType).toBe(mimeType);
  });

  test.each([
    ["https://example.com/a.png", "unsupported_value"],
    ["", "unsupported_value"],
    [`data:image/png;hex,${png}`, "invalid_value"],
    ["data:image/png;base64,", "invalid_value"],
    [`data:image/png;base64,${png.slice(0, 8)} ${png.slice(8)}`, "invalid_value"],
    [`data:image/gif;base64,${Buffer.from("BM not one").toString("base64")}`, "invalid_value"],
    [`data:image/svg+xml;base64,${Buffer.from("<svg/>").toString("base64")}`, "unsupported_value"],
  ])("%s is refused", (url, code) => {
    expect(faultOf(() => imageFromUrl(url, path))).toEqual({ code, param });
  });

  test("type and data may be separate fields", () => {
    const paths = { mimeType: ["source", "media_type"], data: ["source", "data"] };
    expect(imageFromBase64("image/png", png, paths).detail).toBe(ImageDetail.UNSPECIFIED);
    expect(faultOf(() => imageFromBase64("image/bmp", "Qk0=", paths)).param).toBe("source.media_type");
    expect(faultOf(() => imageFromBase64("image/webp", "Qk0=", paths)).param).toBe("source.data");
  });

  test("no message repeats the URL", () => {
    const secret = "https://example.com/?token=hidden-word";
    expect(thrownBy(() => imageFromUrl(secret, path)).message).not.toContain("hidden-word");
  });
});
