// Starts the Cosmos DB emulator of npm on a port of the loopback address, in memory:
//   node server.js FOLDER PORT LEVEL
// FOLDER is that of its package.
// LEVEL is the consistency that its account is said to have.
const [folder, port, level] = process.argv.slice(2);

// It fails to look for an item that is not there, and answers 500; the service answers 404.
const read = require(`${folder}/lib/handler/read-document.js`);
const { parsePartitionKey } = require(`${folder}/lib/utils/get-partition-from-header.js`);
read.default = (account, req, res, { dbId, collId, docId }) => {
  const partition = parsePartitionKey(req.headers["x-ms-documentdb-partitionkey"], docId);
  const found = account.database(dbId).collection(collId).document(docId, partition).read();
  res.statusCode = found ? 200 : 404;
  return found || { code: "NotFound", message: "there is no such item" };
};

const account = require(`${folder}/lib/account/index.js`).default;
const describe = account.prototype.read;
account.prototype.read = function () {
  return { ...describe.call(this), userConsistencyPolicy: { defaultConsistencyLevel: level } };
};

const { createHttpServer } = require(`${folder}/lib/index.js`);
const server = createHttpServer({ keepAlive: true });
// A request that a proxy holds must find its connection open.
server.keepAliveTimeout = 600000;
server.requestTimeout = 0;
server.listen(Number(port), "127.0.0.1");
