// Runs a function node of a flow as Node-RED does. Arguments: the flow and the node's name. Lines of stdin are messages;
// each is answered by a line with what the node returned and its warnings.
const { readFileSync } = require("node:fs");
const [file, name] = process.argv.slice(2);
const { func } = JSON.parse(readFileSync(file)).find((node) => node.type === "function" && node.name === name);
const run = new Function("msg", "node", "env", "Buffer", func);
const env = { get: (setting) => process.env[setting] };
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    const warnings = [];
    const returned = run(JSON.parse(line), { warn: (text) => warnings.push(text) }, env, Buffer);
    console.log(JSON.stringify({ returned, warnings }));
}
