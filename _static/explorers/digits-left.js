// How many digits of a variance rounding leaves: five formulas, four formats.
"use strict";

/** Rounds to so many binary digits, to even where two are as near; from the largest on, infinity. */
function roundedTo(digits, lowest, largest) {
  return (value) => {
    if (value === 0 || !Number.isFinite(value)) return value;
    const power = Math.max(Math.floor(Math.log2(Math.abs(value))), lowest);
    const unit = 2 ** (power - digits + 1);
    const scaled = value / unit; // exact: a power of two
    const down = Math.floor(scaled);
    const up = scaled - down > 0.5 || (scaled - down === 0.5 && down % 2 !== 0);
    const found = (down + (up ? 1 : 0)) * unit;
    return Math.abs(found) > largest ? Math.sign(found) * Infinity : found;
  };
}

const FORMATS = {
  float64: (value) => value,
  float32: Math.fround,
  bfloat16: roundedTo(8, -126, 3.3895313892515355e38),
  float16: roundedTo(11, -14, 65504),
};

/** Each operation of a formula, rounded: the numbers are added one after the other. */
function arithmetic(round) {
  const mean = (x) => round(x.reduce((sum, value) => round(sum + value), 0) / x.length);
  const less = (x, c) => x.map((value) => round(value - c));
  const squares = (x) => x.map((value) => round(value * value));
  return { mean, less, squares };
}

function onePass(x, round) {
  const { mean, squares } = arithmetic(round);
  const m = mean(x);
  return round(mean(squares(x)) - round(m * m));
}

function twoPass(x, round) {
  const { mean, less, squares } = arithmetic(round);
  return mean(squares(less(x, mean(x))));
}

function welford(x, round) {
  let [mean, total] = [0, 0];
  x.forEach((value, k) => {
    const step = round(value - mean);
    mean = round(mean + round(step / (k + 1)));
    total = round(total + round(step * round(value - mean)));
  });
  return round(total / x.length);
}

const FORMULAS = {
  one_pass: onePass,
  shifted: (x, round) => onePass(arithmetic(round).less(x, x[0]), round),
  welford,
  two_pass: twoPass,
  centred_twice: (x, round) => {
    const { mean, less } = arithmetic(round);
    return twoPass(less(x, mean(x)), round);
  },
};

/** The variance of these numbers, stored in a format, by a formula computed in it. */
function variance(x, formula, format) {
  const stored = x.map(FORMATS[format]);
  const exact = FORMULAS.centred_twice(stored, FORMATS.float64);
  const found = FORMULAS[formula](stored, FORMATS[format]);
  return { stored, found, exact, finite: Number.isFinite(found), error: Math.abs(found / exact - 1) };
}

explorers["digits-left"] = { variance };

(() => {
  const NAMES = { one_pass: "one pass", shifted: "shifted", welford: "Welford",
    two_pass: "two passes", centred_twice: "centred twice" };
  const NOISE = normals(1024);
  const COLUMNS = Array.from({ length: 16 }, (_, k) => NOISE.slice(64 * k, 64 * k + 64));
  const [left, right, top, bottom] = [30, 308, 12, 168];
  const [toX, toY] = [across(left, right, 0, 5), across(bottom, top, 0, 16)];

  /** The digits left at a mean of 10^power deviations in the worst of 16 columns, 16 at most; NaN
   * where it is not finite. */
  function digits(formula, format, power) {
    const at = (column) => column.map((noise) => noise + 10 ** power);
    const error = Math.max(...COLUMNS.map((column) => variance(at(column), formula, format).error));
    return Number.isFinite(error) ? Math.min(16, Math.max(0, -Math.log10(error))) : NaN;
  }

  const curves = {};
  function curve(formula, format) {
    const name = `${formula} ${format}`;
    curves[name] ??= Array.from({ length: 21 }, (_, k) => [k / 4, digits(formula, format, k / 4)])
      .filter(([, value]) => !Number.isNaN(value));
    return curves[name].map(([power, value]) => `${toX(power)},${toY(value)}`).join(" ");
  }

  function draw({ put, handle, scale }, { power, format, formula }, set) {
    scale(toX, bottom, [0, 5], [0, 1, 2, 3, 4, 5], (value) => ["1", "10", "100", "10³", "10⁴", "10⁵"][value]);
    for (const value of [0, 4, 8, 12, 16]) {
      put(`digits ${value}`, "text", { x: 0, y: toY(value) + 4 }, String(value));
    }
    put("what", "text", { x: right, y: bottom + 34, class: "end" }, "mean, in deviations");
    put("digits", "text", { x: left + 6, y: top + 2 }, "digits left");
    for (const other of Object.keys(FORMULAS)) {
      const kind = other === formula ? "two" : "axis";
      put(other, "polyline", { points: curve(other, format), class: kind, fill: "none" });
    }
    const now = digits(formula, format, power);
    handle("power", {
      x: toX(power), y: toY(Number.isNaN(now) ? 0 : now), label: "mean over deviation", now: power,
      says: fixed(10 ** power, 0), min: 0, max: 5,
      to: ({ x }) => set({ power: across(0, 5, left, right)(x) }),
      by: (along, up) => set({ power: power + 0.1 * (along + up) }),
    });
  }

  const written = (value) => (Number.isNaN(value) ? "overflow" : fixed(value, 1));

  function table({ power, format }) {
    const row = (name) => [NAMES[name], written(digits(name, format, power))];
    return [["formula", `digits in ${format}`], ...Object.keys(FORMULAS).map(row)];
  }

  function say({ power, format, formula }) {
    const now = digits(formula, format, power);
    const at = `In ${format}, with a mean of ${fixed(10 ** power, 0)} deviations,`;
    const whose = `the variance by “${NAMES[formula]}”`;
    if (Number.isNaN(now)) return `${at} ${whose} overflows.`;
    return now < 0.05 ? `${at} ${whose} has no digit left.`
      : `${at} ${whose} has ${fixed(now, 1)} digits left.`;
  }

  explore("digits-left", {
    title: "Explorer: the digits that are left of a variance",
    hint: "Drag the dot to the right: where does one pass lose all? Then choose another formula.",
    size: [320, 208],
    state: {
      power: { start: 2, min: 0, max: 5 },
      format: { start: "float32", among: Object.keys(FORMATS) },
      formula: { start: "one_pass", among: Object.keys(FORMULAS) },
    },
    fields: {
      format: { label: "format" },
      formula: { label: "formula", named: NAMES },
    },
    draw,
    say,
    table,
  });
})();
