// The scalar recurrence h_t = tanh(w h_{t-1} + u x_t), as in lab/gradient_flow.py; a browser test holds them together.

/** Numbers in [0, 1) that are the same everywhere: mulberry32. @param {number} seed */
export function draws(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** The inputs x_1..x_T. @param {"constant"|"alternating"|"pulse"|"random"} kind */
export function inputs(kind, steps, seed) {
  const draw = draws(seed);
  const make = { constant: () => 1, alternating: (t) => (t % 2 ? -1 : 1), pulse: (t) => (t === 0 ? 1 : 0),
    random: () => 2 * draw() - 1 };
  return Array.from({ length: steps }, (_, t) => make[kind](t));
}

/** The states h_0..h_T, h_0 = 0. */
export function states(w, u, xs) {
  const hs = [0];
  for (const x of xs) hs.push(Math.tanh(w * hs.at(-1) + u * x));
  return hs;
}

/** d h_T / d h_t for t = 0..T: the product of w (1 - h_s^2) over s > t. */
export function products(w, hs) {
  const found = [1];
  for (let t = hs.length - 1; t > 0; t--) found.unshift(found[0] * w * (1 - hs[t] ** 2));
  return found;
}
