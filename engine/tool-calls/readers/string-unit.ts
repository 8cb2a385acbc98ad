const SIMPLE: Readonly<Record<string, string>> = {
  '"': '"',
  "\\": "\\",
  "/": "/",
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
};

/** A character or escape, the closing quote, or text that is incomplete or invalid. `length` is in UTF-16 units. */
export type StringUnit =
  | { readonly kind: "text"; readonly text: string; readonly length: number }
  | { readonly kind: "end"; readonly length: 1 }
  | { readonly kind: "needs-more" }
  | { readonly kind: "invalid" };

/** A surrogate pair of `\u` escapes is one unit; an escape of half a pair has no UTF-8 form and stays as written. */
export function readStringUnit(text: string, at: number): StringUnit {
  const char = text.charAt(at);
  if (char === "") return { kind: "needs-more" };
  if (char === '"') return { kind: "end", length: 1 };
  if (char < " ") return { kind: "invalid" };
  if (char !== "\\") {
    const whole = String.fromCodePoint(text.codePointAt(at) ?? 0);
    return { kind: "text", text: whole, length: whole.length };
  }
  const letter = text.charAt(at + 1);
  if (letter === "") return { kind: "needs-more" };
  if (letter === "u") return readUnicodeEscape(text, at);
  const decoded = SIMPLE[letter];
  return decoded === undefined ? { kind: "invalid" } : { kind: "text", text: decoded, length: 2 };
}

function readUnicodeEscape(text: string, at: number): StringUnit {
  const first = escapedUnit(text, at);
  if (typeof first === "string") return { kind: first };
  if (first < 0xd800 || first > 0xdfff) return { kind: "text", text: String.fromCharCode(first), length: 6 };
  if (first <= 0xdbff) {
    const second = escapedUnit(text, at + 6);
    if (second === "needs-more") return { kind: "needs-more" };
    if (second !== "invalid" && second >= 0xdc00 && second <= 0xdfff) {
      return { kind: "text", text: String.fromCharCode(first, second), length: 12 };
    }
  }
  return { kind: "text", text: text.slice(at, at + 6), length: 6 };
}

function escapedUnit(text: string, at: number): number | "needs-more" | "invalid" {
  let unit = 0;
  for (let i = 0; i < 6; i += 1) {
    const char = text.charAt(at + i);
    if (char === "") return "needs-more";
    if (i < 2) {
      if (char !== (i === 0 ? "\\" : "u")) return "invalid";
      continue;
    }
    const digit = "0123456789abcdef".indexOf(char.toLowerCase());
    if (digit < 0) return "invalid";
    unit = unit * 16 + digit;
  }
  return unit;
}
