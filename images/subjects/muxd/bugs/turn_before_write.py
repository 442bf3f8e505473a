"""An agent is started when its turn is running in memory; on disk its prompt still waits."""

from muxd.turns import Turns


async def turn(self, chat):
    prompt, text = chat.state.queue[0]
    chat.change(chat.state.begin())
    outcome = await self._agents.run(prompt, text, lambda: self._permissions.ask(chat.name, prompt))
    chat.change(chat.state.end(outcome))
    await chat.commit()


Turns._turn = turn
