"""The straightforward peer: FastAPI, asyncpg, PyJWT and Redis, as a good engineer writes it in an afternoon.

Hand-written SQL, one pooled connection for the whole search, and the libraries' defaults.
"""

import hmac
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import asyncpg
import jwt
import redis.asyncio as redis
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

JWT_SIGNING_KEY = os.environ["JWT_SIGNING_KEY"]
NUMBER_HASH_KEY = os.environ["NUMBER_HASH_KEY"].encode()
LIMIT = int(os.environ["RATE_LIMIT"].partition("/")[0])
WINDOW_S = 60

FIND_TOKEN = "SELECT id, credits FROM accounts_apitoken WHERE jti = $1 AND revoked_at IS NULL"
FIND_CONTACT = "SELECT name, location FROM phonebook_contact WHERE number = $1"
SUM_COMPLAINTS = "SELECT sum(total) FROM phonebook_complaintday WHERE number = $1 AND day > $2"
DEBIT = """
UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = $2
WHERE id = $1 AND credits >= 1 RETURNING credits
"""
ADD_ENTRY = """
INSERT INTO accounts_creditentry
    (token_id, amount, balance_after, kind, actor, reason, reference, request_id, number_hash, created_at)
VALUES ($1, -1, $2, 'search', '', '', '', $3, $4, $5)
"""


class SearchRequest(BaseModel):
    api_key: str = Field(max_length=2048)
    query: str = Field(pattern="^[1-9][0-9]{6,14}$")


class SourceA(BaseModel):
    name: str | None = None
    location: str | None = None


class SourceB(BaseModel):
    name: str | None = None
    spam: bool | None = None


class Combined(BaseModel):
    source_a_available: bool
    source_b_available: bool


class SearchData(BaseModel):
    phone_number: str
    source_a: SourceA
    source_b: SourceB
    combined: Combined


class SearchResponse(BaseModel):
    success: bool
    data: SearchData
    credits_remaining: int


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with asyncpg.create_pool(os.environ["DATABASE_URL"]) as pool:
        app.state.pool = pool
        app.state.redis = redis.from_url(os.environ["REDIS_URL"])
        yield
        await app.state.redis.aclose()


app = FastAPI(lifespan=lifespan)


@app.get("/livez")
async def livez() -> str:
    return "ok"


@app.post("/callerid/search", response_model_exclude_none=True)
async def search(body: SearchRequest, request: Request) -> SearchResponse:
    state = request.app.state
    jti = verify(body.api_key)
    async with state.pool.acquire() as connection:
        token = await connection.fetchrow(FIND_TOKEN, jti)
        if token is None:
            raise HTTPException(401, "Invalid or missing token")
        await require_rate(state.redis, token["id"])
        if token["credits"] < 1:
            raise HTTPException(403, "No credits remaining")
        source_a, source_b = await query_sources(connection, int(body.query))
        credits_left = await charge(connection, token["id"], body.query)
    return make_response(body.query, source_a, source_b, credits_left)


def verify(api_key: str) -> str:
    """Verifies the JWT and returns its `jti`."""
    try:
        claims = jwt.decode(
            api_key, JWT_SIGNING_KEY, algorithms=["HS256"], options={"require": ["exp", "jti"]}, leeway=30
        )
    except jwt.InvalidTokenError as error:
        raise HTTPException(401, "Invalid or missing token") from error
    return str(claims["jti"])


async def require_rate(client: redis.Redis, token_id: int) -> None:
    """Enforces the rate limit, in a fixed window."""
    key = f"rate:{token_id}:{int(datetime.now(UTC).timestamp()) // WINDOW_S}"
    async with client.pipeline(transaction=False) as pipeline:
        pipeline.incr(key)
        pipeline.expire(key, WINDOW_S)
        count, _ = await pipeline.execute()
    if count > LIMIT:
        raise HTTPException(429, "Rate limit exceeded")


async def query_sources(connection: asyncpg.Connection, number: int) -> tuple[SourceA, SourceB]:
    contact = await connection.fetchrow(FIND_CONTACT, number)
    source_a = SourceA(name=contact["name"] or None, location=contact["location"] or None) if contact else SourceA()
    since = datetime.now(UTC).date() - timedelta(days=90)
    complaints = await connection.fetchval(SUM_COMPLAINTS, number, since)
    return source_a, SourceB(spam=True if complaints is not None and complaints >= 2 else None)


async def charge(connection: asyncpg.Connection, token_id: int, number: str) -> int:
    now = datetime.now(UTC)
    async with connection.transaction():
        credits_left = await connection.fetchval(DEBIT, token_id, now)
        if credits_left is None:
            raise HTTPException(403, "No credits remaining")
        number_hash = hmac.digest(NUMBER_HASH_KEY, number.encode(), "sha256")
        await connection.execute(ADD_ENTRY, token_id, credits_left, uuid4().hex, number_hash, now)
    return int(credits_left)


def make_response(number: str, source_a: SourceA, source_b: SourceB, credits_left: int) -> SearchResponse:
    return SearchResponse(
        success=True,
        data=SearchData(
            phone_number=number,
            source_a=source_a,
            source_b=source_b,
            combined=Combined(
                source_a_available=source_a.name is not None or source_a.location is not None,
                source_b_available=source_b.name is not None or source_b.spam is not None,
            ),
        ),
        credits_remaining=credits_left,
    )
