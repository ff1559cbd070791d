#include <ctime>

#include "argosy/common/net.h"
#include "argosy/common/text.h"
#include "argosy/fs/s3.h"
#include "argosy/fs/xml.h"

namespace argosy::fs {

namespace {

constexpr std::string_view kMarkHeader = "x-amz-meta-argosy-upload";
constexpr int kS3PartMegabytes = 8;

// "2026-11-18T01:02:03.000Z" and "Wed, 18 Nov 2026 01:02:03 GMT".
std::chrono::system_clock::time_point parse_time(
    const std::string& text, const char* format) {
  std::tm parts{};
  if (::strptime(text.c_str(), format, &parts) == nullptr) {
    return {};
  }
  return std::chrono::system_clock::from_time_t(::timegm(&parts));
}
constexpr const char* kIsoTime = "%Y-%m-%dT%H:%M:%S";
constexpr const char* kHttpTime = "%a, %d %b %Y %H:%M:%S";

std::string header(const HttpResult& result, const std::string& name) {
  const auto found = result.headers.find(name);
  return found == result.headers.end() ? "" : found->second;
}

bool is_s3_transient(const HttpResult& result) {
  return is_passing_status(result.status) ||
      // Copies and completions may fail after their status was sent.
      (result.status == 200 &&
       result.body.find("<Error>") != std::string::npos);
}

std::string s3_text(const HttpResult& result) {
  const std::string code = xml_text(result.body, "Code");
  return code.empty() ? result.body
                      : str(code, ": ", xml_text(result.body, "Message"));
}

bool is_loopback(const std::string& endpoint) {
  return endpoint.find("://127.") != std::string::npos ||
      endpoint.find("://localhost") != std::string::npos ||
      endpoint.find("://[::1]") != std::string::npos;
}

} // namespace

S3Address s3_address(
    const std::string& bucket, const Environment& environment) {
  const std::string region = environment.get(
      "AWS_REGION", environment.get("AWS_DEFAULT_REGION", "us-east-1"));
  std::string endpoint = environment.get(
      "AWS_ENDPOINT_URL_S3",
      environment.get(
          "AWS_ENDPOINT_URL", str("https://s3.", region, ".amazonaws.com")));
  while (endpoint.ends_with('/')) {
    endpoint.pop_back();
  }
  const std::string key_id = environment.get("AWS_ACCESS_KEY_ID", "");
  const std::string secret = environment.get("AWS_SECRET_ACCESS_KEY", "");
  ARGOSY_CHECK(
      key_id.empty() == secret.empty(),
      "[fs.open] s3://{}: only one of AWS_ACCESS_KEY_ID and "
      "AWS_SECRET_ACCESS_KEY is set, expected both, or none for public data",
      bucket);
  return {
      .bucket = bucket,
      .endpoint = endpoint,
      .region = region,
      .key_id = key_id,
      .secret = secret,
      .session_token = environment.get("AWS_SESSION_TOKEN", ""),
      .certificates = environment.get("AWS_CA_BUNDLE", ""),
      .part_bytes = part_bytes(environment, kS3PartMegabytes)};
}

S3Listing parse_s3_listing(std::string_view xml) {
  S3Listing listing;
  for (const std::string& each : xml_texts(xml, "Contents")) {
    listing.objects.push_back(
        {.key = xml_text(each, "Key"),
         .bytes = static_cast<std::uint64_t>(
             parse_int(xml_text(each, "Size")).value_or(0)),
         .etag = xml_text(each, "ETag"),
         .modified = parse_time(xml_text(each, "LastModified"), kIsoTime)});
  }
  for (const std::string& each : xml_texts(xml, "CommonPrefixes")) {
    listing.prefixes.push_back(xml_text(each, "Prefix"));
  }
  if (xml_text(xml, "IsTruncated") == "true") {
    listing.next = xml_text(xml, "NextContinuationToken");
  }
  return listing;
}

S3Client::S3Client(S3Address address, const Environment& environment)
    : address_(std::move(address)),
      remote_(environment, &is_s3_transient, &s3_text) {}

std::string S3Client::url(const std::string& key) const {
  return str("s3://", address_.bucket, "/", key);
}

HttpRequest S3Client::request(
    std::string_view method,
    const std::string& key,
    const Query& query,
    std::string_view body) const {
  std::string url =
      str(address_.endpoint,
          "/",
          percent_encode(address_.bucket),
          "/",
          percent_encode(key, true));
  char separator = '?';
  for (const auto& [name, value] : query) {
    url += str(separator, name, "=", percent_encode(value));
    separator = '&';
  }
  HttpRequest request{
      .method = std::string(method),
      .url = std::move(url),
      .headers = {},
      .body = body,
      .use_proxy = !is_loopback(address_.endpoint),
      .certificates = address_.certificates};
  if (method == "PUT" || method == "POST") {
    request.headers.emplace_back("Content-Type: application/octet-stream");
  }
  if (!address_.key_id.empty()) {
    request.signing = {address_.region, "s3", address_.key_id, address_.secret};
    if (!address_.session_token.empty()) {
      request.headers.push_back(
          str("x-amz-security-token: ", address_.session_token));
    }
  }
  return request;
}

HttpResult S3Client::ask(
    HttpRequest request, const Task& task, Deadline deadline) {
  RemoteAnswer answer = remote_.ask(std::move(request), task, deadline);
  if (!answer.is_ok()) {
    remote_.refuse(answer.http, task);
  }
  return std::move(answer.http);
}

std::optional<S3Object> S3Client::head(
    const std::string& key, std::string_view op, Deadline deadline) {
  const Task task{op, url(key)};
  const RemoteAnswer answer = remote_.ask(request("HEAD", key), task, deadline);
  if (answer.status() == 404) {
    return std::nullopt;
  }
  if (!answer.is_ok()) {
    remote_.refuse(answer.http, task);
  }
  return S3Object{
      .key = key,
      .bytes = static_cast<std::uint64_t>(
          parse_int(header(answer.http, "content-length")).value_or(0)),
      .etag = header(answer.http, "etag"),
      .upload_id = header(answer.http, std::string(kMarkHeader)),
      .modified = parse_time(header(answer.http, "last-modified"), kHttpTime)};
}

S3Listing S3Client::list(
    const ListQuery& query, std::string_view op, Deadline deadline) {
  Query parameters = {
      {"list-type", "2"},
      {"max-keys", std::to_string(query.max_keys)},
      {"prefix", query.prefix}};
  if (!query.delimiter.empty()) {
    parameters["delimiter"] = query.delimiter;
  }
  if (!query.token.empty()) {
    parameters["continuation-token"] = query.token;
  }
  return parse_s3_listing(
      ask(request("GET", "", parameters), {op, url(query.prefix)}, deadline)
          .body);
}

void S3Client::put(
    const std::string& key, std::string_view body, Deadline deadline) {
  ask(request("PUT", key, {}, body), {"commit", url(key)}, deadline);
}

void S3Client::remove(const std::string& key, Deadline deadline) {
  const Task task{"remove", url(key)};
  const RemoteAnswer answer =
      remote_.ask(request("DELETE", key), task, deadline);
  if (!answer.is_ok() && answer.status() != 404) {
    remote_.refuse(answer.http, task);
  }
}

void S3Client::copy(
    const std::string& from,
    const std::string& to,
    std::string_view op,
    Deadline deadline) {
  HttpRequest copy = request("PUT", to);
  copy.headers.push_back(
      str("x-amz-copy-source: /",
          percent_encode(address_.bucket),
          "/",
          percent_encode(from, true)));
  ask(std::move(copy), {op, url(from)}, deadline);
}

void S3Client::read(
    const S3Object& object,
    std::uint64_t offset,
    std::span<std::byte> into,
    Deadline deadline) {
  const Task task{"read", url(object.key)};
  const auto range = [&](std::uint64_t from, std::uint64_t count) {
    HttpRequest get = request("GET", object.key);
    get.headers.push_back(str("Range: bytes=", from, "-", from + count - 1));
    get.headers.push_back(str("If-Match: ", object.etag));
    return get;
  };
  const auto check = [&](const HttpResult& result) {
    const bool is_ok = result.status / 100 == 2;
    if (result.status == 412 ||
        (is_ok && header(result, "etag") != object.etag)) {
      throw FsError(
          Failure::Broken,
          str("[fs.read] ",
              task.url,
              ": was replaced while it was read: open it again"));
    }
    if (result.status == 200 && into.size() != object.bytes) {
      throw FsError(
          Failure::Other,
          str("[fs.read] ",
              task.url,
              ": the server gave the whole object, expected a range"));
    }
  };
  remote_.read_range(offset, into, range, check, task, deadline);
}

std::string S3Client::begin_upload(
    const std::string& key, const std::string& mark, Deadline deadline) {
  HttpRequest begin = request("POST", key, {{"uploads", ""}});
  begin.headers.push_back(str(kMarkHeader, ": ", mark));
  const Task task{"write", url(key)};
  const HttpResult result = ask(std::move(begin), task, deadline);
  std::string id = xml_text(result.body, "UploadId");
  if (id.empty()) {
    throw FsError(
        Failure::Broken,
        str("[fs.write] ", task.url, ": the server gave no UploadId"));
  }
  return id;
}

std::string S3Client::put_part(
    const std::string& key,
    const std::string& upload,
    int number,
    std::string_view body,
    const std::atomic<bool>& cancelled,
    Deadline deadline) {
  const Query query = {
      {"partNumber", std::to_string(number)}, {"uploadId", upload}};
  HttpRequest put = request("PUT", key, query, body);
  put.cancelled = &cancelled;
  // The same number again replaces the part.
  return header(ask(std::move(put), {"write", url(key)}, deadline), "etag");
}

void S3Client::complete_upload(
    const std::string& key,
    const std::string& upload,
    const std::string& mark,
    const std::vector<std::string>& etags,
    Deadline deadline) {
  std::string body = "<CompleteMultipartUpload>";
  for (std::size_t i = 0; i < etags.size(); ++i) {
    body +=
        str("<Part><PartNumber>",
            i + 1,
            "</PartNumber><ETag>",
            xml_escape(etags[i]),
            "</ETag></Part>");
  }
  body += "</CompleteMultipartUpload>";
  const Task task{"commit", url(key)};
  const RemoteAnswer answer = remote_.ask(
      request("POST", key, {{"uploadId", upload}}, body), task, deadline);
  if (answer.is_ok()) {
    return;
  }
  // No such upload: an earlier try may have completed it.
  if (answer.may_be_second) {
    const auto object = head(key, task.op, deadline);
    if (object && object->upload_id == mark) {
      return;
    }
  }
  remote_.refuse(answer.http, task);
}

void S3Client::abort_upload(
    const std::string& key, const std::string& upload, Deadline deadline) {
  const Task task{"abort", url(key)};
  const RemoteAnswer answer = remote_.ask(
      request("DELETE", key, {{"uploadId", upload}}), task, deadline);
  if (!answer.is_ok() && answer.status() != 404) {
    remote_.refuse(answer.http, task);
  }
}

std::vector<S3Client::Upload> S3Client::uploads(
    const std::string& prefix, Deadline deadline) {
  std::vector<Upload> uploads;
  Query query = {{"prefix", prefix}, {"uploads", ""}};
  for (;;) {
    const HttpResult result =
        ask(request("GET", "", query), {"sweep", url(prefix)}, deadline);
    for (const std::string& each : xml_texts(result.body, "Upload")) {
      uploads.push_back(
          {xml_text(each, "Key"),
           xml_text(each, "UploadId"),
           parse_time(xml_text(each, "Initiated"), kIsoTime)});
    }
    if (xml_text(result.body, "IsTruncated") != "true") {
      return uploads;
    }
    query["key-marker"] = xml_text(result.body, "NextKeyMarker");
    query["upload-id-marker"] = xml_text(result.body, "NextUploadIdMarker");
  }
}

} // namespace argosy::fs
