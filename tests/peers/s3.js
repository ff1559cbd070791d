// usage: node s3.js FOLDER BUCKET [KEY CERTIFICATE]
//
// An S3 server (npm s3rver) behind a check that it lacks: signatures of version
// 4 and hashes of bodies, as npm aws4 computes them. Two operations that s3rver
// lacks, AbortMultipartUpload and ListMultipartUploads, act on its folder, and
// the source of a copy is decoded as S3 does it. Keys are S3RVER / S3RVER. With a
// key and a certificate it speaks HTTPS. Prints its port.
'use strict';

const aws4 = require('aws4');
const crypto = require('crypto');
const fs = require('fs');
const http = require('http');
const https = require('https');
const path = require('path');
const S3rver = require('s3rver');

const [root, bucket, key, certificate] = process.argv.slice(2);
const uploadsFolder = path.join(root, bucket, '._S3rver_uploads');

function send(res, status, body) {
  res.writeHead(status, { 'content-type': 'application/xml', 'content-length': Buffer.byteLength(body) });
  res.end(body);
}

function refuse(res, status, code, message) {
  send(res, status, `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${message}</Message></Error>`);
}

// The Authorization header that this request should have.
function expectedAuthorization(req, given) {
  const [, keyId, , region, service, names] =
    /Credential=([^/]+)\/(\d+)\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([^,]+)/.exec(given);
  const headers = {};
  const extraHeadersToInclude = {};
  for (const name of names.split(';')) {
    headers[name] = req.headers[name];
    extraHeadersToInclude[name] = true;
  }
  const signed = aws4.sign(
    { method: req.method, path: req.url, host: req.headers.host, service, region, headers,
      extraHeadersToInclude },
    { accessKeyId: keyId, secretAccessKey: 'S3RVER' });
  return signed.headers.Authorization;
}

const signatureOf = header => /Signature=([0-9a-f]+)/.exec(header)[1];

// What is wrong with a request: [status, code, message] or undefined.
function problem(req, body) {
  const given = req.headers.authorization;
  if (!given) {
    return [403, 'AccessDenied', 'Access Denied'];
  }
  const hash = crypto.createHash('sha256').update(body).digest('hex');
  if (req.headers['x-amz-content-sha256'] !== hash) {
    return [400, 'XAmzContentSHA256Mismatch', 'The hash of the body differs'];
  }
  if (signatureOf(given) !== signatureOf(expectedAuthorization(req, given))) {
    return [403, 'SignatureDoesNotMatch', 'The request signature we calculated does not match'];
  }
  return undefined;
}

function listUploads(res, prefix) {
  const ids = fs.existsSync(uploadsFolder) ? fs.readdirSync(uploadsFolder) : [];
  const uploads = ids.map(id => {
    const file = path.join(uploadsFolder, id, 'key');
    const key = fs.readFileSync(file, 'utf8');
    const began = fs.statSync(file).mtime.toISOString();
    return key.startsWith(prefix)
      ? `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>${began}</Initiated></Upload>`
      : '';
  });
  send(res, 200, `<ListMultipartUploadsResult>${uploads.join('')}</ListMultipartUploadsResult>`);
}

function forward(port, req, res, body) {
  const source = req.headers['x-amz-copy-source'];
  if (source) { // s3rver uses decodeURI(), which leaves %2B and others
    req.headers['x-amz-copy-source'] = encodeURI(decodeURIComponent(source));
  }
  const options = { host: '127.0.0.1', port, method: req.method, path: req.url, headers: req.headers };
  const inner = http.request(options, answer => {
    res.writeHead(answer.statusCode, answer.headers);
    answer.pipe(res);
  });
  inner.on('error', () => res.destroy());
  inner.end(body);
}

function handle(port, req, res, body) {
  const wrong = problem(req, body);
  if (wrong) {
    return refuse(res, ...wrong);
  }
  const query = new URL(req.url, 'http://host').searchParams;
  if (req.method === 'GET' && query.has('uploads')) {
    return listUploads(res, query.get('prefix') || '');
  }
  if (query.has('uploadId') && !fs.existsSync(path.join(uploadsFolder, query.get('uploadId')))) {
    return refuse(res, 404, 'NoSuchUpload', 'The specified upload does not exist.');
  }
  if (req.method === 'DELETE' && query.has('uploadId')) {
    fs.rmSync(path.join(uploadsFolder, query.get('uploadId')), { recursive: true });
    return send(res, 204, '');
  }
  return forward(port, req, res, body);
}

new S3rver({
  address: '127.0.0.1',
  port: 0,
  directory: root,
  silent: true,
  configureBuckets: [{ name: bucket }],
}).run().then(({ port }) => {
  const take = (req, res) => {
    const pieces = [];
    req.on('data', piece => pieces.push(piece));
    req.on('end', () => handle(port, req, res, Buffer.concat(pieces)));
  };
  const server = key
    ? https.createServer({ key: fs.readFileSync(key), cert: fs.readFileSync(certificate) }, take)
    : http.createServer(take);
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
});
