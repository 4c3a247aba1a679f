-- The caller's name and spam classification for an incoming call in FreeSWITCH, with mod_lua and mod_curl (1.10 or newer).
--
--   <action application="lua" data="callerid.lua"/>     in the dialplan, before bridge
--
-- Sets effective_caller_id_name and, for a spam caller, caller_spam=yes and the header X-Caller-Spam of the outgoing INVITE.
-- It is tested with Lua 5.4 and a program in FreeSWITCH's place that calls over HTTP; it has not been run by FreeSWITCH, of
-- which Debian 12 has no package. docs/telephone-systems.md describes the installation.
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

-- The number with its country code, digits only, or nil.
local function full_number(caller)
    local digits = caller:gsub("[-.() ]", "")
    local country, trunk = setting("COUNTRY_CODE"), setting("TRUNK_PREFIX")
    local international = setting("INTERNATIONAL_PREFIX", "00")
    if digits:find("^%+%d+$") then
        digits = digits:sub(2)
    elseif not digits:find("^%d+$") then
        return nil
    elseif begins(digits, international) then
        digits = digits:sub(#international + 1)
    elseif country ~= "" and begins(digits, trunk) then
        digits = country .. digits:sub(#trunk + 1)
    elseif country ~= "" and #digits == tonumber(setting("NATIONAL_DIGITS")) then
        digits = country .. digits
    end
    if digits:find("^[1-9]%d+$") and #digits >= 7 and #digits <= 15 then
        return digits
    end
    return nil
end

-- A name that fits between quotes: one line, at most 64 bytes of UTF-8, nothing invisible and nothing that SIP or
-- FreeSWITCH interprets. Decimal escapes, for Lua 5.1.
local function clean_name(name)
    if type(name) ~= "string" then
        return ""
    end
    name = name:gsub("%z", " "):gsub('[%c"\\<>;]', " ")
    name = name:gsub("\194[\128-\159]", " ") -- C1 controls
    name = name:gsub("\226\128[\139-\143\168-\174]", " "):gsub("\226\129[\160-\175]", " "):gsub("\239\187\191", " ")
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

-- The answer's `data`. Raises an error if there is no valid one.
local function search(number, call)
    local json = freeswitch.JSON()
    local body = '{"api_key":"' .. setting("API_KEY") .. '","query":"' .. number .. '"}'
    local encoded = body:gsub("[^%w]", function(character)
        return string.format("%%%02X", character:byte())
    end)
    local command = table.concat({
        setting("URL", "http://127.0.0.1:8000/callerid/search"), "json",
        "connect-timeout", TIMEOUT_S, "timeout", TIMEOUT_S, "secure",
        "content-type", "application/json", "append_headers", "Idempotency-Key:freeswitch-" .. call,
        "post", encoded,
    }, " ")
    local response = json:decode(freeswitch.API():execute("curl", command))
    if tostring(response.status_code) ~= "200" then
        error("status " .. tostring(response.status_code), 0)
    end
    if #response.body > MAX_ANSWER_BYTES then
        error("answer too long", 0)
    end
    return json:decode(response.body).data
end

local function identify()
    session:execute("unset", "sip_h_X-Caller-Spam") -- a caller's own is passed on otherwise
    local privacy = session:getVariable("privacy_hide_number")
    local number = full_number(session:getVariable("caller_id_number") or "")
    if not number or privacy == "true" then
        return
    end
    local data = search(number, session:get_uuid())
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
        session:setVariable("effective_caller_id_name", name)
    end
end

-- Whatever fails, the call goes on unchanged. Messages of our own only: others may quote what was sent.
local succeeded, reason = pcall(identify)
if not succeeded then
    reason = tostring(reason)
    if not (reason:find("^status %w+$") or reason == "answer too long") then
        reason = "not an answer of the service"
    end
    freeswitch.consoleLog("warning", "caller identification: no name, " .. reason .. "\n")
end
