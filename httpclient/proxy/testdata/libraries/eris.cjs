// node eris.cjs BASE_URL, with eris in a directory that NODE_PATH names.
const http = require("http");
const Eris = require("eris");
const base = new URL(process.argv[2]);

// Eris uses only HTTPS, on port 443. This agent makes it use plain HTTP on the proxy's port.
const agent = new http.Agent({ keepAlive: true });
agent.protocol = "https:";
agent.defaultPort = base.port;

async function main() {
  const bot = new Eris("Bot MTIzNDU2Nzg5.canary-token.signature", {
    restMode: true, intents: [], rest: { domain: base.hostname, baseURL: "/api/v9", agent },
  });
  const me = await bot.getSelf();
  if (me.id !== "123456789") throw new Error("not me");
  const messages = [];
  for (let i = 0; i < 12; i++) messages.push(bot.createMessage("1", "message " + i));
  await Promise.all(messages);
  await bot.addMessageReaction("1", "2", "🔥");
  await bot.createMessage("2", "with a file", { name: "large.bin", file: Buffer.alloc(3 << 20, "x") });
  await bot.executeWebhook("5", "a-token-of-a-webhook", { content: "hook", wait: true });
  await bot.deleteMessage("1", "3", "because of ü");
  agent.destroy();
}

main().then(() => console.log("done"), (err) => { console.error(err); process.exitCode = 1; });
