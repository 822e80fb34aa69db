// Draws the charts of a report. Each stands in a figure with its data as JSON: series or lanes.
(function () {
	"use strict";
	const narrow = matchMedia("(max-width: 760px)");
	const font = (size) => size * devicePixelRatio + "px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif";
	const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
	const charts = new Map(); // from the element to what was drawn in it

	// number shows about four digits, as the tables do.
	function number(x) {
		const size = Math.abs(x);
		return String(size < 0.1 ? Number(x.toPrecision(3)) : Number(x.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3)));
	}
	const withUnit = (x, unit) => (number(x) + " " + (unit || "")).trim();

	function axis(of, more) {
		return Object.assign({
			label: of.unit ? of.label + " (" + of.unit + ")" : of.label, labelSize: 20, labelGap: 2, size: 28, gap: 5, font: font12(), labelFont: font12(),
			stroke: () => colour("soft"), grid: { stroke: () => colour("grid"), width: 1 }, ticks: { stroke: () => colour("grid"), width: 1, size: 5 },
			values: (u, splits) => splits.map((x) => (x === null ? "" : String(Number(x.toPrecision(10))))),
		}, more);
	}
	function font12() { return "12px system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', Arial, sans-serif"; }

	// options are what all charts have in common. The readout is a line of text below the chart about what is under the cursor.
	function options(place, data, readout, more) {
		const x = { time: false };
		if (data.max) x.range = (u, low, high) => (low === null || low === high ? [0, data.max] : [low, high]);
		return Object.assign({
			width: place.clientWidth, height: place.clientHeight, legend: { show: false }, scales: { x: x },
			cursor: {
				y: false, drag: { x: true, y: false, setScale: true },
				sync: data.sync ? { key: data.sync, scales: ["x", null] } : undefined,
			},
			hooks: {
				setCursor: [(u) => { readout.textContent = u.cursor.left >= 0 ? describe(u, data) : ""; }],
				setScale: [(u, key) => {
					if (key !== "x" || !data.sync) return;
					const zoomed = u.scales.x.max - u.scales.x.min < data.max * 0.999;
					place.classList.toggle("zoomed", zoomed);
					place.parentElement.querySelector(".reset").classList.toggle("shown", zoomed);
				}],
			},
		}, more);
	}

	function describe(u, data) {
		const x = u.posToVal(u.cursor.left, "x");
		if (data.names) return describeName(u, data, Math.round(x));
		const at = withUnit(x, data.x.unit);
		if (data.lanes) return describeLane(u, data, x, at);
		const words = data.series.map((s) => {
			const i = before(s.x, x);
			return s.name + " " + (i < 0 ? "–" : withUnit(valueAt(s, i, x), data.y.unit));
		});
		return at + ": " + words.join(", ");
	}

	function describeName(u, data, n) {
		if (!(n in data.names)) return "";
		const words = data.series.map((s) => {
			const i = s.x.indexOf(n);
			return s.name + " " + (i < 0 ? "–" : withUnit(s.y[i], data.y.unit));
		});
		return data.names[n] + ": " + words.join(", ");
	}

	// before is the index of the last value in a sorted list that is not above x, or -1.
	function before(list, x) {
		let low = 0, high = list.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (list[middle] <= x) low = middle + 1;
			else high = middle;
		}
		return low - 1;
	}
	function valueAt(series, i, x) {
		if (series.step || i + 1 >= series.x.length || series.x[i + 1] === series.x[i]) return series.y[i];
		return series.y[i] + (series.y[i + 1] - series.y[i]) * (x - series.x[i]) / (series.x[i + 1] - series.x[i]);
	}

	// fromZero is a scale that begins at zero and has some room at the top.
	const fromZero = { range: (u, low, high) => [0, high > 0 ? high * 1.08 : 1] };
	// wide enough for the labels, measured in characters.
	const labelWidth = (u, labels) => 14 + 7.2 * Math.max(2, ...(labels || []).map((l) => l.length));

	function curves(place, data, readout) {
		const series = [{}].concat(data.series.map((s, i) => ({
			label: s.name, stroke: () => colour("series-" + i), width: 1.75, points: { show: data.series.length > 1 && s.x.length < 40 },
			fill: data.series.length === 1 ? () => colour("level") : undefined,
			paths: s.step ? uPlot.paths.stepped({ align: 1 }) : undefined, spanGaps: true,
		})));
		const tables = data.series.map((s) => [s.x, s.y]);
		const joined = tables.length === 1 ? tables[0] : uPlot.join(tables);
		const o = options(place, data, readout, {
			series: series, axes: [axis(data.x), axis(data.y, { size: labelWidth })],
			padding: [10, 14, 0, 0],
		});
		o.scales.y = fromZero;
		if (data.names) byName(o, data);
		if (data.events) o.hooks.drawAxes = [(u) => data.events.forEach((e) => drawEvent(u, e))];
		return new uPlot(o, joined, place);
	}

	// byName lets names stand at 0, 1, 2, … of the X axis.
	function byName(o, data) {
		const names = data.names;
		o.scales.x.range = [-0.4, names.length - 0.6];
		o.cursor.drag = { x: false, y: false };
		o.axes[0].incrs = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
		o.axes[0].space = 10 + 7 * Math.max(...names.map((name) => name.length));
		o.axes[0].values = (u, splits) => splits.map((at) => (at in names ? names[at] : ""));
		if (data.marked) o.hooks.drawAxes = [(u) => drawMarked(u, data.marked - 1)];
	}

	function drawMarked(u, at) {
		const c = u.ctx, x = Math.round(u.valToPos(at, "x", true));
		c.save();
		c.strokeStyle = colour("good");
		c.lineWidth = 2 * devicePixelRatio;
		c.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
		c.beginPath();
		c.moveTo(x, u.bbox.top);
		c.lineTo(x, u.bbox.top + u.bbox.height);
		c.stroke();
		c.restore();
	}

	// drawEvent shades the time of an event between two lines, or draws one line if it takes no time. Its name stands at the top.
	function drawEvent(u, event) {
		const c = u.ctx, from = u.valToPos(event.from, "x", true), to = u.valToPos(event.to, "x", true);
		c.save();
		c.beginPath();
		c.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
		c.clip();
		c.fillStyle = colour("block");
		c.fillRect(from, u.bbox.top, to - from, u.bbox.height);
		c.strokeStyle = c.fillStyle = colour("stop");
		c.lineWidth = 1.5 * devicePixelRatio;
		c.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
		c.beginPath();
		for (const x of event.to > event.from ? [from, to] : [from]) {
			c.moveTo(x, u.bbox.top);
			c.lineTo(x, u.bbox.top + u.bbox.height);
		}
		c.stroke();
		c.font = "600 " + font(12);
		c.textAlign = "left";
		c.textBaseline = "top";
		c.fillText(event.name.split(":")[0], from + 4 * devicePixelRatio, u.bbox.top + 2 * devicePixelRatio);
		c.restore();
	}

	// The lanes are drawn by hand: uPlot gives the time axis, cursor and zoom.
	function lanes(place, data, readout) {
		const o = options(place, data, readout, {
			series: [{}, { paths: () => null, points: { show: false } }],
			axes: [axis(data.x), { show: false }],
			padding: [2, 14, 0, narrow.matches ? 6 : 190],
		});
		o.scales.y = { range: [0, 1] };
		o.cursor.points = { show: false };
		o.hooks.draw = [(u) => drawLanes(u, data)];
		return new uPlot(o, [[0, data.max], [null, null]], place);
	}

	// lanePlace is where the n-th lane is, in pixels of the canvas. The text stands above it if there is no room beside it.
	function lanePlace(u, data, n) {
		const height = u.bbox.height / data.lanes.length, text = narrow.matches ? 16 * devicePixelRatio : 0, gap = 5 * devicePixelRatio;
		return { text: u.bbox.top + n * height, top: u.bbox.top + n * height + text + gap, bottom: u.bbox.top + (n + 1) * height - gap };
	}

	function drawLanes(u, data) {
		const c = u.ctx, x = (value) => u.valToPos(value, "x", true);
		const right = u.bbox.left + u.bbox.width;
		data.lanes.forEach((lane, n) => {
			const at = lanePlace(u, data, n);
			laneText(u, c, lane, at);
			c.save();
			c.beginPath();
			c.rect(u.bbox.left - 5 * devicePixelRatio, at.top - 5 * devicePixelRatio, u.bbox.width + 10 * devicePixelRatio, at.bottom - at.top + 10 * devicePixelRatio);
			c.clip();
			c.fillStyle = colour("lane");
			c.fillRect(u.bbox.left, at.top, u.bbox.width, at.bottom - at.top);
			const inside = (value) => Math.min(Math.max(x(value), u.bbox.left), right); // marks may stand out, areas may not
			drawWindows(c, lane, at, inside);
			spans(data.blocks, (from, to) => {
				c.fillStyle = colour("block");
				c.fillRect(inside(from), at.top, inside(to) - inside(from), at.bottom - at.top);
			});
			const y = (height) => at.bottom - (height / lane.top) * (at.bottom - at.top);
			drawMarks(u, c, lane, at, x, y, right);
			c.restore();
		});
	}

	// fitted is as much of a text as there is room for.
	function fitted(c, text, room) {
		if (c.measureText(text).width <= room) return text;
		while (text && c.measureText(text + "…").width > room) text = text.slice(0, -1);
		return text + "…";
	}

	function laneText(u, c, lane, at) {
		c.save();
		c.textBaseline = "middle";
		c.textAlign = "left";
		if (narrow.matches) {
			c.fillStyle = colour("card"); // the grid would run through the letters
			c.fillRect(0, at.text, c.canvas.width, at.top - at.text);
			c.font = "600 " + font(12);
			c.fillStyle = colour("text");
			const y = at.text + 12 * devicePixelRatio;
			c.fillText(lane.label, 0, y);
			const width = c.measureText(lane.label).width;
			c.font = font(11.5);
			c.fillStyle = colour("soft");
			c.fillText(fitted(c, lane.note, c.canvas.width - width - 10 * devicePixelRatio), width + 10 * devicePixelRatio, y);
		} else {
			const middle = (at.top + at.bottom) / 2, left = 0, room = u.bbox.left - 10 * devicePixelRatio;
			c.font = "600 " + font(12.5);
			c.fillStyle = colour("text");
			c.fillText(fitted(c, lane.label, room), left, middle - (lane.note ? 7.5 * devicePixelRatio : 0));
			c.font = font(11.5);
			c.fillStyle = colour("soft");
			c.fillText(fitted(c, lane.note, room), left, middle + 8 * devicePixelRatio);
		}
		c.restore();
	}

	function spans(list, each) {
		for (let i = 0; list && i + 1 < list.length; i += 2) each(list[i], list[i + 1]);
	}

	function drawWindows(c, lane, at, x) {
		const low = x(-Infinity), high = x(Infinity);
		spans(lane.windows, (from, to) => {
			const a = x(from), b = x(to);
			if (a === b) return;
			c.fillStyle = colour("window");
			c.fillRect(a, at.top, b - a, at.bottom - at.top);
			c.fillStyle = colour("window-edge");
			for (const edge of [a, b]) {
				if (edge > low && edge < high) c.fillRect(Math.round(edge), at.top, devicePixelRatio, at.bottom - at.top);
			}
		});
	}

	// The order is what lies on top in the end: what somebody should look at.
	const kinds = ["foreign", "accepted", "broken", "unjudged", "unavoidable", "avoidable"];

	function drawMarks(u, c, lane, at, x, y, right) {
		for (const kind of kinds) {
			const list = lane.marks[kind] || [];
			c.fillStyle = c.strokeStyle = colour(kind === "unjudged" ? "unavoidable" : kind);
			for (let i = 0; i < list.length; i += 3) {
				const px = x(list[i]);
				if (px < u.bbox.left - 1 || px > right + 1) continue;
				const size = (kind === "accepted" ? 2.3 : 4) + Math.min(2, Math.log2(list[i + 2]) / 3);
				shape(c, kind, px, Math.min(Math.max(y(list[i + 1]), at.top), at.bottom), size * devicePixelRatio);
			}
		}
	}

	function shape(c, kind, x, y, r) {
		c.beginPath();
		switch (kind) {
		case "accepted":
			c.arc(x, y, r, 0, 2 * Math.PI);
			c.fill();
			break;
		case "foreign":
			c.lineWidth = 1.5 * devicePixelRatio;
			c.strokeRect(x - r * 0.8, y - r * 0.8, r * 1.6, r * 1.6);
			break;
		case "broken":
			c.moveTo(x, y - r); c.lineTo(x + r, y + r); c.lineTo(x - r, y + r); c.closePath();
			c.fill();
			break;
		case "avoidable":
			c.lineWidth = 2.2 * devicePixelRatio;
			c.moveTo(x - r, y - r); c.lineTo(x + r, y + r); c.moveTo(x + r, y - r); c.lineTo(x - r, y + r);
			c.stroke();
			break;
		default:
			c.moveTo(x, y - r); c.lineTo(x + r, y); c.lineTo(x, y + r); c.lineTo(x - r, y); c.closePath();
			c.fill();
		}
	}

	const names = {
		accepted: "request let through", foreign: "somebody else's request", broken: "answered with an error, or not at all",
		avoidable: "avoidable 429", unavoidable: "429 that was not avoidable", unjudged: "429",
	};

	function describeLane(u, data, x, at) {
		const n = Math.floor(u.cursor.top / (u.over.clientHeight / data.lanes.length));
		const lane = data.lanes[n];
		if (!lane) return at;
		let text = lane.label + " at " + at;
		const near = nearest(u, lane);
		return near ? text + "; " + near : text;
	}

	// nearest describes the marks a few pixels around the cursor.
	function nearest(u, lane) {
		const found = [];
		for (const kind of kinds) {
			const list = lane.marks[kind] || [];
			let count = 0;
			for (let i = 0; i < list.length; i += 3) {
				if (Math.abs(u.valToPos(list[i], "x") - u.cursor.left) <= 4) count += list[i + 2];
			}
			if (count) found.push((count > 1 ? count + " × " : "") + names[kind]);
		}
		return found.join(", ");
	}

	// zoom shows a part of the time in all charts that share it.
	function zoom(place, data, from, to) {
		const all = data.max, length = Math.min(Math.max(to - from, all / 10000), all);
		const low = Math.min(Math.max(from, 0), all - length);
		for (const [other, chart] of charts) {
			if (chart.cursor.sync && chart.cursor.sync.key === data.sync) chart.setScale("x", { min: low, max: low + length });
		}
	}

	// touch: two fingers zoom, one moves what is zoomed, two taps show everything again. Otherwise one finger scrolls the page.
	function touch(chart, place, data) {
		const fingers = new Map();
		let before = null, tapped = 0;
		const at = (event) => event.clientX - chart.over.getBoundingClientRect().left;
		const state = () => {
			const xs = [...fingers.values()];
			return { middle: xs.reduce((a, b) => a + b, 0) / xs.length, spread: xs.length > 1 ? Math.max(20, Math.abs(xs[0] - xs[1])) : 0 };
		};
		place.addEventListener("touchstart", (event) => { if (event.touches.length > 1) event.preventDefault(); }, { passive: false });
		place.addEventListener("touchmove", (event) => { if (event.touches.length > 1) event.preventDefault(); }, { passive: false });
		chart.over.addEventListener("pointerdown", (event) => {
			if (event.pointerType !== "touch") return;
			fingers.set(event.pointerId, at(event));
			before = state();
			chart.setCursor({ left: at(event), top: event.clientY - chart.over.getBoundingClientRect().top });
			if (fingers.size === 1) {
				if (event.timeStamp - tapped < 300) zoom(place, data, 0, data.max);
				tapped = event.timeStamp;
			}
		});
		chart.over.addEventListener("pointermove", (event) => {
			if (!fingers.has(event.pointerId)) return;
			fingers.set(event.pointerId, at(event));
			const now = state(), x = chart.scales.x, width = chart.over.clientWidth, length = x.max - x.min;
			if (fingers.size === 1 && length >= data.max * 0.999) return;
			const longer = fingers.size > 1 ? length * before.spread / now.spread : length;
			const under = x.min + before.middle / width * length; // what was under the fingers stays there
			zoom(place, data, under - now.middle / width * longer, under + (1 - now.middle / width) * longer);
			before = now;
		});
		for (const end of ["pointerup", "pointercancel"]) {
			chart.over.addEventListener(end, (event) => {
				fingers.delete(event.pointerId);
				if (fingers.size) before = state();
			});
		}
	}

	// keys: arrows move the cursor, + and - zoom, 0 and Escape show everything again.
	function keys(chart, place, data) {
		const reset = place.closest("figure").querySelector(".reset");
		reset.onclick = () => zoom(place, data, 0, data.max);
		place.onkeydown = (event) => {
			const width = chart.over.clientWidth, x = chart.scales.x, length = x.max - x.min;
			const left = chart.cursor.left >= 0 ? chart.cursor.left : width / 2, under = x.min + left / width * length;
			const factor = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
			if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
				const by = (event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? 50 : 8);
				chart.setCursor({ left: Math.min(Math.max(left + by, 0), width), top: Math.max(chart.cursor.top, 1) });
			} else if (data.lanes && (event.key === "ArrowUp" || event.key === "ArrowDown")) {
				const lane = chart.over.clientHeight / data.lanes.length;
				const top = Math.max(chart.cursor.top, 0) + (event.key === "ArrowUp" ? -lane : lane);
				chart.setCursor({ left: left, top: Math.min(Math.max(top, lane / 2), chart.over.clientHeight - lane / 2) });
			} else if (data.sync && factor) {
				zoom(place, data, under - left / width * length * factor, under + (1 - left / width) * length * factor);
			} else if (data.sync && (event.key === "0" || event.key === "Escape")) {
				zoom(place, data, 0, data.max);
			} else {
				return;
			}
			event.preventDefault();
		};
	}

	function draw(place) {
		const figure = place.closest("figure");
		const readout = figure.querySelector(".readout");
		try {
			const data = JSON.parse(figure.querySelector("script").textContent);
			for (const s of data.series || []) {
				s.x = s.points.map((p) => p[0]);
				s.y = s.points.map((p) => p[1]);
			}
			const chart = (data.lanes ? lanes : curves)(place, data, readout);
			charts.set(place, chart);
			if (data.sync) {
				chart.setScale("x", { min: 0, max: data.max });
				touch(chart, place, data);
			}
			keys(chart, place, data);
		} catch (error) {
			readout.textContent = "This chart could not be drawn; see the table. (" + error.message + ")";
		}
	}

	// A chart is made when it can be seen, and made again when its size or the colours change.
	function drawVisible() {
		for (const place of document.querySelectorAll(".plot")) if (!charts.has(place) && place.clientWidth > 0) draw(place);
	}
	function again() {
		for (const chart of charts.values()) chart.destroy();
		charts.clear();
		drawVisible();
	}
	let width = innerWidth, later = 0;
	addEventListener("resize", () => {
		if (innerWidth === width) return; // telephones hide their bars while scrolling
		width = innerWidth;
		clearTimeout(later);
		later = setTimeout(again, 150);
	});
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

	// Links and printing open what is folded.
	function unfold() {
		const section = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
		const fold = section && section.querySelector("details.fold");
		if (fold && !fold.open) {
			fold.open = true;
			section.scrollIntoView();
		}
	}
	addEventListener("hashchange", unfold);
	addEventListener("beforeprint", () => {
		for (const fold of document.querySelectorAll("details.fold")) fold.open = true;
		drawVisible();
	});
	for (const fold of document.querySelectorAll("details.fold")) fold.addEventListener("toggle", drawVisible);

	// Tables that are wider than the page say so.
	function markTables() {
		for (const table of document.querySelectorAll(".table")) {
			const hidden = table.scrollWidth - table.clientWidth;
			table.parentElement.classList.toggle("wide", hidden > 1);
			table.parentElement.classList.toggle("more", hidden - table.scrollLeft > 1);
			table.onscroll = markTables;
		}
	}
	addEventListener("resize", markTables);
	for (const details of document.querySelectorAll("details")) details.addEventListener("toggle", markTables);
	unfold();
	drawVisible();
	markTables();
})();
