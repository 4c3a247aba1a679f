-- Stands in for FreeSWITCH: runs the script arg[1] for each line of standard input (number, tab, privacy_hide_number), and
-- prints what it did as a line of JSON; or with the arguments after it. API():execute("curl", ...) reads its arguments as
-- mod_curl does in the version that FREESWITCH names, and calls curl.
local cjson = require("cjson")

-- How long a second of a time limit is: on a busy machine, a test that waits for none sets more.
local SECOND = tonumber(os.getenv("SECOND") or 1)

local function read(command)
    local pipe = io.popen(command)
    local output = pipe:read("a")
    pipe:close()
    return output
end

local function quoted(text)
    return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- Words as switch_utils.c separates them by spaces: the last of `size` words is all the rest. Quotes and escapes are removed.
local function clean(word)
    local out, last, quoted, position = {}, 0, false, 1
    word = word:gsub("^ +", "")
    while position <= #word do
        local character, following = word:sub(position, position), word:sub(position + 1, position + 1)
        local escaped = ({ ["'"] = "'", ['"'] = '"', ["\\"] = "\\", n = "\n", r = "\r", t = "\t", s = " " })[following]
        if character == "\\" and escaped then
            out[#out + 1], position = escaped, position + 1
            last = #out
        elseif character == "'" and (quoted or word:find("'", position + 1, true)) then
            quoted = not quoted
        else
            out[#out + 1] = character
            if character ~= " " or quoted then
                last = #out
            end
        end
        position = position + 1
    end
    return table.concat(out, "", 1, last)
end

local function separate(text, size)
    local words, position = {}, 1
    while position <= #text do
        local stop, quoted = text:find("[^ ]", position) or #text + 1, false
        while stop <= #text and #words < size - 1 do
            local character = text:sub(stop, stop)
            if character == "\\" then
                stop = stop + 1
            elseif character == "'" then
                quoted = not quoted
            elseif character == " " and not quoted then
                break
            end
            stop = stop + 1
        end
        if #words == size - 1 then
            stop = #text + 1
        end
        words[#words + 1] = clean(text:sub(position, stop - 1))
        position = text:find("[^ ]", stop) or #text + 1
    end
    return words
end

local WITH_VALUE = {}
for word in ("post patch put delete connect-timeout timeout content-type append_headers proxy"):gmatch("%S+") do
    WITH_VALUE[word] = true
end

-- The API command of mod_curl.c, in FreeSWITCH 1.10.7 to 1.10.12 and in 1.11.
local function mod_curl(arguments)
    local newer = os.getenv("FREESWITCH") == "1.11"
    local words = separate(arguments, newer and 31 or 10)
    if newer and #words > 30 then
        return "COMMAND RETURNED ERROR!\n"
    end
    local command, method, data, content_type, insecure, json = { "curl", "--silent", "--location" }, "get", "", nil, true, false
    local position = 2
    while position <= #words do
        local word, value = words[position]:lower(), words[position + 1]
        position = position + 1
        if word == "json" then
            json = true
        elseif word == "secure" or word == "insecure" then
            insecure = word == "insecure"
        elseif word == "get" or word == "head" then
            method = word
        elseif WITH_VALUE[word] then
            position = position + 1
            if word == "timeout" then
                command[#command + 1] = "--max-time " .. value * SECOND
            elseif word == "connect-timeout" then
                command[#command + 1] = "--connect-timeout " .. value * SECOND
            elseif word == "append_headers" then
                command[#command + 1] = "--header " .. quoted(value)
            elseif word == "content-type" then
                content_type = value
            else
                assert(word == "post", word)
                method = word
                data = (value or ""):gsub("%%(%x%x)", function(hex)
                    return string.char(tonumber(hex, 16))
                end)
            end
        end -- another word is ignored
    end
    if method == "post" then
        command[#command + 1] = "--data-binary " .. quoted(data)
        command[#command + 1] = content_type and "--header " .. quoted("Content-Type: " .. content_type)
    end
    command[#command + 1] = insecure and "--insecure" or nil
    command[#command + 1] = "--write-out '\\n%{http_code}' " .. quoted(words[1])
    local body, status = read(table.concat(command, " ")):match("^(.*)\n(%d+)$")
    -- What arrived before the time limit, up to max-bytes.
    body = body:sub(1, 64000)
    return json and cjson.encode({ status_code = tostring(tonumber(status)), body = body }) or body
end

freeswitch = {
    API = function()
        return {
            execute = function(_, name, arguments)
                return name == "curl" and not os.getenv("WITHOUT_MOD_CURL") and mod_curl(arguments) or "INVALID COMMAND!\n"
            end,
        }
    end,
    JSON = function()
        return {
            decode = function(_, text)
                local valid, value = pcall(cjson.decode, text)
                return valid and type(value) == "table" and value or nil
            end,
        }
    end,
}

if arg[2] then -- fs_cli -x "lua callerid.lua check"
    argv = { table.unpack(arg, 2) }
    stream = {
        write = function(_, text)
            io.write(text)
        end,
    }
    return dofile(arg[1])
end
argv = {}
for line in io.lines() do
    local number, hidden = line:match("^(.*)\t(.*)$")
    local done = { variables = {}, executed = {}, log = {} }
    session = {
        getVariable = function(_, name)
            return ({ caller_id_number = number, privacy_hide_number = hidden })[name]
        end,
        get_uuid = function()
            return "b2bf3b0a-" .. number:gsub("%D", "")
        end,
        setVariable = function(_, name, value)
            assert(not value:find("[$][{(]"))
            done.variables[name] = value
        end,
        execute = function(_, application, data)
            table.insert(done.executed, application .. " " .. data)
        end,
    }
    freeswitch.consoleLog = function(_, message)
        table.insert(done.log, message)
    end
    dofile(arg[1])
    print(cjson.encode(done))
    io.flush()
end
