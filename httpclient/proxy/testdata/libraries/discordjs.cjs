// node discordjs.cjs BASE_URL, with @discordjs/rest in a directory that NODE_PATH names.
const { REST } = require("@discordjs/rest");
const base = process.argv[2];

async function main() {
  const rest = new REST({ version: "10", api: base + "/api" }).setToken("MTIzNDU2Nzg5.canary-token.signature");
  const me = await rest.get("/users/@me");
  if (me.id !== "123456789") throw new Error("not me: " + JSON.stringify(me));
  const messages = [];
  for (let i = 0; i < 12; i++) messages.push(rest.post("/channels/1/messages", { body: { content: "message " + i } }));
  await Promise.all(messages);
  await rest.put("/channels/1/messages/2/reactions/" + encodeURIComponent("🔥") + "/@me");
  await rest.post("/channels/2/messages", {
    body: { content: "with a file" },
    files: [{ name: "large.bin", data: Buffer.alloc(3 << 20, "x") }],
  });
  const query = new URLSearchParams({ wait: "true" });
  await rest.post("/webhooks/5/a-token-of-a-webhook", { body: { content: "hook" }, auth: false, query });
  await rest.delete("/channels/1/messages/3", { reason: "because of ü" });
}

main().then(() => console.log("done"), (err) => { console.error(err); process.exitCode = 1; });
