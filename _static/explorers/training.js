// The network that does not train: dense layers learn 1,437 digits in the page, in a worker of its
// own. Nothing is loaded, and nothing runs, before a reader asks for it.
"use strict";

(() => {
  /** All that is computed; it is sent to the worker as text, so it uses nothing from outside. */
  function core() {
    const PIXELS = 64, WIDTH = 32, CLASSES = 10, EPS = 1e-5, GROUPS = 4, MOMENTUM = 0.1;
    const BINS = 44, LOWEST = -8, HIGHEST = 3; // histograms of log10 of sizes

    /** out (n, m) += a (n, k) b (k, m), two rows of b at a time: k is even. Zeros of a, which a ReLU
     * leaves, cost nothing. */
    function addProduct(out, a, b, n, k, m) {
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < k; j += 2) {
          const one = a[i * k + j], two = a[i * k + j + 1];
          if (one === 0 && two === 0) continue;
          for (let o = i * m, w = j * m, end = o + m; o < end; o++, w++) out[o] += one * b[w] + two * b[w + m];
        }
      }
      return out;
    }
    /** (k, m): the transposed a (n, k) times d (n, m), two samples at a time: n is even. */
    function gradientOfWeights(a, d, n, k, m) {
      const out = new Float64Array(k * m);
      for (let i = 0; i < n; i += 2) {
        for (let j = 0; j < k; j++) {
          const one = a[i * k + j], two = a[(i + 1) * k + j];
          if (one === 0 && two === 0) continue;
          for (let o = j * m, w = i * m, end = o + m; o < end; o++, w++) out[o] += one * d[w] + two * d[w + m];
        }
      }
      return out;
    }
    function transposed(w, k, m) {
      const out = new Float64Array(w.length);
      for (let j = 0; j < k; j++) for (let c = 0; c < m; c++) out[c * k + j] = w[j * m + c];
      return out;
    }

    /** Which of the entries of (n, f) share a statistic: where each set starts, its stride and count. */
    function sets(kind, n, f) {
      if (kind === "batch") return { starts: Array.from({ length: f }, (_, c) => c), stride: f, count: n };
      const count = kind === "group" ? f / GROUPS : f;
      return { starts: Array.from({ length: (n * f) / count }, (_, s) => s * count), stride: 1, count };
    }
    function normalize(z, kind, n, f) {
      const { starts, stride, count } = sets(kind, n, f);
      const xhat = new Float64Array(z.length), rstd = new Float64Array(starts.length);
      const mean = new Float64Array(starts.length), power = new Float64Array(starts.length);
      starts.forEach((start, s) => {
        const end = start + count * stride;
        if (kind !== "RMS") for (let p = start; p < end; p += stride) mean[s] += z[p] / count;
        for (let p = start; p < end; p += stride) power[s] += (z[p] - mean[s]) ** 2 / count;
        rstd[s] = 1 / Math.sqrt(power[s] + EPS);
        for (let p = start; p < end; p += stride) xhat[p] = (z[p] - mean[s]) * rstd[s];
      });
      return { xhat, rstd, mean, power };
    }
    function normalizeBackward(d, { xhat, rstd }, kind, n, f) {
      const { starts, stride, count } = sets(kind, n, f), dz = new Float64Array(d.length);
      starts.forEach((start, s) => {
        const end = start + count * stride;
        let mean = 0, along = 0;
        for (let p = start; p < end; p += stride) {
          mean += d[p] / count;
          along += (d[p] * xhat[p]) / count;
        }
        if (kind === "RMS") mean = 0;
        for (let p = start; p < end; p += stride) dz[p] = rstd[s] * (d[p] - mean - xhat[p] * along);
      });
      return dz;
    }

    const ACT = {
      ReLU: [(y) => (y > 0 ? y : 0), (a) => (a > 0 ? 1 : 0)],
      tanh: [Math.tanh, (a) => 1 - a * a],
    };
    const sizes = (depth) => [PIXELS, ...Array(depth).fill(WIDTH), CLASSES];

    /** Random weights of variance 2/inputs, times a scale. normal() gives one normal number. */
    function begin({ depth, scale }, normal) {
      const wide = sizes(depth), layers = [];
      for (let i = 0; i <= depth; i++) {
        const root = scale * Math.sqrt(2 / wide[i]), f = wide[i + 1];
        const w = Float64Array.from({ length: wide[i] * f }, () => root * normal());
        const ones = () => new Float64Array(f).fill(1), zeros = () => new Float64Array(f);
        layers.push({ w, gamma: ones(), beta: zeros(), mean: zeros(), power: ones() });
      }
      return layers; // of the last one only w and beta are used
    }

    /** What every layer makes of x (n, pixels). running: with the averages that batch norm kept. */
    function forward(layers, x, n, { norm, activation }, running) {
      const wide = sizes(layers.length - 1), [act] = ACT[activation], kept = [];
      let h = x;
      layers.forEach(({ w, gamma, beta, mean, power }, i) => {
        const f = wide[i + 1], z = addProduct(new Float64Array(n * f), h, w, n, wide[i], f);
        const own = i === layers.length - 1 || norm === "none" ? { xhat: z } : null;
        const known = !own && running && norm === "batch";
        const found = own ?? (known ? { xhat: z.map((v, p) => (v - mean[p % f]) / Math.sqrt(power[p % f] + EPS)) }
          : normalize(z, norm, n, f));
        const y = new Float64Array(n * f), last = i === layers.length - 1;
        for (let p = 0; p < n * f; p += f) {
          for (let c = 0; c < f; c++) {
            const v = gamma[c] * found.xhat[p + c] + beta[c];
            y[p + c] = last ? v : act(v);
          }
        }
        kept.push({ h, ...found });
        h = y;
      });
      return { logits: h, kept };
    }

    /** The mean cross-entropy, and its gradient with respect to the logits. */
    function crossEntropy(logits, labels) {
      const n = labels.length, d = new Float64Array(logits.length);
      let loss = 0, right = 0;
      for (let i = 0; i < n; i++) {
        const row = logits.subarray(i * CLASSES, (i + 1) * CLASSES), most = Math.max(...row);
        let sum = 0;
        for (const v of row) sum += Math.exp(v - most);
        loss += (Math.log(sum) + most - row[labels[i]]) / n;
        right += row[labels[i]] === most && Number.isFinite(most);
        for (let c = 0; c < CLASSES; c++) d[i * CLASSES + c] = (Math.exp(row[c] - most) / sum - (c === labels[i])) / n;
      }
      return { loss, right, d };
    }

    /** One step of descent, in place: the loss before it, and what it met. */
    function step(layers, x, labels, setting) {
      const n = labels.length, depth = layers.length - 1, wide = sizes(depth), { norm, rate } = setting;
      const { logits, kept } = forward(layers, x, n, setting, false);
      const { loss, d } = crossEntropy(logits, labels), slope = ACT[setting.activation][1];
      const gradients = [];
      let upstream = d;
      for (let i = depth; i >= 0; i--) {
        const { w, gamma, beta, mean, power } = layers[i], { h, xhat } = kept[i], f = wide[i + 1];
        const dgamma = new Float64Array(f), dbeta = new Float64Array(f);
        const hidden = i < depth, inner = new Float64Array(n * f);
        for (let p = 0; p < n * f; p += f) {
          for (let c = 0; c < f; c++) {
            const v = upstream[p + c];
            dgamma[c] += v * xhat[p + c];
            dbeta[c] += v;
            inner[p + c] = hidden ? v * gamma[c] : v;
          }
        }
        const dz = hidden && norm !== "none" ? normalizeBackward(inner, kept[i], norm, n, f) : inner;
        const dw = gradientOfWeights(h, dz, n, wide[i], f);
        gradients[i] = dw;
        if (i > 0) {
          upstream = addProduct(new Float64Array(n * wide[i]), dz, transposed(w, wide[i], f), n, f, wide[i]);
          for (let p = 0; p < upstream.length; p++) upstream[p] *= slope(h[p]);
        }
        if (hidden && norm === "batch") {
          mean.forEach((v, c) => (mean[c] += MOMENTUM * (kept[i].mean[c] - v)));
          power.forEach((v, c) => (power[c] += MOMENTUM * ((kept[i].power[c] * n) / (n - 1) - v)));
        }
        for (let p = 0; p < w.length; p++) w[p] -= rate * dw[p];
        dbeta.forEach((v, c) => (beta[c] -= rate * v));
        if (hidden) dgamma.forEach((v, c) => (gamma[c] -= rate * v));
      }
      return { loss, outputs: kept.slice(1).map(({ h }) => h), gradients: gradients.slice(0, depth) };
    }

    /** How many of a hundred digits are named rightly: "eval", or in train mode in batches of 32,
     * "mixed" or "sorted" by what they show. */
    function accuracy(layers, x, labels, setting, judged) {
      const order = Array.from(labels, (_, i) => i);
      if (judged === "sorted") order.sort((a, b) => labels[a] - labels[b] || a - b);
      const size = judged === "eval" ? labels.length : 32;
      let right = 0;
      for (let at = 0; at < order.length; at += size) {
        const { rows, named } = pick(x, labels, order.slice(at, at + size));
        const { logits } = forward(layers, rows, named.length, setting, judged === "eval");
        right += crossEntropy(logits, named).right;
      }
      return (100 * right) / labels.length;
    }
    function pick(x, labels, chosen) {
      const rows = new Float64Array(chosen.length * PIXELS);
      chosen.forEach((row, i) => rows.set(x.subarray(row * PIXELS, (row + 1) * PIXELS), i * PIXELS));
      return { rows, named: chosen.map((row) => labels[row]) };
    }

    /** The shares of all values whose log10 of the size falls into each bin; zeros are in none. */
    function histogram(values) {
      const counts = new Float64Array(BINS);
      for (const v of values) {
        const place = Math.floor((BINS * (Math.log10(Math.abs(v)) - LOWEST)) / (HIGHEST - LOWEST));
        if (v !== 0 && Number.isFinite(v)) counts[Math.min(BINS - 1, Math.max(0, place))] += 1 / values.length;
      }
      return counts;
    }

    /** Random numbers with a seed: uniform ones (mulberry32), and normal ones. */
    function random(seed) {
      let state = seed;
      const uniform = () => {
        state = (state + 0x6d2b79f5) | 0;
        let t = Math.imul(state ^ (state >>> 15), state | 1);
        t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
      };
      const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
      return { uniform, normal };
    }
    /** Batches without end: every digit once, then all in another order. */
    function* batches(count, size, uniform) {
      const order = Array.from({ length: count }, (_, i) => i);
      for (let at = count; ; at += size) {
        if (at + size > count) {
          at = 0;
          for (let i = count - 1; i > 0; i--) {
            const j = Math.floor(uniform() * (i + 1));
            [order[i], order[j]] = [order[j], order[i]];
          }
        }
        yield order.slice(at, at + size);
      }
    }

    /** Pixels less the mean of those to train on, if they are to be centred. */
    function prepare(pixels, count, inputs) {
      if (inputs === "raw") return pixels;
      const mean = new Float64Array(PIXELS);
      for (let p = 0; p < count * PIXELS; p++) mean[p % PIXELS] += pixels[p] / count;
      return pixels.map((v, p) => v - mean[p % PIXELS]);
    }

    /** A training that can be asked for its next step. */
    function train(setting, pixels, labels, count, seed) {
      const { uniform, normal } = random(seed), layers = begin(setting, normal);
      const order = batches(count, setting.batch, uniform), x = prepare(pixels, count, setting.inputs);
      const unseen = x.subarray(count * PIXELS), answers = labels.slice(count);
      const next = () => {
        const { rows, named } = pick(x, labels, order.next().value);
        return step(layers, rows, named, setting);
      };
      return { next, test: (judged) => accuracy(layers, unseen, answers, setting, judged) };
    }
    return { begin, step, accuracy, histogram, train, prepare, random, BINS, LOWEST, HIGHEST };
  }

  /** Inside of the worker: trains in short turns, and tells what it sees some times a second. */
  function work({ train, histogram }) {
    let run = null, left = 0, done = 0, told = 0, losses = [], seen = null, judged = "eval", known = null;
    const tell = () => {
      const bars = seen && { outputs: seen.outputs.map(histogram), gradients: seen.gradients.map(histogram) };
      const accuracy = left > 0 ? null : run.test(judged); // it is said at the end of a run
      postMessage({ done, losses, bars, accuracy, left });
      losses = [];
      told = performance.now();
    };
    const turn = () => {
      const until = performance.now() + 20;
      while (left > 0 && performance.now() < until) {
        seen = run.next();
        losses.push(seen.loss);
        done += 1;
        left = Number.isFinite(seen.loss) ? left - 1 : 0;
      }
      if (left <= 0 || performance.now() - told > 150) tell();
      if (left > 0) setTimeout(turn);
    };
    onmessage = ({ data }) => {
      if (data.digits) known = data.digits;
      if (data.judged) judged = data.judged;
      if (data.setting) {
        run = train(data.setting, known.pixels, known.labels, known.count, data.seed);
        done = 0;
        seen = null;
        losses = [];
      }
      const idle = left <= 0;
      if (data.steps !== undefined) left = data.steps;
      if (left > 0 && idle) turn();
      else if (run && left <= 0) tell();
    };
  }

  explorers.training = core();

  // The page.

  const RATES = Array.from({ length: 13 }, (_, k) => 2 ** (k - 10)); // to 4
  const KINDS = {
    norm: { start: "none", among: ["none", "batch", "layer", "RMS", "group"] },
    activation: { start: "ReLU", among: ["ReLU", "tanh"] },
    inputs: { start: "centred", among: ["centred", "raw"] },
    depth: { start: 6, min: 2, max: 20, step: 1 },
    scale: { start: 0, min: -2, max: 2, step: 0.25 }, // powers of two
    rate: { start: -3, min: -10, max: 2, step: 1 },
    batch: { start: 6, min: 1, max: 8, step: 1 },
    judged: { start: "eval", among: ["eval", "mixed", "sorted"] },
  };
  const short = (value) => `${+value.toPrecision(2)}`;
  const FIELDS = {
    norm: { label: "norm" },
    activation: { label: "activation" },
    inputs: { label: "pixels", named: { raw: "0 to 1" } },
    depth: { label: "hidden layers:" },
    scale: { label: "weights, times usual:", shown: (v) => short(2 ** v) },
    rate: { label: "learning rate:", shown: (v) => short(2 ** v) },
    batch: { label: "batch size:", shown: (v) => String(2 ** v) },
    judged: {
      label: "the test is judged",
      named: { eval: "in evaluation mode", mixed: "in training mode, 32 mixed", sorted: "in training mode, 32 of a kind" },
    },
  };
  const STEPS = 300;
  const SCENES = [
    { name: "Vanishing", set: { depth: 12, scale: -1 }, page: "chapters/learning-rates.html", link: "Sizes multiply",
      says: "Weights half as large, in twelve layers: signals and gradients shrink from layer to layer, and the loss stays at that of guessing. With a norm it falls." },
    { name: "Exploding", set: { depth: 12, scale: 1 }, page: "chapters/learning-rates.html", link: "Sizes multiply",
      says: "Weights twice as large, in twelve layers: every layer doubles the signal, and the first steps end in no number. With a norm they do not." },
    { name: "Saturated", set: { activation: "tanh", depth: 6, scale: 2 }, page: "chapters/covariate-shift.html", link: "Shift and saturation",
      says: "tanh behind weights four times as large: nearly all outputs pile up at 1 in size, and learning is slow. Batch norm puts them back where tanh bends." },
    { name: "A batch of two", set: { norm: "batch", depth: 6, batch: 1, rate: -5 }, page: "chapters/group-norm.html", link: "Group normalization",
      says: "The statistics of two digits: each normalized pair is −1 and 1 whatever it was. Group norm looks at one digit alone, and does not mind." },
    { name: "Forgotten eval()", set: { norm: "batch", depth: 2, judged: "sorted" }, page: "chapters/batch-norm-in-use.html", link: "Batch normalization in use",
      says: "The loss falls, and the test fails: in training mode, in batches of one kind of digit, batch norm subtracts what they have in common. Judge in evaluation mode, and they are read." },
    { name: "Uncentred inputs", set: { depth: 6, inputs: "raw", rate: -2 }, page: "chapters/where-normalization-helps.html", link: "Where normalization helps",
      says: "Pixels from 0 to 1, at a rate of a quarter: one direction of the loss is too steep for this rate. With centred pixels the same network learns, without any norm." },
  ];

  /** The digits: for each pixel a letter from a (0) to q (16), for each label a figure. */
  function unpack({ pixels, labels, count }) {
    return { pixels: Float64Array.from(pixels, (c) => (c.charCodeAt(0) - 97) / 16), labels: Array.from(labels, Number), count };
  }

  function show(place) {
    const start = Object.fromEntries(Object.entries(KINDS).map(([key, kind]) => [key, kind.start]));
    let state = stateInAddress("training", KINDS, location.hash) ?? start;
    let worker = null, curve = [], kept = null, seen = null, running = false, waiting = null, drawn = 0;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;

    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    let narrow, below, right; // on a phone the two panels of sizes stand below the curve
    svg.setAttribute("role", "img");
    const { put, finish } = pen(svg);
    const result = element("p", { role: "status" });
    const told = element("p", { class: "scene" }, "Choose what goes wrong, or set it yourself and press Train. A curve that you keep stays for comparison.");
    const button = (text, act) => {
      const made = element("button", { type: "button" }, text);
      made.addEventListener("click", act);
      return made;
    };

    const setting = () => ({ ...state, scale: 2 ** state.scale, rate: 2 ** state.rate, batch: 2 ** state.batch });
    const ask = (message) => worker?.postMessage(message);
    function load() {
      if (explorers.digits) return Promise.resolve(unpack(explorers.digits));
      return new Promise((resolve, reject) => {
        const script = element("script", { src: place.dataset.digits });
        script.onload = () => resolve(unpack(explorers.digits));
        script.onerror = () => reject(new Error("the digits did not load"));
        document.head.append(script);
      });
    }
    async function ready() {
      if (worker) return;
      const digits = await load();
      const source = `"use strict"; (${work})((${core})())`;
      worker = new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
      worker.onmessage = ({ data }) => {
        curve.push(...data.losses);
        seen = data;
        running = data.left > 0;
        if (!running || !calm || performance.now() - drawn > 1000) draw();
        if (!running) say();
      };
      ask({ digits });
      again();
    }
    function again() {
      curve = [];
      seen = null;
      result.textContent = "";
      ask({ setting: setting(), judged: state.judged, steps: 0, seed: 1 });
    }
    async function go(steps) {
      try {
        await ready();
      } catch (error) {
        result.textContent = `Expected the file of the digits beside the page, but ${error.message}; reload the page.`;
        return;
      }
      running = steps > 0;
      ask({ steps });
      draw();
    }

    function set(changes) {
      const judgedOnly = Object.keys(changes).every((key) => key === "judged");
      state = { ...state, ...changes };
      for (const [key, input] of inputs) input.show(state[key]);
      if (judgedOnly) ask({ judged: state.judged });
      else again();
      draw();
      clearTimeout(waiting);
      waiting = setTimeout(() => history.replaceState(null, "", addressOfState("training", KINDS, state)), 250);
    }
    function play(scene) {
      set({ ...start, ...scene.set });
      told.replaceChildren(`${scene.says} `, element("a", { href: scene.page }, scene.link));
      go(STEPS);
    }

    function say() {
      const last = curve.slice(-20), loss = last.reduce((a, b) => a + b, 0) / last.length;
      if (!last.length) result.textContent = "";
      else if (!Number.isFinite(curve.at(-1))) result.textContent = `After ${curve.length} steps the loss is no number any more.`;
      else result.textContent = `After ${curve.length} steps: loss ${loss < 0.01 ? loss.toExponential(0) : fixed(loss)} (guessing: 2.30), ${seen.accuracy.toFixed(0)} % of the test digits read.`;
    }

    const LOW = 1e-3, HIGH = 10;
    function path(losses, most) {
      const x = across(40, right, 0, most), y = across(262, 24, Math.log(LOW), Math.log(HIGH));
      const points = losses.map((loss, i) => [x(i), y(Math.log(Math.min(HIGH, Math.max(LOW, loss))))]);
      return points.filter(([, v]) => Number.isFinite(v)).map((p, i) => `${i ? "L" : "M"}${p.map((v) => v.toFixed(1)).join(" ")}`).join("");
    }
    function ridges(name, rows, from, title) { // the last layer on top
      const { BINS, LOWEST, HIGHEST } = explorers.training, x = across(from, from + 150, 0, BINS);
      const gap = 226 / Math.max(rows.length, 2);
      put(`${name} title`, "text", { x: from, y: below + 14 }, title);
      rows.forEach((shares, i) => {
        const base = below + 262 - gap * i, tall = (v) => base - Math.min(0.95 * gap, v * 2.5 * gap);
        const d = Array.from(shares, (v, b) => `L${x(b).toFixed(1)} ${tall(v).toFixed(1)}L${x(b + 1).toFixed(1)} ${tall(v).toFixed(1)}`).join("");
        put(`${name} ${i}`, "path", { d: `M${x(0)} ${base}${d}L${x(BINS)} ${base}Z`, class: "ridge" });
      });
      for (let power = LOWEST + 2; power < HIGHEST; power += 4) {
        put(`${name} at ${power}`, "text", { x: across(from, from + 150, LOWEST, HIGHEST)(power), y: below + 280, class: "middle" }, `1e${power}`.replace("-", "−"));
      }
    }
    function draw() {
      drawn = performance.now();
      narrow = place.clientWidth < 560;
      [below, right] = narrow ? [300, 335] : [0, 250];
      svg.setAttribute("viewBox", narrow ? "0 0 340 588" : "0 0 640 290");
      const most = Math.max(STEPS, curve.length, kept?.length ?? 0);
      put("title", "text", { x: 40, y: 14 }, "loss of each batch");
      for (const at of [0.001, 0.01, 0.1, 1, 10]) {
        const y = across(262, 24, Math.log(LOW), Math.log(HIGH))(Math.log(at));
        put(`grid ${at}`, "line", { x1: 40, x2: right, y1: y, y2: y, class: "grid" });
        put(`loss ${at}`, "text", { x: 34, y: y + 4, class: "end" }, String(at));
      }
      put("last", "text", { x: right, y: 280, class: "end" }, `${most} steps`);
      if (kept) put("kept", "path", { d: path(kept, most), class: "two" });
      put("curve", "path", { d: path(curve, most), class: "one" });
      const broken = curve.length > 0 && !Number.isFinite(curve.at(-1));
      const hint = broken ? `× no number after ${curve.length} steps` : "Choose what goes wrong, above.";
      if (broken || !(curve.length || kept)) put("hint", "text", { x: broken ? 44 : 145, y: broken ? 36 : 132, class: broken ? "over" : "middle" }, hint);
      const rows = Array.from({ length: state.depth }, () => []);
      ridges("outputs", seen?.bars?.outputs ?? rows, narrow ? 10 : 300, "outputs, a row a layer");
      ridges("gradients", seen?.bars?.gradients ?? rows, narrow ? 180 : 480, "gradients, a row a layer");
      finish();
      svg.setAttribute("aria-label", `The loss over ${curve.length} steps${broken ? ", and then no number" : ""}; the sizes of outputs and of gradients in ${state.depth} layers, the last one on top.`);
      run.textContent = running ? "Pause" : "Train";
    }

    const inputs = Object.entries(FIELDS).map(([key, about]) => [key, field(KINDS[key], about, (value) => set({ [key]: value }))]);
    const run = button("Train", () => go(running ? 0 : STEPS));
    const scenes = SCENES.map((scene) => button(scene.name, () => play(scene)));
    const keep = button("Keep this curve", () => {
      kept = [...curve];
      draw();
    });
    const controls = [run, button("One step", () => go(1)), button("Start again", () => set({})), keep];
    for (const [key, input] of inputs) input.show(state[key]);
    place.replaceChildren(
      element("div", { class: "fields scenes" }, ...scenes), told, svg, result,
      element("div", { class: "fields" }, ...controls), element("div", { class: "fields" }, ...inputs.map(([, { node }]) => node)),
    );
    draw();
    new ResizeObserver(() => (place.clientWidth < 560) === narrow || draw()).observe(place);
  }

  document.querySelectorAll(".training").forEach(show);
})();
