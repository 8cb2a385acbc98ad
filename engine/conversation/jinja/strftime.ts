const part = (options: Intl.DateTimeFormatOptions) => {
  const format = new Intl.DateTimeFormat("en-US", options);
  return (date: Date) => format.format(date);
};
const two = (number: number) => String(number).padStart(2, "0");

const FIELDS: Readonly<Record<string, (date: Date) => string>> = {
  "%": () => "%",
  A: part({ weekday: "long" }),
  B: part({ month: "long" }),
  H: (date) => two(date.getHours()),
  I: (date) => two(date.getHours() % 12 || 12),
  M: (date) => two(date.getMinutes()),
  S: (date) => two(date.getSeconds()),
  Y: (date) => String(date.getFullYear()),
  a: part({ weekday: "short" }),
  b: part({ month: "short" }),
  d: (date) => two(date.getDate()),
  m: (date) => two(date.getMonth() + 1),
  p: (date) => (date.getHours() < 12 ? "AM" : "PM"),
  y: (date) => two(date.getFullYear() % 100),
};

/** Formats a time in the machine's time zone by a pattern of Python's `strftime`. Unknown fields stay unchanged. */
export function strftime(date: Date, pattern: string): string {
  return pattern.replace(/%(.)/g, (field, name: string) => FIELDS[name]?.(date) ?? field);
}
