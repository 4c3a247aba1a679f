// Stylesheets do not apply to text on a canvas: set the page's colour, in light and dark.
const setTickColors = () => {
  const colour = getComputedStyle(document.body).color;
  for (const canvas of document.querySelectorAll("canvas.chart")) {
    const chart = Chart.getChart(canvas);
    if (!chart) continue;
    for (const axis of Object.values(chart.options.scales)) axis.ticks.color = colour;
    chart.update();
  }
};
window.addEventListener("load", setTickColors);
new MutationObserver(setTickColors).observe(document.documentElement, { attributeFilter: ["class"] });
