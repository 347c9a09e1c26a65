-- What a script may use. Python calls this with the functions that it gives:
--   write(text)            prints
--   open_package(name)     returns the functions of a package by their names, or nil and why not
-- and gets back: run(script, names), wrap(function), array(), is_array(table), collect().
--
-- Scripts see a table of their own instead of the real globals. It holds no function of Python's:
-- each is behind a function of Lua's, so that a script gets no object of Python's into its hands,
-- and an error is a text as in any Lua.
local write, open_package = ...

local assert, error, getmetatable, ipairs, load, next, pairs, pcall, rawequal, rawget, rawlen, rawset,
  select, setmetatable, tonumber, tostring, type, xpcall, collectgarbage =
  assert, error, getmetatable, ipairs, load, next, pairs, pcall, rawequal, rawget, rawlen, rawset,
  select, setmetatable, tonumber, tostring, type, xpcall, collectgarbage
local concat, traceback = table.concat, debug.traceback
local env = {}

local function copy(library)
  local copied = {}
  for name, value in next, library do copied[name] = value end
  return copied
end

string.dump = nil -- strings find the library itself, not a copy
env._G, env._VERSION = env, _VERSION
env.assert, env.error, env.getmetatable, env.ipairs, env.next = assert, error, getmetatable, ipairs, next
env.pairs, env.pcall, env.rawequal, env.rawget, env.rawlen = pairs, pcall, rawequal, rawget, rawlen
env.rawset, env.select, env.setmetatable, env.tonumber = rawset, select, setmetatable, tonumber
env.tostring, env.type, env.xpcall = tostring, type, xpcall
env.table, env.string, env.math, env.bit32 = copy(table), string, copy(math), copy(bit32)
env.debug = { traceback = traceback }

function env.collectgarbage(what)
  if what == "count" then return collectgarbage("count") end
  return 0
end

function env.load(chunk, name, mode, ...)
  local scope = env
  if select("#", ...) > 0 then scope = ... end
  return load(chunk, name, "t", scope) -- never bytecode, which could do anything
end

function env.print(...)
  local texts = {}
  for index = 1, select("#", ...) do
    local text = tostring((select(index, ...)))
    if type(text) ~= "string" then error("'tostring' must return a string to 'print'", 2) end
    texts[index] = text
  end
  write(concat(texts, "\t") .. "\n")
end

local function finish(ok, ...)
  if ok then return ... end
  error((...), 2) -- the call below is a tail call: this is where the script called
end

local function wrap(call)
  return function(...) return finish(call(...)) end
end

local function array()
  return setmetatable({}, { _is_array = true })
end
env.array = array

local function is_array(value)
  local meta = getmetatable(value)
  return type(meta) == "table" and rawget(meta, "_is_array") == true
end

local loaded = {}

function env.require(name)
  if type(name) ~= "string" then error("require: the name of a package is expected", 2) end
  if loaded[name] == nil then
    local functions, reason = open_package(name)
    if functions == nil then error(reason, 2) end
    local package = {}
    for each, call in next, functions do package[each] = wrap(call) end
    loaded[name] = package
  end
  return loaded[name]
end

local function run(script, names)
  for name, value in next, names do env[name] = value end
  local chunk, problem = load(script, "lua", "t", env)
  if chunk == nil then return problem end
  local ok, reason = xpcall(chunk, function(thrown) return tostring(thrown) end)
  if ok then return nil end
  if type(reason) ~= "string" then return "the script failed without a reason" end
  return reason
end

local globals = _G
for name in next, copy(globals) do globals[name] = nil end
return run, wrap, array, is_array, collectgarbage
