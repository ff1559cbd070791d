// usage: node webhdfs.js FOLDER ADVERTISED_PORT [--no-replace] [--tls KEY CERTIFICATE]
//
// A WebHDFS server (npm webhdfs-proxy: its requests, checks, redirections and
// errors) over a folder. What the operations do to files is below, after the
// WebHDFS page of Hadoop's documentation. Prints its port. ADVERTISED_PORT is
// what redirections name; 0: its own. With --no-replace it ignores
// renameoptions, as HttpFS does. With --tls it speaks HTTPS alone.
'use strict';

const fs = require('fs');
const path = require('path');
const { createServer, WebHDFSAPIError } = require('webhdfs-proxy');

const [root, advertised, ...flags] = process.argv.slice(2);
const canReplace = !flags.includes('--no-replace');

function answer(res, status, value) {
  const body = value === undefined ? '' : JSON.stringify(value);
  res.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  res.end(body);
}

function refuse(res, status, exception, message) {
  const javaClassName = 'org.apache.hadoop.fs.' + exception;
  answer(res, status, { RemoteException: { exception, javaClassName, message } });
}

function statOf(file) {
  return fs.statSync(file, { throwIfNoEntry: false });
}

function describe(stat, suffix) {
  return {
    accessTime: Math.trunc(stat.atimeMs),
    blockSize: 134217728,
    fileId: stat.ino,
    group: 'supergroup',
    length: stat.isDirectory() ? 0 : stat.size,
    modificationTime: Math.trunc(stat.mtimeMs),
    owner: 'tester',
    pathSuffix: suffix,
    permission: '644',
    replication: 1,
    type: stat.isDirectory() ? 'DIRECTORY' : 'FILE',
  };
}

function store(req, res, next, file, flags) {
  // What has arrived stays, also when the connection breaks: as on a datanode.
  const fd = fs.openSync(file, flags);
  req.on('data', data => fs.writeSync(fd, data));
  req.on('end', () => answer(res, flags === 'w' ? 201 : 200));
  req.on('close', () => fs.closeSync(fd));
}

function rename(res, file, to, replace) {
  const source = statOf(file);
  let target = statOf(to);
  if (replace && canReplace) {
    if (!source) {
      return refuse(res, 404, 'FileNotFoundException', 'rename source is not found');
    }
    if (target && target.isDirectory()) {
      return refuse(res, 403, 'FileAlreadyExistsException', 'rename destination exists');
    }
    fs.renameSync(file, to);
    return answer(res, 200);
  }
  if (target && target.isDirectory()) { // moved into it
    to = path.join(to, path.basename(file));
    target = statOf(to);
  }
  const parent = statOf(path.dirname(to));
  const done = Boolean(source && !target && parent && parent.isDirectory());
  if (done) {
    fs.renameSync(file, to);
  }
  return answer(res, 200, { boolean: done });
}

const operations = {
  mkdirs(name, file, params, req, res) {
    try {
      fs.mkdirSync(file, { recursive: true });
    } catch (error) {
      return refuse(res, 403, 'ParentNotDirectoryException', name + ' is not a directory');
    }
    return answer(res, 200, { boolean: true });
  },

  create(name, file, params, req, res, next) {
    const stat = statOf(file);
    if (stat && (stat.isDirectory() || params.overwrite !== true)) {
      return refuse(res, 403, 'FileAlreadyExistsException', name + ' already exists');
    }
    fs.mkdirSync(path.dirname(file), { recursive: true });
    return store(req, res, next, file, 'w');
  },

  append(name, file, params, req, res, next) {
    if (!statOf(file)) {
      return next(new WebHDFSAPIError('FileNotFoundException', { path: name }));
    }
    return store(req, res, next, file, 'a');
  },

  open(name, file, params, req, res, next) {
    const stat = statOf(file);
    if (!stat || stat.isDirectory()) {
      return next(new WebHDFSAPIError('FileNotFoundException', { path: name }));
    }
    const start = Number(params.offset || 0);
    const length = Math.min(Number(params.length || stat.size), stat.size - start);
    res.writeHead(200, { 'content-length': length });
    if (length === 0) {
      return res.end();
    }
    return fs.createReadStream(file, { start, end: start + length - 1 }).pipe(res);
  },

  delete(name, file, params, req, res) {
    const was = Boolean(statOf(file));
    fs.rmSync(file, { recursive: params.recursive === true, force: true });
    return answer(res, 200, { boolean: was });
  },

  getfilestatus(name, file, params, req, res, next) {
    const stat = statOf(file);
    if (!stat) {
      return next(new WebHDFSAPIError('FileNotFoundException', { path: name }));
    }
    return answer(res, 200, { FileStatus: describe(stat, '') });
  },

  liststatus(name, file, params, req, res, next) {
    const stat = statOf(file);
    if (!stat) {
      return next(new WebHDFSAPIError('FileNotFoundException', { path: name }));
    }
    const entries = stat.isDirectory()
      ? fs.readdirSync(file).map(each => describe(fs.statSync(path.join(file, each)), each))
      : [describe(stat, '')];
    return answer(res, 200, { FileStatuses: { FileStatus: entries } });
  },

  rename(name, file, params, req, res) {
    return rename(res, file, path.join(root, String(params.destination)),
      params.renameoptions === 'OVERWRITE');
  },
};

const server = { port: { host: '127.0.0.1', port: 0 } }; // as listen() takes it
const tls = flags.indexOf('--tls');
if (tls >= 0) {
  [server.key, server.cert] = flags.slice(tls + 1, tls + 3);
}
createServer({ host: '127.0.0.1', [tls >= 0 ? 'https' : 'http']: server }, (error, name, operation, params, req, res, next) => {
  if (error) {
    return next(error);
  }
  name = decodeURIComponent(name);
  try {
    return operations[operation](name, path.join(root, name), params, req, res, next);
  } catch (failure) { // a path below a file
    return failure.code === 'ENOTDIR'
      ? next(new WebHDFSAPIError('FileNotFoundException', { path: name }))
      : next(failure);
  }
}, (error, servers) => {
  if (error) {
    throw error;
  }
  const ready = () => {
    const { port } = servers[0].address();
    server.port = Number(advertised) || port;
    console.log(port);
  };
  if (servers[0].listening) {
    ready();
  } else {
    servers[0].on('listening', ready);
  }
});
