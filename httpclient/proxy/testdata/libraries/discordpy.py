# python3 discordpy.py BASE_URL, with discord.py 2.
import asyncio
import io
import sys

import discord
from discord.http import Route, handle_message_parameters

Route.BASE = sys.argv[1] + "/api/v10"


async def main():
    client = discord.Client(intents=discord.Intents.none())
    await client.login("MTIzNDU2Nzg5.canary-token.signature")  # GET /users/@me
    assert client.user.id == 123456789
    http = client.http

    async def send(channel, content, file=None):
        with handle_message_parameters(content, file=file or discord.utils.MISSING) as parameters:
            await http.send_message(channel, params=parameters)

    await asyncio.gather(*(send(1, f"message {i}") for i in range(12)))
    await http.add_reaction(1, 2, "🔥")
    await send(2, "with a file", discord.File(io.BytesIO(b"x" * (3 << 20)), "large.bin"))
    webhook = discord.Webhook.partial(5, "a-token-of-a-webhook", client=client)
    execute = Route("POST", "/webhooks/{webhook_id}/{webhook_token}", webhook_id=5, webhook_token=webhook.token)
    await http.request(execute, json={"content": "hook"})
    await http.delete_message(1, 3, reason="because of ü")
    await client.close()


asyncio.run(main())
print("done")
