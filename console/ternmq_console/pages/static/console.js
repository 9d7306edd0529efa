// Times in the browser's zone, and the theme. The pages work without it; nothing here makes HTML of text.
(() => {
  "use strict";
  const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
  const exact = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric", hour: "numeric", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });
  const state = {
    get utc() { return localStorage.getItem("ternmq.utc") === "yes"; },
    get theme() { return localStorage.getItem("ternmq.theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"); },
  };

  function showTimes(root) {
    for (const element of root.querySelectorAll("time[datetime]")) {
      const moment = element.getAttribute("datetime");
      const utc = moment.replace("T", " ").replace("Z", " UTC");
      const local = (moment.includes(".") ? exact : zoned).format(new Date(moment));
      element.textContent = state.utc ? utc : local;
      element.title = state.utc ? local : utc;
    }
  }

  function showTheme() {
    document.documentElement.dataset.theme = state.theme;
    const button = document.getElementById("theme");
    button.textContent = state.theme === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${button.textContent.toLowerCase()} colours`);
    button.hidden = false;
  }

  function showZone() {
    const button = document.getElementById("zone");
    button.textContent = state.utc ? "Times here" : "Times in UTC";
    button.hidden = false;
    showTimes(document);
  }

  document.getElementById("theme").addEventListener("click", () => {
    localStorage.setItem("ternmq.theme", state.theme === "dark" ? "light" : "dark");
    showTheme();
    document.dispatchEvent(new Event("ternmq:looks"));
  });
  document.getElementById("zone").addEventListener("click", () => {
    localStorage.setItem("ternmq.utc", state.utc ? "no" : "yes");
    showZone();
    document.dispatchEvent(new Event("ternmq:looks"));
  });
  // What comes in place of a part must not take the keyboard's place away, nor where a table was scrolled to.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const inside = event.detail.target.contains(document.activeElement) && document.activeElement !== document.body;
    const polls = event.detail.requestConfig.triggeringEvent === undefined || event.detail.requestConfig.triggeringEvent === null;
    if (inside && polls) {
      event.detail.shouldSwap = false;
    }
  });
  const pause = document.getElementById("pause");
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (document.hidden || (event.detail.elt.id === "poll" && pause.getAttribute("aria-pressed") === "true")) {
      event.preventDefault();
    }
  });
  document.addEventListener("htmx:afterSettle", (event) => showTimes(document));
  // Messages as they come: they wait while one reads, and the oldest leave.
  if (pause) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      const isPaused = pause.getAttribute("aria-pressed") !== "true";
      pause.setAttribute("aria-pressed", String(isPaused));
      pause.textContent = isPaused ? "Go on" : "Pause";
    });
    document.addEventListener("htmx:oobAfterSwap", () => {
      const arrived = document.getElementById("arrived");
      while (arrived.children.length > Number(arrived.dataset.most)) {
        arrived.lastElementChild.remove();
      }
    });
  }
  // One box for all of a table.
  for (const all of document.querySelectorAll("input[data-all]")) {
    all.hidden = false;
    all.addEventListener("change", () => {
      for (const box of document.getElementsByName(all.dataset.all)) {
        box.checked = all.checked;
      }
    });
  }
  showTheme();
  showZone();
})();
