"""Runs the package of integrations/home-assistant in Home Assistant, by whose Python it is started.

Arguments: a directory with secrets.yaml and callerid.yaml, and settings of the script as JSON. Each line of standard
input is a call, the data of the script as JSON; each is answered by a line with what the script returned.
"""

import asyncio
import json
import logging
import sys
from pathlib import Path


async def main(directory: str, settings: dict[str, str]) -> None:
    from homeassistant import auth, bootstrap, config_entries, core, loader
    from homeassistant.setup import async_setup_component
    from homeassistant.util import yaml as yaml_of

    hass = core.HomeAssistant(directory)
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    loader.async_setup(hass)
    await bootstrap.async_load_base_functionality(hass)
    hass.auth = await auth.auth_manager_from_config(hass, [], [])
    package = yaml_of.load_yaml(str(Path(directory) / "callerid.yaml"), yaml_of.Secrets(Path(directory)))
    package["script"]["callerid"]["variables"].update(settings)
    hass.set_state(core.CoreState.running)
    for component in ("network", "rest_command", "script"):
        assert await async_setup_component(hass, component, package), component
    logging.getLogger("homeassistant.components.rest_command").setLevel(logging.CRITICAL)  # as `logger` in the package

    at_once = asyncio.Semaphore(8)

    async def call(line: str) -> object:
        async with at_once:
            return await hass.services.async_call(
                "script", "callerid", json.loads(line), blocking=True, return_response=True
            )

    for result in await asyncio.gather(*[call(line) for line in sys.stdin if line.strip()]):
        sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2])))
