
"use strict";
// Hover, zoom and links between the maps. Without it the page shows the same pictures.
(() => {
  const told = JSON.parse(document.getElementById("points").textContent);
  const maps = [...document.querySelectorAll("figure.points")].map(makeMap);
  const pictured = new Map((told.pictured || []).map((point, i) => [point, i]));
  const SIDE = 56, COLUMNS = 40; // of a picture on the sheet, as it is shown

  function expand(ranges) {
    return ranges.split(" ").filter(Boolean).flatMap((part) => {
      const [first, last] = part.split("-").map(Number);
      return Array.from({ length: (last ?? first) - first + 1 }, (_, i) => first + i);
    });
  }

  function makeMap(figure) {
    const chart = figure.querySelector("svg.chart");
    const plane = chart.querySelector("svg.plane");
    const whole = plane.viewBox.baseVal;
    const full = { x: 0, y: 0, w: whole.width, h: whole.height };
    const points = [];
    for (const path of plane.querySelectorAll("path[data-cluster]")) {
      const index = expand(path.dataset.index);
      path.getAttribute("d").split("M").slice(1).forEach((step, i) => {
        const [x, y] = step.slice(0, -2).split(" ").map(Number);
        points.push({ x, y, index: index[i] });
      });
    }
    const map = { figure, chart, plane, full, view: { ...full }, points };
    map.place = new Map(points.map((point) => [point.index, point]));
    const stage = document.createElement("div");
    stage.className = "stage";
    chart.replaceWith(stage);
    stage.append(chart);
    stage.tabIndex = 0;
    stage.setAttribute("role", "group");
    stage.setAttribute("aria-label", "Map: plus and minus zoom, arrow keys move, 0 shows all, Escape closes");
    map.stage = stage;
    map.box = Object.assign(document.createElement("div"), { className: "told", hidden: true });
    map.box.setAttribute("role", "status");
    stage.append(map.box);
    map.ring = document.createElementNS(plane.namespaceURI, "circle");
    map.ring.setAttribute("class", "ring");
    map.ring.setAttribute("hidden", "");
    plane.append(map.ring);
    figure.querySelector(".head").append(makeTools(map));
    listen(map);
    return map;
  }

  function makeTools(map) {
    const tools = document.createElement("div");
    tools.className = "tools";
    for (const [label, name, act] of [
      ["+", "Zoom in", () => zoom(map, 0.6)],
      ["−", "Zoom out", () => zoom(map, 1 / 0.6)],
      ["All", "Show all points", () => show(map, { ...map.full })],
    ]) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
      button.setAttribute("aria-label", name);
      button.addEventListener("click", act);
      tools.append(button);
    }
    return tools;
  }

  // Where a pointer is, in the units of the plane's drawing.
  function locate(map, event) {
    const box = map.chart.getBoundingClientRect();
    const unit = box.width / map.chart.viewBox.baseVal.width;
    const x = (event.clientX - box.left) / unit - map.plane.x.baseVal.value;
    const y = (event.clientY - box.top) / unit - map.plane.y.baseVal.value;
    const scale = map.view.w / map.full.w;
    return { x: map.view.x + x * scale, y: map.view.y + y * scale, unit: unit / scale };
  }

  function show(map, view) {
    const w = Math.min(Math.max(view.w, map.full.w / 40), map.full.w);
    const h = w * map.full.h / map.full.w;
    const x = Math.min(Math.max(view.x, 0), map.full.w - w);
    const y = Math.min(Math.max(view.y, 0), map.full.h - h);
    map.view = { x, y, w, h };
    map.plane.setAttribute("viewBox", `${x} ${y} ${w} ${h}`);
    const scale = w / map.full.w;
    for (const mark of map.plane.querySelectorAll(".marks text")) {
      mark.style.fontSize = `${13 * scale}px`;
      mark.style.strokeWidth = `${3.5 * scale}px`;
    }
    map.ring.setAttribute("r", 6 * scale);
    map.stage.classList.toggle("zoomed", scale < 1);
    const [x0, x1, y0, y1] = map.plane.dataset.range.split(" ").map(Number);
    const across = (u) => x0 + (u / map.full.w) * (x1 - x0), up = (v) => y1 - (v / map.full.h) * (y1 - y0);
    const ends = { x0: across(x), x1: across(x + w), y0: up(y + h), y1: up(y) };
    for (const [name, value] of Object.entries(ends)) {
      const label = map.chart.querySelector(`text.${name}`);
      if (label) label.textContent = short(value);
    }
  }

  function zoom(map, factor, at) {
    const v = map.view, x = at ? at.x : v.x + v.w / 2, y = at ? at.y : v.y + v.h / 2;
    const w = Math.min(Math.max(v.w * factor, map.full.w / 40), map.full.w), scale = w / v.w;
    show(map, { x: x - (x - v.x) * scale, y: y - (y - v.y) * scale, w });
  }

  function short(value) {
    if (typeof value === "string") return value;
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e9 || size < 1e-4)) return value.toExponential(2);
    return Number(value.toPrecision(4)).toLocaleString("en-GB", { maximumSignificantDigits: 4 });
  }

  // What is nearest to a place; a few pixels away at most.
  function nearest(map, at) {
    let best = null, least = (14 / at.unit) ** 2;
    for (const point of map.points) {
      const away = (point.x - at.x) ** 2 + (point.y - at.y) ** 2;
      if (away < least) [best, least] = [point, away];
    }
    return best;
  }

  function describe(map, index) {
    const box = map.box;
    box.replaceChildren();
    const head = document.createElement("b");
    head.textContent = `Row ${told.row[index].toLocaleString("en-GB")}, cluster ${told.cluster[index]}`;
    box.append(head);
    const lines = [];
    if (told.p) lines.push(`probability ${short(told.p[index])}`);
    if (told.trust) lines.push(`trust ${short(told.trust[index])}`);
    if (told.density) lines.push(`log p(x) ${short(told.density[index])}`);
    told.names.forEach((name, j) => lines.push(`${name} ${short(told.values[j][index])}`));
    for (const line of lines) {
      const part = document.createElement("div");
      part.textContent = line;
      box.append(part);
    }
    if (pictured.has(index)) {
      const i = pictured.get(index), picture = document.createElement("span");
      const sheet = Object.assign(document.createElement("img"), { src: told.sheet, alt: "" });
      picture.className = "picture";
      sheet.style.width = `${COLUMNS * SIDE}px`;
      sheet.style.left = `${-(i % COLUMNS) * SIDE}px`;
      sheet.style.top = `${-Math.floor(i / COLUMNS) * SIDE}px`;
      picture.append(sheet);
      box.append(picture);
    }
  }

  function pointAt(map, point) {
    for (const other of maps) {
      const same = point && other.place.get(point.index);
      other.ring.toggleAttribute("hidden", !same);
      other.box.hidden = !(same && other === map);
      if (!same) continue;
      other.ring.setAttribute("cx", same.x);
      other.ring.setAttribute("cy", same.y);
      other.ring.setAttribute("r", 6 * other.view.w / other.full.w);
    }
    if (!point) return;
    describe(map, point.index);
    const unit = map.chart.getBoundingClientRect().width / map.chart.viewBox.baseVal.width;
    const left = (map.plane.x.baseVal.value + ((point.x - map.view.x) / map.view.w) * map.full.w) * unit;
    const top = (map.plane.y.baseVal.value + ((point.y - map.view.y) / map.view.h) * map.full.h) * unit;
    const width = map.box.offsetWidth, room = map.stage.clientWidth;
    map.box.style.left = `${Math.max(0, left + 14 + width > room ? left - 14 - width : left + 14)}px`;
    map.box.style.top = `${Math.max(0, top - map.box.offsetHeight / 2)}px`;
  }

  function listen(map) {
    const { stage } = map, fingers = new Map();
    let drag = null;
    stage.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, event);
      if (map.view.w < map.full.w) {
        drag = { x: event.clientX, y: event.clientY, view: { ...map.view } };
        stage.setPointerCapture(event.pointerId);
      }
    });
    stage.addEventListener("pointermove", (event) => {
      if (fingers.size === 2 && fingers.has(event.pointerId)) {
        const [a, b] = [...fingers.values()], before = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
        fingers.set(event.pointerId, event);
        const [c, d] = [...fingers.values()], after = Math.hypot(c.clientX - d.clientX, c.clientY - d.clientY);
        if (after > 0) zoom(map, before / after, locate(map, event));
        return;
      }
      if (drag && event.buttons) {
        const unit = locate(map, event).unit;
        const x = drag.view.x - (event.clientX - drag.x) / unit, y = drag.view.y - (event.clientY - drag.y) / unit;
        show(map, { ...drag.view, x, y });
        return;
      }
      pointAt(map, nearest(map, locate(map, event)));
    });
    for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
      stage.addEventListener(name, (event) => {
        fingers.delete(event.pointerId);
        drag = null;
        if (name === "pointerleave") pointAt(map, null);
      });
    }
    stage.addEventListener("dblclick", (event) => zoom(map, 0.5, locate(map, event)));
    // The wheel alone scrolls the page, as everywhere.
    stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(map, event.deltaY < 0 ? 0.8 : 1.25, locate(map, event));
    }, { passive: false });
    stage.addEventListener("keydown", (event) => {
      const v = map.view, step = v.w / 8;
      const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "+" || event.key === "=") zoom(map, 0.6);
      else if (event.key === "-") zoom(map, 1 / 0.6);
      else if (event.key === "0") show(map, { ...map.full });
      else if (event.key === "Escape") pointAt(map, null);
      else if (event.key in moves && v.w < map.full.w) {
        const [dx, dy] = moves[event.key];
        show(map, { ...v, x: v.x + dx, y: v.y + dy });
      } else return;
      event.preventDefault();
    });
  }

  // A cluster of the legend is lit on all maps while it is pointed at.
  for (const link of document.querySelectorAll(".legend a")) {
    const light = (on) => () => {
      for (const map of maps) {
        map.stage.classList.toggle("dimmed", on);
        for (const path of map.plane.querySelectorAll("path[data-cluster]")) {
          path.classList.toggle("lit", on && path.dataset.cluster === link.dataset.cluster);
        }
      }
    };
    for (const name of ["pointerenter", "focus"]) link.addEventListener(name, light(true));
    for (const name of ["pointerleave", "blur"]) link.addEventListener(name, light(false));
  }
})();
