"""The straightforward peer with two vendors as sources: aiohttp, with the limits that ours has by default.

MOCK_CALLS limits the concurrent calls per vendor and process; both calls share one deadline; a response body has at
most 64 KiB. The peer holds no database connection during the calls. It has no cache and no circuit breaker.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeVar

import aiohttp
import asyncpg
import redis.asyncio as redis
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, ValidationError

from bench.peers.fastapi_peer import (
    FIND_TOKEN,
    SearchRequest,
    SearchResponse,
    SourceA,
    SourceB,
    charge,
    livez,
    make_response,
    require_rate,
    verify,
)

URL_A, URL_B = os.environ["MOCK_A_BASE_URL"], os.environ["MOCK_B_BASE_URL"]
KEY_A, KEY_B = os.environ["MOCK_A_KEY"], os.environ["MOCK_B_KEY"]
CALLS = int(os.environ["MOCK_CALLS"])
DEADLINE_S = 1.5
MAX_BODY_BYTES = 64 * 1024


class AnswerA(BaseModel):
    name: str
    city: str
    state: str


class AnswerB(BaseModel):
    name: str
    score: int


Answer = TypeVar("Answer", bound=BaseModel)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with (
        asyncpg.create_pool(os.environ["DATABASE_URL"]) as pool,
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=CALLS),
            timeout=aiohttp.ClientTimeout(total=DEADLINE_S),
        ) as session,
    ):
        app.state.pool = pool
        app.state.redis = redis.from_url(os.environ["REDIS_URL"])
        app.state.session = session
        yield
        await app.state.redis.aclose()


app = FastAPI(lifespan=lifespan)
app.get("/livez")(livez)


@app.post("/callerid/search", response_model_exclude_none=True)
async def search(body: SearchRequest, request: Request) -> SearchResponse:
    state = request.app.state
    token = await state.pool.fetchrow(FIND_TOKEN, verify(body.api_key))
    if token is None:
        raise HTTPException(401, "Invalid or missing token")
    await require_rate(state.redis, token["id"])
    if token["credits"] < 1:
        raise HTTPException(403, "No credits remaining")
    source_a, source_b = await asyncio.gather(call_a(state.session, body.query), call_b(state.session, body.query))
    if source_a is None and source_b is None:
        raise HTTPException(500, "Internal server error")
    async with state.pool.acquire() as connection:
        credits_left = await charge(connection, token["id"], body.query)
    return make_response(body.query, source_a or SourceA(), source_b or SourceB(), credits_left)


async def call_a(session: aiohttp.ClientSession, number: str) -> SourceA | None:
    call = session.get(
        f"{URL_A}/v1/callers/%2B{number}",
        params=[("fields", "name"), ("fields", "place")],
        headers={"X-Key": KEY_A},
        allow_redirects=False,
    )
    answer = await read(call, AnswerA)
    return SourceA(name=answer.name, location=f"{answer.city}, {answer.state}") if answer else None


async def call_b(session: aiohttp.ClientSession, number: str) -> SourceB | None:
    call = session.post(
        f"{URL_B}/{KEY_B}/report",
        json={"phone": f"+{number}", "options": {"spam": True}},
        allow_redirects=False,
    )
    answer = await read(call, AnswerB)
    return SourceB(name=answer.name, spam=answer.score >= 5) if answer else None


async def read(call: AbstractAsyncContextManager[aiohttp.ClientResponse], model: type[Answer]) -> Answer | None:
    """Returns the parsed answer, or None when the call failed."""
    try:
        async with call as response:
            response.raise_for_status()
            body = bytearray()
            async for chunk in response.content.iter_chunked(16 * 1024):
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    return None
            return model.model_validate_json(bytes(body))
    except (aiohttp.ClientError, TimeoutError, ValidationError):
        return None
