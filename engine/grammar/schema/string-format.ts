import { type Expression, parseExpression } from "../expressions/regular-expression.ts";

type Format = {
  /** The expression of what a model may write. */
  readonly written: string;
  /** The expression of what is right as well. Default: nothing. */
  readonly allowed?: string;
};

const DAY = "(?:0[1-9]|1\\d|2[0-8])";
const YEAR_DAY = `(?:(?:0[13578]|1[02])-(?:${DAY}|29|3[01]|30)|(?:0[469]|11)-(?:${DAY}|29|30)|02-${DAY})`;
/** The multiples of four other than 00. */
const FOURS = "(?:0[48]|[2468][048]|[13579][26])";
const DATE = `(?:\\d{4}-${YEAR_DAY}|(?:\\d{2}${FOURS}|${FOURS}00)-02-29)`;
const CLOCK = "(?:[01]\\d|2[0-3]):[0-5]\\d";
const TIME = `${CLOCK}:[0-5]\\d(?:\\.\\d{1,9})?(?:Z|[+-]${CLOCK})`;
const ANY_TIME = `${CLOCK}:(?:[0-5]\\d|60)(?:\\.\\d+)?(?:[Zz]|[+-]${CLOCK})`;
const HEX = "[0-9A-Fa-f]";
const ATOM = "[a-zA-Z0-9_+-]{1,64}";
const LABEL = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?";
const BYTE = "(?:\\d|[1-9]\\d|1\\d\\d|2[0-4]\\d|25[0-5])";

/** The formats that a grammar enforces (RFC 3339, 4122, 5321 in its plain form); others are notes. */
const FORMATS: Readonly<Record<string, Format>> = {
  date: { written: DATE },
  time: { written: TIME, allowed: ANY_TIME },
  "date-time": { written: `${DATE}T${TIME}`, allowed: `${DATE}[Tt ]${ANY_TIME}` },
  uuid: { written: `${HEX}{8}(?:-${HEX}{4}){3}-${HEX}{12}` },
  email: {
    written: `${ATOM}(?:\\.${ATOM}){0,4}@${LABEL}(?:\\.${LABEL}){1,4}`,
    allowed: '(?:[^\\s@]+|"[^"]*")@[^\\s@]+',
  },
  ipv4: { written: `${BYTE}(?:\\.${BYTE}){3}` },
};

/** The expressions of the formats, which are parsed once. */
const EXPRESSIONS = new Map(
  Object.entries(FORMATS).map(([name, { written, allowed }]) => [
    name,
    { written: parseExpression(written), allowed: parseExpression(allowed ?? written) },
  ]),
);

/**
 * Returns the whole text of a string of this format as a model writes it; undefined where the format is a note only.
 */
export function writtenFormat(name: string): Expression | undefined {
  return EXPRESSIONS.get(name)?.written;
}

/** Returns the whole text of any string of this format; undefined where the format is a note only. */
export function allowedFormat(name: string): Expression | undefined {
  return EXPRESSIONS.get(name)?.allowed;
}
