-- Stands in for FreeSWITCH: runs the script arg[1] for each line of standard input (number, tab, privacy_hide_number), and
-- prints what it did as a line of JSON. API():execute("curl", ...) reads its arguments as mod_curl does, and calls curl.
local cjson = require("cjson")

local function read(command)
    local pipe = io.popen(command)
    local output = pipe:read("a")
    pipe:close()
    return output
end

local function quoted(text)
    return "'" .. text:gsub("'", "'\\''") .. "'"
end

local function mod_curl(arguments)
    local words = {}
    for word in arguments:gmatch("[^ ]+") do
        words[#words + 1] = word
    end
    local url, command, position = words[1], { "curl", "--silent", "--location" }, 2
    while position <= #words do
        local word, value = words[position], words[position + 1]
        position = position + 2
        if word == "json" or word == "secure" then
            position = position - 1
        elseif word == "connect-timeout" then
            command[#command + 1] = "--connect-timeout " .. quoted(value)
        elseif word == "timeout" then
            command[#command + 1] = "--max-time " .. quoted(value)
        elseif word == "content-type" then
            command[#command + 1] = "--header " .. quoted("Content-Type: " .. value)
        elseif word == "append_headers" then
            command[#command + 1] = "--header " .. quoted(value)
        elseif word == "post" then
            local data = value:gsub("%%(%x%x)", function(hex)
                return string.char(tonumber(hex, 16))
            end)
            command[#command + 1] = "--data-binary " .. quoted(data)
        else
            error("mod_curl does not know " .. word)
        end
    end
    command[#command + 1] = "--write-out '\\n%{http_code}' " .. quoted(url)
    local body, status = read(table.concat(command, " ")):match("^(.*)\n(%d+)$")
    -- As mod_curl's json format. It keeps what arrived before the time limit, up to max-bytes.
    return cjson.encode({ status_code = tostring(tonumber(status)), body = body:sub(1, 64000) })
end

freeswitch = {
    API = function()
        return {
            execute = function(_, name, arguments)
                assert(name == "curl")
                return mod_curl(arguments)
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
