// No stylesheet reaches the text on a canvas: it takes the page's colour, in light and dark.
const inkCharts = () => {
  const colour = getComputedStyle(document.body).color;
  for (const canvas of document.querySelectorAll("canvas.chart")) {
    const chart = Chart.getChart(canvas);
    if (!chart) continue;
    for (const axis of Object.values(chart.options.scales)) axis.ticks.color = colour;
    chart.update();
  }
};
window.addEventListener("load", inkCharts);
new MutationObserver(inkCharts).observe(document.documentElement, { attributeFilter: ["class"] });
