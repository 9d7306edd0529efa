// What times are in the browser's zone, and the theme. The pages work without it; nothing here makes HTML of text.
(() => {
  "use strict";
  const zoned = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
  const theme = () => localStorage.getItem("ternmq.theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

  // Tables show UTC, as fields take it; pointing at a time shows it in the browser's zone.
  function explainTimes() {
    for (const element of document.querySelectorAll("time[datetime]")) {
      element.title = zoned.format(new Date(element.dateTime));
    }
  }

  function showTheme() {
    document.documentElement.dataset.theme = theme();
    const button = document.getElementById("theme");
    button.textContent = theme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", `Change to ${button.textContent.toLowerCase()} colours`);
    button.hidden = false;
  }

  document.getElementById("theme").addEventListener("click", () => {
    localStorage.setItem("ternmq.theme", theme() === "dark" ? "light" : "dark");
    showTheme();
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
  document.addEventListener("htmx:afterSettle", explainTimes);
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
  explainTimes();
})();
