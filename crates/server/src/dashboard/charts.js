// Lines, and stacked bars, over the last minutes. Every chart has its words beside it: the legend holds
// the newest figures, or those of the moment that a pointer or the arrow keys read; the label says what is seen.

import { h, s } from "./dom.js";
import { t, number, clock } from "./words.js";

const WIDTH = 400;
const HEIGHT = 168;
const LEFT = 56;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;
const MAX_BARS = 180;
const SHARES = [0, 0.25, 0.5, 0.75, 1];

function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 1.5, 2, 3, 4, 5, 8, 10];
  return steps.find((step) => step * power >= value) * power;
}

// The time axis begins with the oldest point of the range, at least two minutes ago, and ends now.
function frame(points, top, write, range) {
  const last = points.at(-1).at_ms;
  const first = Math.max(last - range, Math.min(points[0].at_ms, last - 2 * 60 * 1000));
  const x = (ms) => LEFT + ((ms - first) / (last - first)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const lines = SHARES.map((share) => {
    const at = y(share * top);
    return [
      s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at, class: "grid" }),
      s("text", { x: LEFT - 6, y: at + 3.5, class: "tick end" }, write(share * top)),
    ];
  });
  // Times with seconds are longer, so there are fewer of them.
  const seconds = last - first < 300000;
  const times = (seconds ? [0, 1 / 3, 2 / 3, 1] : SHARES).map((share) => {
    const ms = first + share * (last - first);
    return s("text", { x: x(ms), y: HEIGHT - 5, class: `tick ${{ 0: "start", 1: "end" }[share] ?? "middle"}` }, clock(ms, seconds));
  });
  return { x, y, first, last, parts: [lines, times], shown: points.filter((point) => point.at_ms >= first) };
}

function box(label, { first, last, x }, at, parts) {
  return s("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label, "aria-description": t("chart.keys"), tabindex: 0,
    "data-first": first, "data-last": last, "data-left": LEFT / WIDTH, "data-right": 1 - RIGHT / WIDTH,
  }, parts, at && s("line", { x1: x(at.at_ms), x2: x(at.at_ms), y1: TOP, y2: HEIGHT - BOTTOM, class: "probe" }));
}

// The moment under the pointer, of a chart whose time axis lies between two shares of its width.
export function momentAt(svg, clientX) {
  const { left, width } = svg.getBoundingClientRect();
  const [first, last, from, to] = ["first", "last", "left", "right"].map((name) => Number(svg.dataset[name]));
  const share = ((clientX - left) / width - from) / (to - from);
  return first + Math.max(0, Math.min(1, share)) * (last - first);
}

// The point that is nearest to a moment.
export function nearest(points, ms) {
  return points.reduce((best, point) => (best && Math.abs(best.at_ms - ms) <= Math.abs(point.at_ms - ms) ? best : point), null);
}

// The point that is read, if it is still in the range.
const read = (shown, probe) => (probe === null ? null : shown.find((point) => point.at_ms === probe) ?? null);

// A gap of more than four intervals is a gap: no line is drawn over what nobody saw.
function pieces(points, gap) {
  const found = [];
  for (const point of points) {
    const before = found.at(-1)?.at(-1);
    if (before && point.at_ms - before.at_ms <= gap) found.at(-1).push(point);
    else found.push([point]);
  }
  return found;
}

