// One sample behind a batch norm: as it comes out in training, and in evaluation.
"use strict";

const EPS = 1e-5;

/** Mean and biased variance. */
function statistics(values) {
  const mean = average(values);
  return { mean, variance: average(values.map((value) => (value - mean) ** 2)) };
}

const normalized = (value, { mean, variance }) => (value - mean) / Math.sqrt(variance + EPS);
const unbiased = (variance, count) => (variance * count) / (count - 1);

/** The stored statistics after these batches; momentum is the weight of the new one. */
function stored(batches, momentum) {
  let [running, spread] = [0, 1];
  for (const batch of batches) {
    const { mean, variance } = statistics(batch);
    running = (1 - momentum) * running + momentum * mean;
    spread = (1 - momentum) * spread + momentum * unbiased(variance, batch.length);
  }
  return { mean: running, variance: spread };
}

/** Where a value comes out: in batches with these others, by the statistics that training has
 * stored, and by those of the same batches as they are now. */
function outputs(value, others, training, now, momentum) {
  const found = now.map(statistics);
  const anew = {
    mean: average(found.map(({ mean }) => mean)),
    variance: average(found.map(({ variance }, k) => unbiased(variance, now[k].length))),
  };
  return {
    batch: others.map((rest) => normalized(value, statistics([value, ...rest]))),
    stored: normalized(value, stored(training, momentum)), anew: normalized(value, anew),
    left: (1 - momentum) ** training.length,
  };
}

explorers.gap = { outputs };

(() => {
  const [MEAN, DEVIATION, MOST, TRIES] = [3, 2, 64, 30];
  const NOISE = normals(400 * MOST);
  const [left, right, bottom] = [46, 312, 136];
  const toX = across(left, right, -3, 7);
  const inside = (value) => Math.min(7, Math.max(-3, value));

  /** Batch k; its mean was lower by the drift for each of the last twenty batches still to come. */
  const rows = (k, size, ago, drift) => {
    const mean = MEAN - DEVIATION * drift * Math.min(ago, 20);
    return NOISE.slice(k * MOST, k * MOST + Number(size)).map((noise) => mean + DEVIATION * noise);
  };

  function found({ momentum, size, steps, drift, shift }) {
    const move = DEVIATION * shift;
    const others = Array.from({ length: TRIES }, (_, k) =>
      rows(360 + k, size - 1, 0, 0).map((value) => value + move));
    const batches = (amount) =>
      Array.from({ length: steps }, (_, k) => rows(k, size, steps - 1 - k, amount));
    const value = MEAN + DEVIATION + move;
    return outputs(value, others, batches(drift), batches(0), Number(momentum));
  }

  function draw({ put, handle, scale }, state, set) {
    const { batch, stored, anew } = found(state);
    scale(toX, bottom, [-3, 7], [-2, 0, 2, 4, 6]);
    ["batch", "stored", "new"].forEach((name, k) =>
      put(name, "text", { x: 0, y: 28 + 40 * k }, name));
    const ways = batch.map((value, k) => `M${toX(inside(value))} ${16 + (k % 5) * 4}h0`).join("");
    put("batches", "path", { d: ways, class: "dots" });
    put("anew", "path", { d: `M${toX(inside(anew)) - 7} 104l7 -7l7 7l-7 7z`, class: "two" });
    put("gap", "line", { x1: toX(inside(anew)), x2: toX(inside(stored)), y1: 64, y2: 64, class: "two dashed" });
    put("what", "text", { x: right, y: bottom + 34, class: "end" }, "output of one sample, in deviations");
    const slope = (found({ ...state, shift: 1 }).stored - found({ ...state, shift: 0 }).stored) || 1;
    handle("shift", {
      x: toX(inside(stored)), y: 64, label: "shift of the test data, in deviations",
      says: fixed(state.shift), now: state.shift, min: -2, max: 2,
      to: ({ x }) => set({ shift: state.shift + (across(-3, 7, left, right)(x) - stored) / slope }),
      by: (along, up) => set({ shift: state.shift + 0.1 * (along + up) }),
    });
  }

  const percent = (share) => `${fixed(100 * share, 0)} %`;

  function table(state) {
    const { batch, stored, anew, left } = found(state);
    const { mean, variance } = statistics(batch);
    return [
      ["statistics of", "output"], ["the batch", fixed(mean)], ["the batch, deviation", fixed(Math.sqrt(variance))],
      ["training, stored", fixed(stored)], ["training, new", fixed(anew)], ["left of the start", percent(left)],
    ];
  }

  function reason(state, { batch, stored, anew, left }) {
    if (Math.abs(stored - anew) > 0.3) {
      if (left > 0.05) return `The stored values still hold ${percent(left)} of the start.`;
      if (state.momentum > 0.5) return "Only the last batch counts in what is stored.";
      return "What is stored describes the batches of some steps ago.";
    }
    if (Math.abs(state.shift) > 0.25) return "The batch takes the shift away, stored statistics leave it.";
    if (statistics(batch).variance > 0.25) return "Here the batches are at fault, not what is stored.";
    return "The two agree.";
  }

  function say(state) {
    const all = found(state);
    const { mean, variance } = statistics(all.batch);
    return `In train mode this sample comes out at ${fixed(mean)}, give or take ` +
      `${fixed(Math.sqrt(variance))} from batch to batch; in eval mode at ${fixed(all.stored)}. ` +
      reason(state, all);
  }

  explore("gap", {
    title: "Explorer: one sample in training and in evaluation",
    hint: "Bring the stored dot over the diamond by the fields. Then drag it: the test data move along.",
    size: [320, 176],
    state: {
      momentum: { start: "0.001", among: ["0.001", "0.01", "0.1", "0.5", "0.99"] },
      size: { start: "64", among: ["2", "4", "8", "16", "64"] },
      steps: { start: 300, min: 1, max: 350, step: 1 },
      drift: { start: 0, min: 0, max: 0.2, step: 0.01 },
      shift: { start: 0, min: -2, max: 2 },
    },
    fields: {
      momentum: { label: "momentum" },
      size: { label: "batch size" },
      steps: { label: "steps", shown: (value) => `= ${value}` },
      drift: { label: "drift", shown: (value) => `= ${fixed(value)}` },
    },
    draw,
    say,
    table,
  });
})();
