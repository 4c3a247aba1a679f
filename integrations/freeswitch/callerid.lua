-- The caller's name and spam classification for an incoming call in FreeSWITCH, with mod_lua and mod_curl (1.10 or newer).
--
--   <action application="lua" data="callerid.lua"/>     in the dialplan, before bridge
--   fs_cli -x "lua callerid.lua check"                  says what is wrong with address, token or credits
--
-- Sets effective_caller_id_name and, for a spam caller, caller_spam=yes and the header X-Caller-Spam of the outgoing INVITE.
-- docs/telephone-systems.md describes the installation.
--
-- mod_curl logs what it sends, the API token included, at level debug, and follows redirects: use the service's own URL.

local TIMEOUT_S = 1 -- mod_curl takes whole seconds
local MAX_ANSWER_BYTES = 8192
local MAX_NAME_BYTES = 64

local function setting(name, default)
    return os.getenv("CALLERID_" .. name) or default or ""
end

-- Whether `text` begins with `prefix`, which is not empty.
local function begins(text, prefix)
    return prefix ~= "" and text:sub(1, #prefix) == prefix
end

-- Whether national numbers have so many digits. `lengths`: such as 10 or 6-11.
local function is_national(digits, lengths)
    local least, most = lengths:match("^(%d+)%-?(%d*)$")
    return least ~= nil and #digits >= tonumber(least) and #digits <= (tonumber(most) or tonumber(least))
end

-- What shows nothing, in UTF-8 with decimal escapes, for Lua 5.1: Unicode's formats, fillers and variation selectors.
local INVISIBLE = {
    "\194\173", "\205\143", "\216\156", "\225\133[\159\160]", "\225\158[\180\181]", "\225\160[\139-\143]",
    "\226\128[\139-\143\168-\174]", "\226\129[\160-\175]", "\226\160\128", "\227\133\164", "\239\184[\128-\143]",
    "\239\187\191", "\239\190\160", "\239\191[\176-\187]", "\240\155\178[\160-\163]",
    "\240\157\133[\153\179-\186]", "\243\160[\128-\191][\128-\191]",
}
-- Spaces and dashes of every script.
local SEPARATORS = {
    "[-%s./()%[%]]", "\194\160", "\226\128[\128-\138\144-\149\175]", "\226\129\159", "\226\136\146", "\227\128\128", "\239\188\141",
}
-- Where a zero at the beginning is a part of the number, and no trunk prefix: Italy, Ivory Coast, Benin, Gabon, Congo, San Marino,
-- Vatican City.
local ZERO_STAYS = {
    ["39"] = true, ["225"] = true, ["229"] = true, ["241"] = true, ["242"] = true, ["378"] = true, ["379"] = true,
}
-- What Twilio sends for a caller without a number, RESTRICTED, BLOCKED, UNKNOWN, ANONYMOUS, UNAVAILABLE in the letters of a
-- telephone's keys: https://help.twilio.com/articles/223179988
local WITHHELD = {
    ["7378742833"] = true, ["2562533"] = true, ["8656696"] = true, ["266696687"] = true, ["86282452253"] = true,
}

-- `text` with `by` in place of everything that one of the patterns finds.
local function replace(text, patterns, by)
    for _, pattern in ipairs(patterns) do
        text = text:gsub(pattern, by)
    end
    return text
end

-- The number with its country code, digits only, or nil if it is none or is withheld.
local function full_number(caller)
    local country, trunk, lengths = setting("COUNTRY_CODE"), setting("TRUNK_PREFIX"), setting("NATIONAL_DIGITS")
    local international = setting("INTERNATIONAL_PREFIX", "00")
    if ZERO_STAYS[country] then
        trunk = ""
    end
    if caller:find("@anonymous%.invalid$") then -- RFC 3323
        return nil
    end
    local digits = caller:gsub("^[Tt][Ee][Ll]:", ""):gsub("^[Ss][Ii][Pp][Ss]?:", ""):gsub("[@;].*", "")
    digits = replace(replace(digits, SEPARATORS, ""), INVISIBLE, "")
    digits = digits:gsub("^%%2[Bb]", "+"):gsub("^\239\188\139", "+"):gsub("^%+00", "00")
    if digits:find("^%+%d+$") then
        digits = digits:sub(2)
    elseif not digits:find("^%d+$") then
        return nil
    elseif begins(digits, international) then
        digits = digits:sub(#international + 1)
    elseif country ~= "" and begins(digits, trunk) and (lengths == "" or is_national(digits:sub(#trunk + 1), lengths)) then
        digits = country .. digits:sub(#trunk + 1)
    elseif country ~= "" and is_national(digits, lengths) then
        digits = country .. digits
    end
    if country ~= "" and trunk ~= "" and begins(digits, country .. trunk) then -- +49 030: dialed at home only
        local rest = digits:sub(#country + #trunk + 1)
        if lengths == "" and begins(trunk, "0") or lengths ~= "" and is_national(rest, lengths) then
            digits = country .. rest
        end
    end
    -- No country code begins with 0. Behind 1, North America's, come ten digits, the first from 2 to 9.
    local north_american = digits:find("^1[2-9]%d+$") and #digits == 11
    local other = digits:find("^[2-9]%d+$") and #digits >= 7 and #digits <= 15
    return (north_american or other) and not WITHHELD[digits] and digits or nil
end

-- A name that fits between quotes: one line, at most 64 bytes of UTF-8, nothing invisible and nothing that SIP or
-- FreeSWITCH interprets.
local function clean_name(name)
    if type(name) ~= "string" then
        return ""
    end
    name = name:gsub("%z", " "):gsub('[%c"\\<>;]', " ")
    name = name:gsub("\194[\128-\159]", " ") -- C1 controls
    name = replace(name, INVISIBLE, " ")
    name = name:gsub("[$][{(]", " ") -- setVariable refuses what looks like a variable
    name = name:gsub(" +", " "):gsub("^ ", ""):gsub(" $", "")
    local last = MAX_NAME_BYTES
    if #name > last then
        while last > 0 and (name:byte(last + 1) or 0) >= 128 and name:byte(last + 1) < 192 do
            last = last - 1 -- not in the middle of a character
        end
        name = name:sub(1, last)
    end
    return name
end

-- What the service's errors say, without "json" the only sign of their status. Nothing else is written to the log, because
-- it may quote what was sent.
local STATUS = {
    ["Invalid or missing token"] = "status 401",
    ["No credits remaining"] = "status 403",
    ["Not found."] = "status 404",
    ["Rate limit exceeded"] = "status 429",
    ["Internal server error"] = "status 500",
    ["Service overloaded"] = "status 503",
}

-- The answer. Raises a table whose `reason` says why there is none.
local function search(number, call)
    local url, token = setting("URL", "http://127.0.0.1:8000"):gsub("/+$", ""), setting("TOKEN")
    if not url:find("^https?://[^%s'\\]+$") then
        error({ reason = "CALLERID_URL is not an address such as https://callerid.example.org" })
    elseif token == "" then
        error({ reason = "CALLERID_TOKEN is not set" })
    end
    local body = '{"api_key":"' .. token .. '","query":"' .. number .. '"}'
    local encoded = body:gsub("[^%w]", function(character)
        return string.format("%%%02X", character:byte())
    end)
    -- Ten words: mod_curl of FreeSWITCH 1.10 reads no more. "json", which adds the status, would be the eleventh.
    local command = table.concat({
        url .. "/callerid/search", "timeout", TIMEOUT_S, "secure", "content-type", "application/json",
        "append_headers", "Idempotency-Key:freeswitch-" .. call, "post", encoded,
    }, " ")
    local text = freeswitch.API():execute("curl", command)
    if text == "" then
        error({ reason = "no answer" })
    elseif text:find("^INVALID COMMAND") then
        error({ reason = "mod_curl is not loaded" })
    end
    local answer = #text <= MAX_ANSWER_BYTES and freeswitch.JSON():decode(text) or nil
    if type(answer) ~= "table" or type(answer.data) ~= "table" then
        error({ reason = type(answer) == "table" and STATUS[answer.detail] or "not an answer of the service" })
    end
    return answer
end

local function identify()
    session:execute("unset", "sip_h_X-Caller-Spam") -- a caller's own is passed on otherwise
    local privacy = session:getVariable("privacy_hide_number")
    local number = full_number(session:getVariable("caller_id_number") or "")
    if not number or privacy == "true" then
        return
    end
    local data = search(number, session:get_uuid()).data
    local a = type(data.source_a) == "table" and data.source_a or {}
    local b = type(data.source_b) == "table" and data.source_b or {}
    local name = clean_name(a.name)
    if name == "" then
        name = clean_name(b.name)
    end
    if b.spam == true then
        name = setting("SPAM_MARK", "Spam: ") .. (name ~= "" and name or "+" .. number)
        session:setVariable("caller_spam", "yes")
        session:execute("export", "nolocal:sip_h_X-Caller-Spam=yes")
    end
    if name ~= "" then
        -- mod_sofia takes the name for an address: it would remove what is before "/" or ":" and after "@".
        session:setVariable("effective_caller_id_name", (name:gsub("[/:@]", " "):gsub(" +", " "):gsub("^ ", ""):gsub(" $", "")))
    end
end

-- What `docs/telephone-systems.md` lists. A search that costs a credit.
local function check()
    local number = full_number(argv[2] or "+12025550143")
    if not number then
        error({ reason = "not a number with a country code" })
    end
    stream:write(string.format("OK, %d credits left\n", search(number, "check-" .. os.time()).credits_remaining))
end

-- Whatever fails, the call goes on unchanged.
local checking = argv and argv[1] == "check"
local succeeded, failure = pcall(checking and check or identify)
if not succeeded then
    -- Messages of our own only: others may quote what was sent.
    local reason = type(failure) == "table" and failure.reason or "not an answer of the service"
    if checking then
        stream:write(reason .. "\n")
    else
        freeswitch.consoleLog("warning", "caller identification: no name, " .. reason .. "\n")
    end
end
