#include "argosy/fs/webhdfs.h"

namespace argosy::fs {

namespace {

using nlohmann::json;

// The exception in an answer: {"RemoteException": {"exception": "...", ...}}.
json remote_exception(const HttpResult& result) {
  const json body = json::parse(result.body, nullptr, false);
  return body.is_object() ? body.value("RemoteException", json::object())
                          : json::object();
}

std::string exception_name(const HttpResult& result) {
  return remote_exception(result).value("exception", "");
}

// Namenodes that start, fail over or repair answer with 403 and say so.
bool is_hdfs_transient(const HttpResult& result) {
  if (is_passing_status(result.status)) {
    return true;
  }
  if (result.status / 100 != 4) {
    return false;
  }
  const std::string name = exception_name(result);
  return name == "StandbyException" || name == "RetriableException" ||
      name == "SafeModeException" || name == "AlreadyBeingCreatedException" ||
      name == "RecoveryInProgressException" || name == "LeaseExpiredException";
}

std::string hdfs_text(const HttpResult& result) {
  const json exception = remote_exception(result);
  return exception.empty() ? result.body
                           : str(exception.value("exception", ""),
                                 ": ",
                                 exception.value("message", ""));
}

HttpRequest body_request(
    std::string_view method, const std::string& url, std::string_view body) {
  return {
      .method = std::string(method),
      .url = url,
      .headers = {"Content-Type: application/octet-stream", "Expect:"},
      .body = body};
}

} // namespace

WebHdfsClient::WebHdfsClient(
    WebHdfsAddress address, const Environment& environment)
    : address_(std::move(address)),
      remote_(environment, &is_hdfs_transient, &hdfs_text) {}

std::string WebHdfsClient::url(const std::string& path) const {
  return address_.root + path;
}

std::string WebHdfsClient::http_url(
    const std::string& path, std::string_view op, const Query& query) const {
  std::string url =
      str(address_.http, "/webhdfs/v1", percent_encode(path, true), "?op=", op);
  for (const auto& [name, value] : query) {
    url += str("&", name, "=", percent_encode(value));
  }
  return address_.user.empty()
      ? url
      : str(url, "&user.name=", percent_encode(address_.user));
}

RemoteAnswer WebHdfsClient::ask(
    std::string_view method,
    const std::string& http_url,
    const Task& task,
    Deadline deadline) {
  return remote_.ask(body_request(method, http_url, {}), task, deadline);
}

json WebHdfsClient::ask_json(
    std::string_view method,
    const std::string& http_url,
    const Task& task,
    Deadline deadline) {
  const RemoteAnswer answer = ask(method, http_url, task, deadline);
  if (answer.status() == 404) {
    return nullptr;
  }
  if (!answer.is_ok()) {
    remote_.refuse(answer.http, task);
  }
  const json body = json::parse(answer.http.body, nullptr, false);
  if (!body.is_object()) {
    throw FsError(
        Failure::Broken,
        str("[fs.",
            task.op,
            "] ",
            task.url,
            ": the answer is no JSON object: ",
            answer.http.body.substr(0, 200),
            "; expected a WebHDFS server there"));
  }
  return body;
}

json WebHdfsClient::status(
    const std::string& path, std::string_view op, Deadline deadline) {
  const json body = ask_json(
      "GET", http_url(path, "GETFILESTATUS"), {op, url(path)}, deadline);
  return body.is_null() ? body : body.value("FileStatus", json());
}

json WebHdfsClient::list_status(
    const std::string& path, std::string_view op, Deadline deadline) {
  const json body =
      ask_json("GET", http_url(path, "LISTSTATUS"), {op, url(path)}, deadline);
  if (body.is_null()) {
    return body;
  }
  return body.value("FileStatuses", json::object())
      .value("FileStatus", json::array());
}

void WebHdfsClient::make_dirs(const std::string& path, Deadline deadline) {
  const Task task{"make_dirs", url(path)};
  const json body = ask_json("PUT", http_url(path, "MKDIRS"), task, deadline);
  if (body.is_null() || !body.value("boolean", false)) {
    throw FsError(
        Failure::Other,
        str("[fs.make_dirs] ", task.url, ": the server made no folder"));
  }
}

void WebHdfsClient::remove(const std::string& path, Deadline deadline) {
  // Its answer is false if there was nothing, or an earlier try removed it.
  ask_json(
      "DELETE",
      http_url(path, "DELETE", {{"recursive", "true"}}),
      {"remove", url(path)},
      deadline);
}

bool WebHdfsClient::rename(
    const std::string& from,
    const std::string& to,
    bool replace,
    std::string_view op,
    Deadline deadline) {
  Query query = {{"destination", to}};
  if (replace) {
    query.emplace_back("renameoptions", "OVERWRITE");
  }
  const Task task{op, url(from)};
  const RemoteAnswer answer =
      ask("PUT", http_url(from, "RENAME", query), task, deadline);
  if (answer.status() == 404) {
    return false;
  }
  if (!answer.is_ok()) {
    remote_.refuse(answer.http, task);
  }
  // Servers that know OVERWRITE throw or answer with nothing.
  const json body = json::parse(answer.http.body, nullptr, false);
  return body.is_object() ? body.value("boolean", false) : true;
}

HttpResult WebHdfsClient::send_body(
    std::string_view method,
    const std::string& http_url,
    std::string_view body,
    const Task& task,
    Deadline deadline) {
  // The namenode names a datanode, which takes the body. Another try asks
  // again, because that datanode may be dead.
  const RemoteAnswer answer = ask(method, http_url, task, deadline);
  const auto location = answer.http.headers.find("location");
  if (answer.status() / 100 != 3 || location == answer.http.headers.end()) {
    if (answer.is_ok()) {
      throw FsError(
          Failure::Other,
          str("[fs.",
              task.op,
              "] ",
              task.url,
              ": the server took a request without its body, expected a "
              "redirection to a datanode"));
    }
    remote_.refuse(answer.http, task);
  }
  HttpResult result =
      remote_.try_once(body_request(method, location->second, body), deadline);
  if (remote_.is_final(result) && result.status / 100 != 2) {
    remote_.refuse(result, task);
  }
  return result;
}

void WebHdfsClient::create(
    const std::string& path, std::string_view body, Deadline deadline) {
  const Task task{"write", url(path)};
  const std::string target = http_url(path, "CREATE", {{"overwrite", "true"}});
  Tries tries(remote_, task, deadline);
  for (;;) { // overwrites what a try before has left
    tries.begin();
    const HttpResult result = send_body("PUT", target, body, task, deadline);
    if (remote_.is_final(result)) {
      return;
    }
    tries.failed(result);
  }
}

void WebHdfsClient::append(
    const std::string& path,
    std::uint64_t size,
    std::string_view body,
    Deadline deadline) {
  const Task task{"write", url(path)};
  Tries tries(remote_, task, deadline);
  for (std::uint64_t arrived = 0; arrived < body.size();) {
    tries.begin();
    const HttpResult result = send_body(
        "POST", http_url(path, "APPEND"), body.substr(arrived), task, deadline);
    if (remote_.is_final(result)) {
      return;
    }
    tries.failed(result);
    arrived = length(path, task.op, deadline) - size;
    if (arrived > body.size()) { // also if shorter than before
      throw FsError(
          Failure::Broken,
          str("[fs.write] ",
              task.url,
              ": has ",
              size + arrived,
              " bytes, expected ",
              size,
              " to ",
              size + body.size(),
              ": another program writes it too"));
    }
  }
}

std::uint64_t WebHdfsClient::length(
    const std::string& path, std::string_view op, Deadline deadline) {
  const json found = status(path, op, deadline);
  return found.is_object() ? found.value("length", std::uint64_t{0}) : 0;
}

void WebHdfsClient::read(
    const std::string& path,
    std::uint64_t offset,
    std::span<std::byte> into,
    Deadline deadline) {
  const Task task{"read", url(path)};
  const auto request = [&](std::uint64_t from, std::uint64_t count) {
    const std::string target = http_url(
        path,
        "OPEN",
        {{"offset", std::to_string(from)}, {"length", std::to_string(count)}});
    const RemoteAnswer answer = ask("GET", target, task, deadline);
    const auto location = answer.http.headers.find("location");
    if (answer.status() / 100 != 3 || location == answer.http.headers.end()) {
      remote_.refuse(answer.http, task);
    }
    return HttpRequest{.url = location->second};
  };
  remote_.read_range(
      offset, into, request, [](const HttpResult&) {}, task, deadline);
}

} // namespace argosy::fs
