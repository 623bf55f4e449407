// Weight decay in front of a norm: the length of the weights on its way to a balance.
"use strict";

/** Where rate and decay lead weights whose gradient has the length 1 / n at the length n. */
function balance(rate, decay) {
  const product = rate * decay;
  return {
    length: (rate / decay / (2 - product)) ** 0.25,
    angle: Math.acos(1 - product), time: 1 / (4 * product),
  };
}

/** Before each step the length of the weights, and the effective rate and the angle of the step. */
function course(rate, decay, start, count) {
  const keep = 1 - rate * decay;
  const found = { lengths: [start], rates: [], angles: [] };
  for (let step = 0; step < count; step += 1) {
    const n = found.lengths[step];
    found.rates.push(rate / keep / n ** 2);
    found.angles.push(Math.atan2(rate / n, keep * n));
    found.lengths.push(Math.hypot(keep * n, rate / n));
  }
  return found;
}

explorers.balance = {
  both: (rate, decay, start, count) =>
    ({ ...course(rate, decay, start, count), balance: balance(rate, decay) }),
};

(() => {
  const [STEPS, LOW, HIGH] = [600, -0.5, 2];
  const [left, right] = [34, 308];
  const toX = across(left, right, 0, STEPS);
  const toLength = across(112, 16, LOW, HIGH);
  const toAngle = across(226, 146, 0, 30);
  const degrees = (angle) => (180 / Math.PI) * angle;

  function found({ rate, decay, start }) {
    const given = [10 ** rate, 10 ** decay];
    return { ...course(...given, 10 ** start, STEPS), end: balance(...given) };
  }

  function draw({ put, handle, scale }, state, set) {
    const { lengths, angles, end } = found(state);
    const path = (name, values, toY) => {
      const points = values.map((value, k) => `${toX(k)},${toY(value)}`).join(" ");
      put(name, "polyline", { points, class: "one" });
    };
    const level = (name, y) =>
      put(name, "line", { x1: left, x2: right, y1: y, y2: y, class: "two dashed" });
    const low = (length) => toLength(Math.min(HIGH, Math.max(LOW, Math.log10(length))));
    const least = (angle) => toAngle(Math.min(30, degrees(angle)));
    for (const [value, y] of [[1, toLength(0)], [10, toLength(1)], [100, toLength(2)],
      ["0°", toAngle(0)], ["15°", toAngle(15)], ["30°", toAngle(30)]]) {
      put(`at ${value}`, "text", { x: left - 6, y: y + 4, class: "end" }, String(value));
    }
    put("length", "text", { x: right, y: 24, class: "end" }, "length of the weights");
    put("angle", "text", { x: right, y: 150, class: "end" }, "angle of a step");
    scale(toX, 228, [0, STEPS], [0, 200, 400, 600]);
    put("steps", "text", { x: right, y: 262, class: "end" }, "step");
    level("end of length", low(end.length));
    level("end of angle", least(end.angle));
    path("lengths", lengths, low);
    path("angles", angles, least);
    handle("start", {
      x: left, y: toLength(state.start), label: "length at the start", says: fixed(10 ** state.start, 1),
      now: state.start, min: LOW, max: HIGH,
      to: ({ y }) => set({ start: across(LOW, HIGH, 112, 16)(y) }),
      by: (along, up) => set({ start: state.start + 0.05 * (along + up) }),
    });
  }

  function table(state) {
    const { lengths, rates, angles, end } = found(state);
    const row = (head, values, end) =>
      [head, ...[values[0], values[STEPS - 1], end].map((value) => fixed(value, digits(value)))];
    const digits = (value) => (value < 1 ? 3 : 2);
    const rate = found({ ...state, start: Math.log10(end.length) }).rates[0];
    return [
      ["", "start", "600", "balance"], row("length", lengths, end.length),
      row("effective rate", rates, rate),
      row("angle, degrees", angles.map(degrees), degrees(end.angle)),
    ];
  }

  function say(state) {
    const { lengths, end } = found(state);
    const there = Math.abs(lengths[STEPS] / end.length - 1) < 0.01;
    const time = end.time < 1e4 ? fixed(end.time, 0) : end.time.toPrecision(1);
    const balanced = `The balance is a length of ${fixed(end.length)} and ` +
      `${fixed(degrees(end.angle), 1)} degrees a step; near it a distance shrinks by e in ${time} steps.`;
    return there ? `${balanced} It is reached.` : `${balanced} After 600 steps it is not reached.`;
  }

  const power = (value) => `= ${(10 ** value).toPrecision(2)}`;
  explore("balance", {
    title: "Explorer: the balance of weight decay",
    hint: "Drag the start: does the end move? Then change rate and decay, but not their product.",
    size: [320, 268],
    state: {
      rate: { start: 0, min: -2, max: 0.9, step: 0.1 },
      decay: { start: -2, min: -4, max: -1, step: 0.1 },
      start: { start: 1.5, min: LOW, max: HIGH },
    },
    fields: { rate: { label: "rate η", shown: power }, decay: { label: "decay λ", shown: power } },
    draw,
    say,
    table,
  });
})();
