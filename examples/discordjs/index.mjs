// Sends twelve messages to a channel through the proxy, all at once:
//
//   go run github.com/ratelight/ratelight/httpclient/proxy/ratelight-proxy@latest &
//   npm install && TOKEN=… CHANNEL=… node index.mjs
//
// A bot of discord.js passes the same options: new Client({ intents, rest: options }).
import { REST } from "@discordjs/rest";

const options = {
  api: process.env.API ?? "http://127.0.0.1:8080/api",
  timeout: 60_000, // requests may wait in the proxy for longer than the 15 s of discord.js
};
const rest = new REST(options).setToken(process.env.TOKEN);
const route = `/channels/${process.env.CHANNEL}/messages`;

const results = await Promise.allSettled(
  Array.from({ length: 12 }, (_, i) => rest.post(route, { body: { content: `message ${i}` } })),
);
for (const result of results.filter((r) => r.status === "rejected")) console.error(result.reason);
const sent = results.filter((r) => r.status === "fulfilled").length;
console.log(`${sent} of ${results.length} sent`);
