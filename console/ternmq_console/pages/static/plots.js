// Draws what the server remembers of the last hours. The numbers are in the page without it.
(() => {
  "use strict";
  const RENEW_MS = 30000;
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const few = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3, notation: "compact" });
  const drawn = new Map();

  function shown(value, unit) {
    if (value === null || value === undefined) { return "–"; }
    if (unit === "share") { return `${(100 * value).toFixed(1)} %`; }
    if (unit !== "bytes") { return few.format(value); }
    for (const [name, size] of [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
      if (value >= size) { return `${(value / size).toFixed(1)} ${name}`; }
    }
    return `${value} bytes`;
  }

  function options(place) {
    const unit = place.dataset.unit;
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const lines = place.dataset.labels.split("|").map((label, at) => ({
      label, stroke: colour(`--plot-${at + 1}`), width: 2, spanGaps: false, dash: at ? [8 - 2 * at, 3] : [],
      value: (_, value) => shown(value, unit),
    }));
    return {
      width: place.clientWidth, height: 180,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [axis, { ...axis, size: 80, values: (_, ticks) => ticks.map((tick) => shown(tick, unit)) }],
      series: [{ label: "UTC" }, ...lines],
    };
  }

  function dataOf(place, report) {
    const series = place.dataset.series.split(" ").map((name) => report.series[name] || []);
    const count = Math.max(0, ...series.map((values) => values.length));
    const times = Array.from({ length: count }, (_, at) => report.end - (count - at) * report.step);
    return [times, ...series.map((values) => values.length ? values : new Array(count).fill(null))];
  }

  function draw(place, report, again) {
    const data = dataOf(place, report);
    if (drawn.has(place) && !again) { drawn.get(place).setData(data); return; }
    if (drawn.has(place)) { drawn.get(place).destroy(); }
    drawn.set(place, new uPlot(options(place), data, place));
  }

  async function renew(group) {
    if (document.hidden) { return; }
    const answer = await fetch(group.dataset.plots, { headers: { "hx-request": "true" } }).catch(() => null);
    if (!answer || !answer.ok || !(answer.headers.get("content-type") || "").includes("json")) { return; }
    group.report = await answer.json();
    for (const place of group.querySelectorAll(".plot")) { draw(place, group.report, false); }
  }

  const groups = document.querySelectorAll("[data-plots]");
  const wide = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (drawn.has(target)) { drawn.get(target).setSize({ width: target.clientWidth, height: 180 }); }
    }
  });
  document.addEventListener("ternmq:looks", () => {
    for (const group of groups) {
      for (const place of group.report ? group.querySelectorAll(".plot") : []) { draw(place, group.report, true); }
    }
  });
  for (const group of groups) {
    for (const place of group.querySelectorAll(".plot")) { wide.observe(place); }
    renew(group);
    setInterval(() => renew(group), RENEW_MS);
  }
})();
