// Lines, and stacked bars, over the last half an hour. Every chart has its words beside it: the
// legend holds the newest figures, and the label says what is seen.

import { h, s } from "./dom.js";
import { t, number, clock } from "./words.js";

const WIDTH = 400;
const HEIGHT = 168;
const LEFT = 50;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;
const SPAN_MS = 30 * 60 * 1000;

function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const steps = [1, 1.5, 2, 3, 4, 5, 8, 10];
  return steps.find((step) => step * power >= value) * power;
}

// The time axis begins with the oldest point, at least two minutes ago, and ends now.
function frame(points, top, write) {
  const last = points.at(-1).at_ms;
  const first = Math.max(last - SPAN_MS, Math.min(points[0].at_ms, last - 2 * 60 * 1000));
  const x = (ms) => LEFT + ((ms - first) / (last - first)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const lines = [0, 0.5, 1].map((share) => {
    const at = y(share * top);
    return [
      s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at, class: "grid" }),
      s("text", { x: LEFT - 6, y: at + 3.5, class: "tick end" }, write(share * top)),
    ];
  });
  const times = [first, (first + last) / 2, last].map((ms, i) =>
    s("text", { x: x(ms), y: HEIGHT - 5, class: `tick ${["start", "middle", "end"][i]}` },
      clock(ms, false)));
  return { x, y, parts: [lines, times], shown: points.filter((point) => point.at_ms >= first) };
}

function box(label, parts) {
  return s("svg", {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label,
  }, parts);
}

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

export function lines(points, series, { label, write, gap }) {
  if (points.length === 0) return none();
  const top = ceiling(Math.max(...points.flatMap((point) => series.map((one) => one.of(point)))));
  const { x, y, parts, shown } = frame(points, top, write);
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
  const newest = points.at(-1);
  return [
    box(`${label}. ${series.map((o) => `${o.name} ${write(o.of(newest))}`).join(", ")}`,
      [parts, paths]),
    legend(series.map((o) => ({ ...o, value: write(o.of(newest)) }))),
  ];
}

export function bars(points, codes, { label, gap }) {
  if (points.length === 0) return none();
  const total = (point) => codes.reduce((sum, one) => sum + (point.ended[one.code] || 0), 0);
  const top = ceiling(Math.max(...points.map(total)));
  const { x, y, parts, shown } = frame(points, top, number);
  const width = Math.max(1, Math.min(12, x(shown[0].at_ms + gap / 4) - x(shown[0].at_ms) - 0.6));
  const stacks = shown.map((point) => {
    let below = 0;
    return codes.map((one) => {
      const count = point.ended[one.code] || 0;
      if (count === 0) return null;
      const bar = s("rect", {
        x: (x(point.at_ms) - width).toFixed(1), width: width.toFixed(1),
        y: y(below + count).toFixed(1), height: (y(below) - y(below + count)).toFixed(1),
        class: `bar ${one.tone}`,
      });
      below += count;
      return bar;
    });
  });
  const sum = (code) => points.reduce((all, point) => all + (point.ended[code] || 0), 0);
  const told = codes.map((one) => ({ ...one, value: number(sum(one.code)) }))
    .filter((one) => sum(one.code) > 0);
  return [
    box(`${label}. ${told.map((one) => `${one.name} ${one.value}`).join(", ")}`, [parts, stacks]),
    told.length > 0 ? legend(told) : h("p", { class: "note" }, t("kpi.none")),
  ];
}

function legend(entries) {
  return h("ul", { class: "legend" }, entries.map((one) =>
    h("li", { "data-key": one.name, title: one.title },
      h("span", { class: `swatch ${one.tone}`, "aria-hidden": "true" }),
      h("span", { class: "name" }, one.name), " ",
      h("span", { class: "value", "data-series": one.code || one.name }, one.value))));
}

function none() {
  return h("p", { class: "empty" }, t("chart.empty"));
}
