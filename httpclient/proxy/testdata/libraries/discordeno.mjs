// node discordeno.mjs BASE_URL, with @discordeno/rest in a directory that NODE_PATH names.
const { createRestManager } = await import(`file://${process.env.NODE_PATH}/@discordeno/rest/dist/esm/index.js`);
const base = process.argv[2];

const rest = createRestManager({
  token: "MTIzNDU2Nzg5.canary-token.signature", applicationId: 123456789n, proxy: { baseUrl: base },
});
// Through a proxy, Discordeno repeats no request after a 429, so this header asks the proxy to wait for longer.
const headers = { "x-ratelight-max-wait": "60" };
const me = await rest.get("/users/@me");
if (me.id !== "123456789") throw new Error("not me: " + JSON.stringify(me));
const messages = [];
for (let i = 0; i < 12; i++) {
  messages.push(rest.post("/channels/1/messages", { body: { content: "message " + i }, headers }));
}
await Promise.all(messages);
await rest.addReaction(1n, 2n, "🔥");
const large = { blob: new Blob([Buffer.alloc(3 << 20, "x")]), name: "large.bin" };
await rest.post("/channels/2/messages", { body: { content: "with a file" }, files: [large] });
await rest.post("/webhooks/5/a-token-of-a-webhook?wait=true", { body: { content: "hook" }, unauthorized: true });
await rest.delete("/channels/1/messages/3", { reason: "because of ü" });
console.log("done");
