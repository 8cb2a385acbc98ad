import { includes } from "./code-set.ts";
import type { Expression } from "./regular-expression.ts";

/**
 * Whether an expression matches anywhere. All readings are followed at once, so that time grows with sizes only.
 * `afford` receives the positions of each step; if it returns false, the result is undefined.
 */
export function matchesExpression(
  expression: Expression,
  text: string,
  afford: (places: number) => boolean,
): boolean | undefined {
  const codes = [...text].map((char) => char.codePointAt(0) ?? 0);
  const ends = (part: Expression, starts: ReadonlySet<number>): ReadonlySet<number> | undefined => {
    if (!afford(starts.size + 1)) return undefined;
    switch (part.kind) {
      case "start":
        return new Set(starts.has(0) ? [0] : []);
      case "end":
        return new Set(starts.has(codes.length) ? [codes.length] : []);
      case "set": {
        const taken = [...starts].filter((at) => at < codes.length && includes(part.ranges, codes[at] ?? -1));
        return new Set(taken.map((at) => at + 1));
      }
      case "sequence": {
        let now: ReadonlySet<number> | undefined = starts;
        for (const each of part.parts) now = now && ends(each, now);
        return now;
      }
      case "choice": {
        const all = new Set<number>();
        for (const option of part.options) {
          const found = ends(option, starts);
          if (found === undefined) return undefined;
          for (const at of found) all.add(at);
        }
        return all;
      }
      case "repeat":
        return repeated(part, starts);
    }
  };
  const repeated = (part: Extract<Expression, { kind: "repeat" }>, starts: ReadonlySet<number>) => {
    let now: ReadonlySet<number> | undefined = starts;
    for (let count = 0; count < part.min && now && now.size > 0; count += 1) now = ends(part.part, now);
    if (now === undefined) return undefined;
    const all = new Set(now);
    for (let count = part.min; now.size > 0 && count < (part.max ?? Number.POSITIVE_INFINITY); count += 1) {
      const next = ends(part.part, now);
      if (next === undefined) return undefined;
      // Positions found before have been followed already.
      now = new Set([...next].filter((at) => !all.has(at)));
      for (const at of now) all.add(at);
    }
    return all;
  };
  const found = ends(expression, new Set(Array.from({ length: codes.length + 1 }, (_, at) => at)));
  return found && found.size > 0;
}
