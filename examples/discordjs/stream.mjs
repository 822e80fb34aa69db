// Streams a text into one message through the proxy. The text grows faster than Discord accepts edits, so the proxy
// sends only the latest of the waiting edits.
//
//   npm install && TOKEN=… CHANNEL=… MESSAGE=… node stream.mjs
import { REST } from "@discordjs/rest";

const options = {
  api: process.env.API ?? "http://127.0.0.1:8080/api",
  timeout: 60_000,
  headers: { "X-Ratelight-Latest": "true" },
  handlerSweepInterval: 0, // no timers
  hashSweepInterval: 0,
};
const route = `/channels/${process.env.CHANNEL}/messages/${process.env.MESSAGE}`;

// A REST object of discord.js sends the edits of one message one after the other. Therefore each edit has an object of
// its own. Otherwise an edit would not reach the proxy while the previous edit waits there.
const edit = (content) => new REST(options).setToken(process.env.TOKEN).patch(route, { body: { content } });

const words = Array.from({ length: 100 }, (_, i) => `word ${i + 1}`);
const edits = words.map(async (_, i) => {
  await new Promise((resolve) => setTimeout(resolve, i * 20));
  try {
    await edit(words.slice(0, i + 1).join(" "));
    return "sent";
  } catch (error) {
    if (error.status === 409) return "superseded"; // a newer edit has taken the place of this one
    throw error;
  }
});
const results = await Promise.all(edits);
console.log(`${results.filter((r) => r === "sent").length} of ${results.length} edits sent`);
