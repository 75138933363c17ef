"use strict";
// Hover, zoom and links between the maps. Without it the page shows the same pictures.
(() => {
  const tooltips = JSON.parse(document.getElementById("points").textContent);
  const maps = [...document.querySelectorAll("figure.points")].map(makeMap);
  const SIDE = 56; // pixels of a picture

  function makeMap(figure) {
    const chart = figure.querySelector("svg.chart");
    const plane = makePlane(chart);
    const { x, y, width, height } = plane.viewBox.baseVal;
    const full = { x, y, w: width, h: height };
    const places = [...plane.querySelectorAll("path[data-cluster]")].flatMap((path) =>
      path.getAttribute("d").split("M").slice(1).map((step) => step.slice(0, -2).split(" ").map(Number)));
    const index = figure.dataset.points === "near" ? tooltips.near : tooltips.row.map((_, i) => i);
    const points = places.map(([x, y], i) => ({ x, y, index: index[i] }));
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
    map.box = Object.assign(document.createElement("div"), { className: "tooltip", hidden: true });
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

  // Everything that is clipped to the axes goes into a drawing of its own, which can be zoomed.
  function makePlane(chart) {
    const plane = document.createElementNS(chart.namespaceURI, "svg");
    const rect = chart.querySelector("clipPath rect");
    const ends = ["x", "y", "width", "height"].map((name) => rect.getAttribute(name));
    ["x", "y", "width", "height"].forEach((name, i) => plane.setAttribute(name, ends[i]));
    plane.setAttribute("viewBox", ends.join(" "));
    plane.setAttribute("class", "plane");
    const inside = [...chart.querySelector(".axes").children].filter((part) => part.matches("[clip-path], :has([clip-path])"));
    inside[0].before(plane);
    plane.append(...inside);
    return plane;
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

  // The place of a pointer, in the units of the plane's drawing.
  function locate(map, event) {
    const box = map.chart.getBoundingClientRect();
    const unit = box.width / map.chart.viewBox.baseVal.width;
    const x = (event.clientX - box.left) / unit - map.full.x;
    const y = (event.clientY - box.top) / unit - map.full.y;
    const scale = map.view.w / map.full.w;
    return { x: map.view.x + x * scale, y: map.view.y + y * scale, unit: unit / scale };
  }

  function show(map, view) {
    const w = Math.min(Math.max(view.w, map.full.w / 40), map.full.w);
    const h = w * map.full.h / map.full.w;
    const x = Math.min(Math.max(view.x, map.full.x), map.full.x + map.full.w - w);
    const y = Math.min(Math.max(view.y, map.full.y), map.full.y + map.full.h - h);
    map.view = { x, y, w, h };
    map.plane.setAttribute("viewBox", `${x} ${y} ${w} ${h}`);
    const scale = w / map.full.w;
    for (const mark of map.plane.querySelectorAll(".mark text")) {
      mark.style.fontSize = `${11 * scale}px`;
      mark.style.strokeWidth = `${3.5 * scale}px`;
    }
    map.ring.setAttribute("r", 6 * scale);
    map.stage.classList.toggle("zoomed", scale < 1);
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

  // The nearest point, a few pixels away at most.
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
    head.textContent = `Row ${tooltips.row[index].toLocaleString("en-GB")}, cluster ${tooltips.cluster[index]}`;
    box.append(head);
    for (const [name, values] of tooltips.columns) {
      const part = document.createElement("div");
      part.textContent = `${name} ${short(values[index])}`;
      box.append(part);
    }
    if (index in tooltips.pictures) {
      box.append(Object.assign(document.createElement("img"), { src: tooltips.pictures[index], alt: "", height: SIDE }));
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
    const left = (map.full.x + ((point.x - map.view.x) / map.view.w) * map.full.w) * unit;
    const top = (map.full.y + ((point.y - map.view.y) / map.view.h) * map.full.h) * unit;
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
    // The wheel alone scrolls the page.
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

  // Pointing at a cluster of the legend highlights it on all maps.
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