export function lines(all, series, { label, write, gap, range, probe }) {
  if (all.length === 0) return none();
  const points = all.filter((point) => point.at_ms >= all.at(-1).at_ms - range);
  const top = ceiling(points.reduce((most, point) => Math.max(most, ...series.map((one) => one.of(point))), 0));
  const axes = frame(points, top, write, range);
  const { x, y, parts, shown } = axes;
  // Where a series has nothing, nothing is drawn: no job is not a job that took no time.
  const paths = series.map((one) => pieces(shown.filter((p) => one.of(p) !== null), gap).map((piece) => {
    const steps = piece.map((p) => `${x(p.at_ms).toFixed(1)},${y(one.of(p)).toFixed(1)}`);
    if (steps.length === 1) {
      const [cx, cy] = steps[0].split(",");
      return s("circle", { cx, cy, r: 2, class: `dot ${one.tone}` });
    }
    const area = one.area && s("path", {
      d: `M${steps.join("L")}L${x(piece.at(-1).at_ms).toFixed(1)},${y(0)}L${x(piece[0].at_ms).toFixed(1)},${y(0)}Z`,
      class: `area ${one.tone}`,
    });
    return [area, s("path", { d: `M${steps.join("L")}`, class: `line ${one.tone}` })];
  }));
  const at = read(shown, probe);
  const told = at ?? points.at(-1);
  const values = series.map((one) => `${one.name} ${write(one.of(told))}`).join(", ");
  return [
    box(`${label}. ${at ? `${clock(at.at_ms)}: ` : ""}${values}`, axes, at, [parts, paths]),
    legend(series.map((one) => ({ ...one, value: write(one.of(told)) })), at),
  ];
}

export function bars(all, codes, { label, gap, range, probe }) {
  if (all.length === 0) return none();
  const points = all.filter((point) => point.at_ms >= all.at(-1).at_ms - range);
  const total = (point) => codes.reduce((sum, one) => sum + (point.ended[one.code] || 0), 0);
  const stacked = together(points, codes);
  const top = ceiling(Math.max(...stacked.map(total)));
  const axes = frame(points, top, number, range);
  const { x, y, parts, shown } = axes;
  const apart = (gap / 4) * Math.ceil(points.length / stacked.length);
  const width = Math.max(1, Math.min(12, x(shown[0].at_ms + apart) - x(shown[0].at_ms) - 0.6));
  const stacks = stacked.map((point) => {
    let below = 0;
    return codes.map((one) => {
      const count = point.ended[one.code] || 0;
      if (count === 0) return null;
      const [left, right] = [Math.max(LEFT, x(point.at_ms) - width / 2), Math.min(WIDTH - RIGHT, x(point.at_ms) + width / 2)];
      const bar = s("rect", {
        x: left.toFixed(1), width: Math.max(1, right - left).toFixed(1),
        y: y(below + count).toFixed(1), height: (y(below) - y(below + count)).toFixed(1),
        class: `bar ${one.tone}`,
      });
      below += count;
      return bar;
    });
  });
  const at = read(shown, probe);
  const counted = at ? [at] : points;
  const sum = (code) => counted.reduce((all, point) => all + (point.ended[code] || 0), 0);
  const told = codes.map((one) => ({ ...one, value: number(sum(one.code)) }))
    .filter((one) => sum(one.code) > 0);
  return [
    box(`${label}. ${at ? `${clock(at.at_ms)}: ` : ""}${told.map((one) => `${one.name} ${one.value}`).join(", ")}`, axes, at, [parts, stacks]),
    told.length > 0 || at ? legend(told, at) : h("p", { class: "note" }, t("kpi.none")),
  ];
}

// More bars than fit beside each other become fewer, each the sum of several.
function together(points, codes) {
  const size = Math.ceil(points.length / MAX_BARS);
  if (size <= 1) return points;
  const found = [];
  for (let i = 0; i < points.length; i += size) {
    const several = points.slice(i, i + size);
    const ended = Object.fromEntries(codes.map(({ code }) => [code, several.reduce((sum, point) => sum + (point.ended[code] || 0), 0)]));
    found.push({ at_ms: several.at(-1).at_ms, ended });
  }
  return found;
}

function legend(entries, at) {
  return h("ul", { class: "legend" }, at && h("li", { class: "when", "data-key": "when" }, clock(at.at_ms)), entries.map((one) =>
    h("li", { "data-key": one.name, title: one.title },
      h("span", { class: `swatch ${one.tone}`, "aria-hidden": "true" }),
      one.href ? h("a", { class: "name", href: one.href }, one.name) : h("span", { class: "name" }, one.name), " ",
      h("span", { class: "value", "data-series": one.code || one.name }, one.value))));
}

function none() {
  return h("p", { class: "empty" }, t("chart.empty"));
}
