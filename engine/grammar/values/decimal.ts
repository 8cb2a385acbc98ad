export type Decimal = {
  readonly isNegative: boolean;
  readonly whole: bigint;
  /** The digits after the point, without trailing zeros. */
  readonly fraction: string;
};

export function decimalOf(value: number): Decimal {
  const [digits = "0", exponent = "0"] = Math.abs(value).toString().split("e");
  const [before = "0", behind = ""] = digits.split(".");
  const shift = Number(exponent);
  const all = before + behind;
  const point = before.length + shift;
  const whole = point <= 0 ? "0" : all.slice(0, point).padEnd(point, "0");
  const fraction = (point <= 0 ? "0".repeat(-point) + all : all.slice(point)).replace(/0+$/, "");
  return { isNegative: value < 0, whole: BigInt(whole), fraction };
}
